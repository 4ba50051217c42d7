"""docs/loop_level.md: its examples run, and what they assert holds."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "loop_level.md").read_text("utf-8")


def test_the_examples_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert len(blocks) >= 7 and PAGE.count("```") == 2 * len(blocks)
