"""PTX of capability 9.0 for tests: barriers and copies in shared memory, on both engines."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wia_compiler.backends.gpu.tools import find_tool
from wia_compiler.simulators.ptx import Launch, run
from wia_compiler.simulators.ptx.prepared import Prepared

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def text_of(
    body: str, *, parameters: str = ".param .u64 x", shared: str = "", head: str = HEAD
) -> str:
    """An entry ``k`` around a body; %r0 is the thread, %d0 the first parameter if a pointer.

    ``bar`` are eight barriers, ``tile`` 16 KiB of shared memory; %r1 and %r2 are their addresses.
    """
    first = "ld.param.u64 %d0, [x];" if ".u64 x" in parameters else ""
    return f"""{head}
.visible .entry k({parameters})
{{
    .reg .pred %p<16>; .reg .b16 %h<8>; .reg .b32 %r<48>; .reg .b64 %d<24>; .reg .f32 %f<16>;
    .shared .align 1024 .b8 tile[16384];
    .shared .align 8 .b8 bar[64];
    {shared}
    {first}
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, bar;
    mov.u32 %r2, tile;
    {body}
DONE:
    ret;
}}
"""


def by_one(body: str, label: str = "MEET") -> str:
    """What thread 0 does before all threads of the block meet."""
    return (
        f"setp.ne.u32 %p15, %r0, 0;\n@%p15 bra {label};\n{body}\n"
        f"fence.mbarrier_init.release.cluster;\n{label}:\nbar.sync 0;\n"
    )


def wait(address: str, parity: str | int, label: str) -> str:
    """Spin until the phase of a parity is over."""
    return (
        f"{label}:\nmbarrier.try_wait.parity.shared::cta.b64 %p14, [{address}], {parity};\n"
        f"@!%p14 bra {label};\n"
    )


def both(
    text: str,
    args: list[Any],
    monkeypatch: pytest.MonkeyPatch | None = None,
    *,
    grid: Any = 1,
    block: Any = 32,
    **options: Any,
) -> tuple[Launch, list[Any]]:
    """Run on both engines: equal memory and counters; with ``monkeypatch``, no engine may give up.

    Arrays among the arguments are copied for each engine; ``args`` may hold functions of these,
    such as tensor maps of them.
    """
    assembled(text)
    results: list[tuple[Launch, list[Any]]] = []
    for engine in ("numpy", "compiled"):
        own = [each.copy() if isinstance(each, np.ndarray) else each for each in args]
        made = [each(own) if callable(each) else each for each in own]
        if engine == "compiled" and monkeypatch is not None:
            monkeypatch.setattr(Prepared, "run_numpy", _refused)
        launch = run(text, "k", grid, block, made, engine=engine, **options)
        results.append((launch, own))
    if monkeypatch is not None:
        monkeypatch.undo()
    (first, expected), (second, found) = results
    for number, (a, b) in enumerate(zip(expected, found, strict=True)):
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8), f"argument {number}")
    assert first.totals == second.totals
    assert first.lines == second.lines
    return second, found


def _refused(*args: Any, **options: Any) -> None:
    raise AssertionError("the compiled engine gave the launch up")


@functools.cache
def assembled(text: str) -> str:
    """The text, which the assembler must take where there is one."""
    tool = find_tool("ptxas")
    if tool is None:
        return text
    target = text.split(".target ")[1].split()[0].rstrip(",")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.ptx"
        path.write_text(text)
        command = [str(tool), "-arch", target, "-o", str(path.with_suffix(".cubin")), str(path)]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert said == "", text
    return text
