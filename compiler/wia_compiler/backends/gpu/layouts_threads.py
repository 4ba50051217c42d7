"""Tiles of which each thread of a block holds a few rows and columns: sums without tensor cores."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from wia_compiler.backends.gpu.layouts import LAYOUT, Digit, Fragment

_SPELLED = re.compile(r"threads\((\d+)x(\d+)\)(?: by (\d+))?(?: rows (\d+)x(\d+))?")


@dataclass(frozen=True)
class ThreadGridLayout:
    """How a tile lies in a grid of threads, as a nest spells it.

    ``threads(16x16)``: 16 threads along the rows, each with an equal share of neighbouring ones,
    and 16 along the columns, each with every 16th; ``by 4``: with 4 neighbours of every 64.
    ``threads(16x16) rows 64x64``: one value for each row of such a tile of 64 × 64.
    """

    rows: int
    columns: int
    neighbours: int = 1
    whole: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        words = [f"threads({self.rows}x{self.columns})"]
        if self.neighbours > 1:
            words.append(f"by {self.neighbours}")
        if any(self.whole):
            words.append(f"rows {self.whole[0]}x{self.whole[1]}")
        return " ".join(words)

    def of(self, shape: Sequence[int]) -> Fragment:
        """The layout of a buffer of that shape."""
        if any(self.whole):
            return self._tile(self.whole).along((0,))
        rows, columns = shape
        return self._tile((rows, columns))

    def _tile(self, shape: tuple[int, int]) -> Fragment:
        rows, columns = shape
        across = self.columns * self.neighbours
        if rows % self.rows or columns % across:
            raise ValueError(f"{rows} × {columns} is no tile of {self}")
        each = rows // self.rows
        slots = (
            Digit(self.neighbours, 1, 1),
            Digit(columns // across, 1, across),
            Digit(each, 0, 1),
        )
        threads = (Digit(self.columns, 1, self.neighbours), Digit(self.rows, 0, each))
        return Fragment(shape, threads, slots)

    @property
    def attribute(self) -> StringAttr:
        """The attribute ``wia.layout`` of an allocation."""
        return StringAttr(str(self))


def thread_grid_layout(allocation: Operation) -> ThreadGridLayout | None:
    """The layout of this kind that an allocation spells, if any."""
    attribute = allocation.attributes.get(LAYOUT)
    match = _SPELLED.fullmatch(attribute.data) if isinstance(attribute, StringAttr) else None
    if match is None:
        return None
    rows, columns, neighbours, whole_rows, whole_columns = (
        int(each or 0) for each in match.groups()
    )
    return ThreadGridLayout(rows, columns, neighbours or 1, (whole_rows, whole_columns))
