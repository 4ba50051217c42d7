"""Writes docs/conformance.md: runs the conformance matrix and tabulates what it finds.

    .venv/bin/python tools/conformance_table.py          run everything and rewrite the page
    .venv/bin/python tools/conformance_table.py add exp  run these ops only and print their rows

``tests/conformance/test_conformance_page.py`` holds the page's structure to the declarations: which
ops and dtypes there are, and which are not defined. The errors in it are those of one machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from conformance.matrix.run import groups, row_dtypes_of_op, run_case  # noqa: E402
from wia_compiler.base.dtypes import DTYPES  # noqa: E402
from wia_compiler.dialects.wia.ops import DECLARATIONS  # noqa: E402

PAGE = ROOT / "docs" / "conformance.md"
UNDEFINED = "–"
WRONG = "✕"
HEAD = """# Conformance

Written by `tools/conformance_table.py`, which runs the conformance matrix
(`tests/conformance/matrix/`): every op on every dtype, in sizes of 0, 1, 3, 17, 127 and 1000,
strided, reversed and repeated operands, ordinary values, NaN, ±infinity and subnormals. What the
reference gives is held to the mathematical value, computed by numpy in more bits; what the
interpreter of the mid level and the CPU give is held to both. A cell stands for agreement of all:

- **exact**: the same bits everywhere, and correctly rounded where the result is a float;
- a number: the largest error of any of them, in units in the last place of the exact result. Folds
  are bounded by n · ε · Σ|x| instead ([numerics](numerics.md#fold-bound)); where their terms
  cancel, the error in units of a small result is large, and within the contract;
- **✕**: they disagree by more than the contract allows;
- **–**: the op is not defined for the dtype, and a kernel that asks for it is refused.

"""


def tabulate(ops: Iterable[str]) -> dict[str, dict[str, str]]:
    """The cell of each op and dtype, by running every case of those ops."""
    wanted = set(ops)
    worst: dict[tuple[str, str], float] = {}
    inexact = set[tuple[str, str]]()
    wrong = set[tuple[str, str]]()
    for group in groups():
        if not wanted & {member.op for member in group.members}:
            continue
        for dtype in group.dtypes:
            for condition in group.conditions(dtype):
                try:
                    findings = run_case(group, dtype, condition)
                except AssertionError as error:
                    print(error, file=sys.stderr)
                    wrong.update((member.op, dtype) for member in group.members)
                    continue
                for found in findings:
                    key = (found.op, dtype)
                    worst[key] = max(worst.get(key, 0.0), found.ulps)
                    if not found.exact:
                        inexact.add(key)
    table: dict[str, dict[str, str]] = {}
    for op in sorted(wanted):
        defined = row_dtypes_of_op(op)
        table[op] = {
            dtype: UNDEFINED
            if dtype not in defined
            else WRONG
            if (op, dtype) in wrong
            else _cell(worst.get((op, dtype), 0.0), (op, dtype) in inexact, dtype)
            for dtype in DTYPES
        }
    return table


def _cell(ulps: float, inexact: bool, dtype: str) -> str:
    if not inexact or not DTYPES[dtype].is_float:
        return "exact"
    return f"{ulps:.2g}" if ulps < 1000 else f"{ulps:.0e}"


def rows(table: dict[str, dict[str, str]]) -> str:
    """The table as Markdown."""
    names = list(DTYPES)
    lines = [f"| op | {' | '.join(names)} |", f"| --- |{' --- |' * len(names)}"]
    for op, cells in table.items():
        lines.append(f"| `{op}` | {' | '.join(cells[name] for name in names)} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> None:
    """Run all ops and write the page, or those named and print their rows."""
    if arguments:
        print(rows(tabulate(arguments)), end="")
        return
    PAGE.write_text(HEAD + rows(tabulate(DECLARATIONS)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
