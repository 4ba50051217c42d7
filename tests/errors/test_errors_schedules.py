"""Schedules that a nest cannot follow: each gives the message beside it, at its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import wia_compiler as wia
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source

FOLDER = Path(__file__).parent / "schedules"
PROGRAMS = sorted(FOLDER.glob("*.wia"))


def _error(program: Path) -> CompileError:
    text = program.read_text("utf-8")
    listed = text.split("\n")[0].removeprefix("// arguments: ")
    sizes = [part.split("=")[1] for part in listed.split(", ")]
    arguments = [wia.spec(tuple(map(int, each.split("x"))), "f32") for each in sizes]
    with pytest.raises(CompileError) as caught:
        # Of one CPU: sizes of caches and registers are in some messages.
        wia.compile(Source(text, program.name)).k.build(*arguments, target="cpu:znver4")
    return caught.value


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_message(program: Path, golden: Callable[[str, str], None]) -> None:
    error = _error(program)
    golden(str(program.with_suffix(".stderr")), f"{error}\n")
    for diagnostic in error.diagnostics:
        assert diagnostic.span is not None
        assert diagnostic.hint
        assert not diagnostic.message.endswith(".")


def test_no_message_is_left_without_its_program() -> None:
    assert {path.stem for path in FOLDER.glob("*.stderr")} == {path.stem for path in PROGRAMS}
    assert len(PROGRAMS) >= 20
