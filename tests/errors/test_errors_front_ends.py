"""Wrong programs in C++ and Python: each gives exactly the message in the file beside it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
import wia_compiler as wia
from wia_compiler.base.source import Source

FOLDER = Path(__file__).parent
PROGRAMS = [*sorted((FOLDER / "cpp").glob("*.cpp")), *sorted((FOLDER / "python").glob("*.py"))]
IDS = [f"{program.parent.name}-{program.stem}" for program in PROGRAMS]


def _error(program: Path) -> wia.CompileError:
    with pytest.raises(wia.CompileError) as caught:
        if program.suffix == ".cpp":
            text = Source(program.read_text("utf-8"), program.name)
            wia.compile(text, language="c++")
        else:
            spec = importlib.util.spec_from_file_location(program.stem, program)
            assert spec is not None and spec.loader is not None
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return caught.value


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_message(program: Path, golden: Callable[[str, str], None]) -> None:
    error = _error(program)
    shown = f"{error}\n".replace(str(program.parent) + "/", "")
    golden(str(program.with_suffix(".stderr")), shown)


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_every_diagnostic_has_a_place_and_the_form_of_a_message(program: Path) -> None:
    for diagnostic in _error(program).diagnostics:
        assert diagnostic.span is not None
        assert diagnostic.source is not None
        assert not diagnostic.message.endswith(".")
        assert not diagnostic.message[0].isupper()
        line = diagnostic.source.line(diagnostic.span.line)
        assert 1 <= diagnostic.span.column <= len(line) + 1
        assert diagnostic.hint is not None, diagnostic.message


def test_no_message_is_left_without_its_program() -> None:
    kept = {path for each in ("cpp", "python") for path in (FOLDER / each).glob("*.stderr")}
    assert kept == {program.with_suffix(".stderr") for program in PROGRAMS}
    assert len(PROGRAMS) >= 40
