"""Each wrong program of this folder gives exactly the message in the file beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program

FOLDER = Path(__file__).parent
PROGRAMS = sorted(FOLDER.glob("*.wia"))


def _error(program: Path) -> CompileError:
    with pytest.raises(CompileError) as caught:
        import_program(parse(Source(program.read_text("utf-8"), program.name), {}))
    return caught.value


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_message(program: Path, golden: Callable[[str, str], None]) -> None:
    golden(str(program.with_suffix(".stderr")), f"{_error(program)}\n")


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_every_diagnostic_has_a_place_and_the_form_of_a_message(program: Path) -> None:
    for diagnostic in _error(program).diagnostics:
        assert diagnostic.span is not None
        assert diagnostic.source is not None
        assert not diagnostic.message.endswith(".")
        assert not diagnostic.message[0].isupper()
        line = diagnostic.source.line(diagnostic.span.line)
        assert 1 <= diagnostic.span.column <= len(line) + 1


def test_no_message_is_left_without_its_program() -> None:
    assert {path.stem for path in FOLDER.glob("*.stderr")} == {path.stem for path in PROGRAMS}
    assert len(PROGRAMS) >= 95
