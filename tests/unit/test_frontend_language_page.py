"""docs/language.md: its examples compile, its refusals read as printed, its tables are current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program
from wia_compiler.frontend.vocabulary import OPERATORS

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text("utf-8")
EXAMPLES = re.findall(r"```wia\n(.*?)```", PAGE, re.DOTALL)
SCRIPTS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
REFUSALS = re.findall(r"```wia refused\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_compile(text: str) -> None:
    import_program(parse(Source(text))).module.verify()


def test_the_python_runs() -> None:
    scope: dict[str, object] = {}
    for script in SCRIPTS:
        exec(script, scope)
    assert len(SCRIPTS) >= 3


@pytest.mark.parametrize(("text", "message"), REFUSALS)
def test_refusals_read_as_printed(text: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        import_program(parse(Source(text)))
    assert f"{caught.value}\n" == message


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 8
    assert len(REFUSALS) == PAGE.count("```wia refused") >= 2


def test_the_table_of_operators_is_current() -> None:
    rows: list[str] = []
    for row in OPERATORS:
        spellings = " ".join(f"`{spelling}`" for spelling in row.spellings)
        cells = [spellings.replace("|", "\\|"), " ".join(row.operations), row.grouping]
        rows.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    assert "\n".join(rows) in PAGE
