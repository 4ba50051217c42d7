"""docs/front_ends.md: its examples run, and its refusals read as printed."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import wia_compiler as wia
from wia_compiler.frontend.cpp import calls as cpp_calls
from wia_compiler.frontend.cpp.types import NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "front_ends.md").read_text("utf-8")
SCRIPTS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CPP_REFUSED = re.findall(r"```c\+\+ refused\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
PYTHON_REFUSED = re.findall(r"```python refused\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path / "cache"))
    script = tmp_path / "page.py"
    script.write_text("".join(SCRIPTS), "utf-8")
    runpy.run_path(str(script))
    assert "func.func @dense" in capsys.readouterr().out
    assert len(SCRIPTS) >= 4


@pytest.mark.parametrize(("text", "message"), CPP_REFUSED)
def test_what_cpp_refuses_reads_as_printed(text, message):
    with pytest.raises(wia.CompileError) as caught:
        wia.compile(text, language="c++")
    assert f"{caught.value}\n" == message


@pytest.mark.parametrize(("text", "message"), PYTHON_REFUSED)
def test_what_python_refuses_reads_as_printed(text, message, tmp_path):
    script = tmp_path / "example.py"
    script.write_text(text, "utf-8")
    with pytest.raises(wia.CompileError) as caught:
        runpy.run_path(str(script))
    assert f"{caught.value}\n".replace(f"{tmp_path}/", "") == message


def test_the_page_shows_refusals():
    assert len(CPP_REFUSED) == len(PYTHON_REFUSED) == 1


def test_the_table_names_every_function_and_most_types_of_cpp():
    row = next(line for line in PAGE.split("\n") if line.startswith("| functions | `exp log"))
    for name in cpp_calls.FUNCTION_NAMES:
        assert name in row or name.removesuffix("f") in row, name
    types = next(line for line in PAGE.split("\n") if line.startswith("| types |"))
    for name in ("float", "double", "half", "_Float16", "short", "int", "long", "bool"):
        assert f"`{name}`" in types and name in NAMES
