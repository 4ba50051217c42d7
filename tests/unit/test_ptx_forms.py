"""Instructions as PTX has them (tests/data/ptx_forms.txt): both engines know the same ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from wia_compiler.backends.gpu.tools import find_tool
from wia_compiler.base.errors import CompileError, TargetError
from wia_compiler.base.source import Source
from wia_compiler.simulators.ptx.jit.program import write_program
from wia_compiler.simulators.ptx.parse import parse_ptx
from wia_compiler.simulators.ptx.prepared import Prepared
from wia_compiler.simulators.ptx.values.form import UnknownForm

FORMS = Path(__file__).parents[1] / "data" / "ptx_forms.txt"
REGISTERS = (
    ".reg .pred %p<4>; .reg .b8 %c<4>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<10>;"
    ".shared .align 128 .b8 sh[1024]; .local .align 16 .b8 lo[64];"
)


def listed() -> dict[str, list[str]]:
    """Forms by what is said of them: those that run, ``numpy only``, ``refused``."""
    found: dict[str, list[str]] = {"run": [], "numpy only": [], "refused": []}
    part = "run"
    for line in FORMS.read_text("utf-8").splitlines():
        if line.startswith("#"):
            part = line[2:] if line[2:] in found else part
        elif line:
            found[part].append(line)
    return found


def module(body: str, target: str = "sm_90a", version: str = "8.7") -> str:
    wide = ".reg .b128 %q<4>;" if "%q" in body else ""
    return (
        f".version {version}\n.target {target}\n.address_size 64\n.const .align 4 .b32 ct[4];\n"
        f".visible .entry k(.param .u64 p0)\n{{\n{REGISTERS}{wide}\n{body}\nret;\n}}\n"
    )


def prepared(form: str) -> Prepared:
    """The decoded entry around one instruction."""
    parsed = parse_ptx(Source(module(form), "<form>"))
    return Prepared(parsed, parsed.entries["k"], [np.uint64(0)], 0)


def not_compiled(form: str) -> str:
    """Why the compiled engine leaves an instruction that a whole warp executes to the other."""
    ready = prepared(form)
    try:
        program = write_program(
            ready.blocks, ready.entry.instructions, ready.scope,
            width=8, counts_memory=True, parted=False,
        )  # fmt: skip
    except UnknownForm as unknown:
        return str(unknown)
    always = re.search(r"br i1 true, label %bail", program.text)
    return "always left to the other engine" if always else ""


def test_what_one_engine_knows_the_other_runs() -> None:
    missing = {form: why for form in listed()["run"] if (why := not_compiled(form))}
    assert not missing


def test_exceptions_are_exceptions() -> None:
    """What is listed as known to one engine alone is."""
    assert all(not_compiled(form) for form in listed()["numpy only"])


@pytest.mark.parametrize("form", listed()["refused"])
def test_what_is_not_simulated_is_refused_before_anything_runs(form: str) -> None:
    with pytest.raises((TargetError, CompileError), match="not simulated"):
        prepared(form)


def test_all_of_them_are_ptx(tmp_path: Path) -> None:
    """The assembler takes each for one of two targets."""
    tool = find_tool("ptxas")
    if tool is None:
        pytest.skip("no ptxas")
    every = [form for part in listed().values() for form in part]
    wrong: list[set[str]] = []
    for target, version in (("sm_90a", "8.8"), ("sm_103a", "9.0")):
        text = module("\n".join(f"{{ {form} }}" for form in every), target, version)
        file = tmp_path / f"{target}.ptx"
        file.write_text(text, "utf-8")
        done = subprocess.run(
            [str(tool), f"-arch={target}", str(file), "-o", str(tmp_path / "out")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        lines = text.splitlines()
        numbers = re.findall(r"line (\d+); error", done.stderr)
        wrong.append({lines[int(number) - 1] for number in numbers})
    # Each lacks what is the other's alone.
    assert wrong[0] and wrong[1]
    assert not wrong[0] & wrong[1]
