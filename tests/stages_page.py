"""The table of docs/stages.md."""

from __future__ import annotations

import functools
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "stages.md"


@functools.cache
def stages() -> dict[str, tuple[str, str]]:
    """The level and the MLIR column of each stage of the page, in order."""
    found = dict[str, tuple[str, str]]()
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].startswith("`"):
            for name in cells[0].split(","):
                found[name.strip().strip("`")] = (cells[1], cells[3])
    return found


PLAIN = frozenset(name for name, (_, mlir) in stages().items() if mlir == "plain")
