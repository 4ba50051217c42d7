"""PTX texts for tests: one entry around a body."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

import numpy as np
from wia_compiler.simulators.ptx import Launch, run
from wia_compiler.simulators.ptx.prepared import Prepared

HEAD = ".version 7.8\n.target sm_90\n.address_size 64\n"
REGISTERS = """
    .reg .pred %p<10>;
    .reg .b16 %h<20>;
    .reg .b32 %r<40>;
    .reg .f32 %f<20>;
    .reg .b64 %d<40>;
    .reg .f64 %g<20>;
"""


def engine_alone(engine: str) -> AbstractContextManager[Any]:
    """While it lasts, the compiled engine may not leave a launch to numpy."""
    if engine != "compiled":
        return nullcontext()
    failure = AssertionError("left to numpy")
    return mock.patch.object(Prepared, "run_numpy", side_effect=failure)


def entry(body: str, parameters: str = ".param .u64 x, .param .u64 y", variables: str = "") -> str:
    """A module with the entry ``k``; pointers x and y are in %d0 and %d1, the thread in %r0."""
    loads = "\n".join(
        f"ld.param.u64 %d{number}, [{name}];"
        for number, name in enumerate(("x", "y"))
        if f" {name}" in parameters
    )
    return (
        f"{HEAD}.visible .entry k({parameters})\n{{{REGISTERS}{variables}\n{loads}\n"
        f"mov.u32 %r0, %tid.x;\n{body}\nret;\n}}\n"
    )


def launch(
    body: str, *args: Any, block: int = 32, grid: int = 1, variables: str = "", **options: Any
) -> Launch:
    """Run a body; ``args`` are x and y."""
    names = ", ".join(f".param .u64 {name}" for name, _ in zip("xy", args, strict=False))
    return run(entry(body, names, variables), "k", grid, block, args, **options)


def element(register: str, pointer: str, size: int, index: str = "%r0") -> str:
    """The address of a thread's own element in ``register``."""
    return (
        f"mul.wide.u32 {register}, {index}, {size};\nadd.s64 {register}, {register}, {pointer};\n"
    )


def compute(
    instruction: str, type: str, sources: Sequence[np.ndarray[Any, Any]], result: str = ""
) -> np.ndarray[Any, Any]:
    """What an instruction gives for columns of sources, all of one type; one thread a row.

    In ``instruction``, ``%a %b %c`` are the sources and ``%z`` takes the result.
    """
    columns = np.stack(sources, axis=1)
    rows, count = columns.shape
    result = result or type
    size = columns.dtype.itemsize
    made = np.zeros(rows, _dtype("u32" if result == "pred" else result))
    declared = (
        "\n".join(f".reg .{_holder(type)} %{name};" for name in "abc"[:count])
        + f"\n.reg .{_holder(result)} %z;"
    )
    loads = "".join(
        f"ld.global.b{size * 8} %{name}, [%d2+{number * size}];\n"
        for number, name in enumerate("abc"[:count])
    )
    body = (
        "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmad.lo.u32 %r0, %r1, %r2, %r0;\n"
        f"setp.ge.u32 %p1, %r0, {rows};\n@%p1 ret;\n"
        + element("%d2", "%d0", size * count)
        + loads
        + instruction
        + ";\n"
        + element("%d3", "%d1", made.itemsize)
        + (
            "selp.u32 %r3, 1, 0, %z;\nst.global.u32 [%d3], %r3;"
            if result == "pred"
            else f"st.global.b{made.itemsize * 8} [%d3], %z;"
        )
    )
    blocks = -(-rows // 32)
    launch(body, np.ascontiguousarray(columns), made, variables=declared, grid=max(blocks, 1))
    return made.astype(bool) if result == "pred" else made


def _holder(type: str) -> str:
    return type if type == "pred" else f"b{_dtype(type).itemsize * 8}"


def _dtype(type: str) -> np.dtype[Any]:
    return np.dtype(
        {"f16": np.float16, "f32": np.float32, "f64": np.float64}.get(
            type, f"{'int' if type[0] == 's' else 'uint'}{type[1:]}"
        )
    )
