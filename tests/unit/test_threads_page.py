"""docs/threads.md: its examples run, its table of CPUs is current."""

import re
from pathlib import Path

import pytest
from wia_compiler.backends.cpu.target import targets

PAGE = (Path(__file__).parents[2] / "docs" / "threads.md").read_text(encoding="utf-8")


def test_the_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIA_NUM_THREADS", "2")  # and set back to what it was
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "docs/threads.md", "exec"), names)


def test_every_cpu_is_listed() -> None:
    missing = [name for name in targets() if f"`{name}`" not in PAGE]
    assert not missing
