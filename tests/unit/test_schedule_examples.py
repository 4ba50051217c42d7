"""docs/schedule_examples.md: its examples run, and what they assert holds."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "schedule_examples.md").read_text("utf-8")


def test_the_examples_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert len(blocks) >= 10


def test_each_optimisation_shows_before_and_after() -> None:
    texts = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(texts) == 6
    assert all("→" in text or "registers" in text for text in texts)
