"""The pages on the cache and the command line, and the examples of ``--help``, are true."""

import re
import shlex
from pathlib import Path

import pytest
import wia_compiler as wia
from wia_compiler.runtime import cli
from wia_compiler.runtime.session import default_session

DOCS = Path(__file__).parents[2] / "docs"


def example_lines() -> list[str]:
    lines = re.findall(r"^\$ (wia .*)$", (DOCS / "cli.md").read_text("utf-8"), re.MULTILINE)
    for name in cli.COMMANDS:
        lines += cli._module(name).EXAMPLES.splitlines()
    return [line.split("|")[-1].strip() for line in lines]


@pytest.mark.parametrize("line", example_lines())
def test_every_example_is_a_command_that_parses(line):
    words = shlex.split(line)
    assert words[0] == "wia"
    assert cli._parser().parse_args(words[1:]).command == words[1]


def test_the_page_lists_every_command_and_shared_option():
    page = (DOCS / "cli.md").read_text("utf-8")
    for name in cli.COMMANDS:
        assert f"`wia {name}" in page
    for option in ("--kernel", "--args", "--target", "--json"):
        assert option in page


def test_the_code_of_the_cache_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))
    default_session().forget()
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "cache.md").read_text("utf-8"), re.DOTALL)
    names: dict = {}
    exec(code, names)
    assert names["build"].cache.hit == "miss"
    assert "double(A=f32[1024,512])" in capsys.readouterr().out
    assert wia.cache.entries == []


def test_the_cache_page_lists_every_part_of_the_key():
    from wia_compiler.runtime.cache_key import CacheKey

    page = (DOCS / "cache.md").read_text("utf-8")
    for part in CacheKey._fields:
        assert f"`{part}`" in page
