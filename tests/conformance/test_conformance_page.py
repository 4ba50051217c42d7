"""docs/conformance.md has a row for every op, and says rightly which dtypes are not defined."""

from pathlib import Path

from conformance.matrix.run import ROWS, row_dtypes_of_op
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.wia.ops import DECLARATIONS

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
WRITE = "run tools/conformance_table.py, which writes docs/conformance.md"


def table() -> dict[str, list[str]]:
    """The cells of each op."""
    found = dict[str, list[str]]()
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            found[name.strip("`")] = cells
    return found


def test_the_table_has_every_op() -> None:
    assert sorted(table()) == sorted(DECLARATIONS), WRITE


def test_the_table_says_what_is_not_defined() -> None:
    for op in {row.op for row in ROWS}:
        defined = row_dtypes_of_op(op)
        for dtype, cell in zip(DTYPES, table()[op], strict=True):
            assert (cell == "–") == (dtype not in defined), f"{op} on {dtype}: {WRITE}"


def test_nothing_disagrees() -> None:
    assert [op for op, cells in table().items() if "✕" in cells] == []


def test_integers_and_bools_are_exact() -> None:
    for op, cells in table().items():
        for dtype, cell in zip(DTYPES, cells, strict=True):
            if not DTYPES[dtype].is_float:
                assert cell in ("–", "exact"), f"{op} on {dtype}: {cell}"
