"""Print the lines of each room and fail where one has outgrown its budget."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

BUDGET_LINES = {
    "compiler/wia_compiler/base": 1100,
    "compiler/wia_compiler/dialects": 12000,
    "compiler/wia_compiler/frontend": 14500,
    "compiler/wia_compiler/reference": 2800,
    "compiler/wia_compiler/passes": 36000,
    # Attention by warpgroups, launches that are merged, vector products, models of their time.
    "compiler/wia_compiler/backends": 26000,
    # Bulk copies in compiled code, clusters of several blocks, and instructions of sm_100.
    "compiler/wia_compiler/simulators": 20500,
    "compiler/wia_compiler/runtime": 5900,
    "compiler/wia_compiler/profiler": 4600,
    "kernels/wia_kernels": 1500,
    "wia_notebook/wia_notebook": 10500,
}
SUFFIXES = {".py", ".lark", ".js", ".css", ".wia"}


def count_lines(room: Path) -> int:
    """Lines of source in a room, tests and generated files left out."""
    files = (path for path in room.rglob("*") if path.suffix in SUFFIXES)
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def main() -> int:
    """Print one row a room; 1 when any is over its budget."""
    over = 0
    for room, budget in BUDGET_LINES.items():
        lines = count_lines(ROOT / room)
        over += lines > budget
        print(f"{lines:6} of {budget:6}  {room}{'  over budget' if lines > budget else ''}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
