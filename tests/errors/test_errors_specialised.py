"""Programs that are wrong for the arguments on their first line, each with the message it gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from bare_target import BareTarget
from building import specs
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program
from wia_compiler.passes.pipeline import compile_kernel

FOLDER = Path(__file__).parent / "specialised"
PROGRAMS = sorted(FOLDER.glob("*.wia"))


def _error(program: Path) -> CompileError:
    text = program.read_text("utf-8")
    listed = text.split("\n")[0].removeprefix("// arguments: ")
    arguments = dict(part.split("=") for part in listed.split(", "))
    imported = import_program(parse(Source(text, program.name)))
    with pytest.raises(CompileError) as caught:
        compile_kernel(imported, "k", specs(**arguments), BareTarget())
    return caught.value


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_message(program: Path, golden: Callable[[str, str], None]) -> None:
    error = _error(program)
    golden(str(program.with_suffix(".stderr")), f"{error}\n")
    for diagnostic in error.diagnostics:
        assert not diagnostic.message.endswith(".")
        assert diagnostic.hint or diagnostic.span is None


def test_no_message_is_left_without_its_program() -> None:
    assert {path.stem for path in FOLDER.glob("*.stderr")} == {path.stem for path in PROGRAMS}
    assert len(PROGRAMS) >= 12
