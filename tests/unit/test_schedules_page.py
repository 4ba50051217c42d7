"""docs/schedules.md: its examples run, and its table has every directive as it is written."""

import importlib
import re
from pathlib import Path

from wia_compiler.passes.scheduling import directives
from wia_compiler.passes.scheduling.register import directive_names

PAGE = (Path(__file__).parents[2] / "docs" / "schedules.md").read_text("utf-8")


def test_the_examples_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert len(blocks) >= 8 and PAGE.count("```") == 2 * len(blocks)


def test_the_table_is_the_register() -> None:
    rows = re.findall(r"^\| `((?:[^`])+)` \| [^|]", PAGE, re.MULTILINE)
    written = {row.replace("\\|", "|") for row in rows}
    modules = (importlib.import_module(f"{directives.__name__}.{n}") for n in directive_names())
    assert {module.SYNTAX for module in modules} <= written
