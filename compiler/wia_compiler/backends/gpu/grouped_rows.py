"""In which order blocks of a product take its tiles: down some rows before the next column.

What they read of both operands is then still in the second-level cache: with 108 blocks at work on
tiles in groups of 8 rows, 8 tiles of one operand and 14 of the other serve all of them, where rows
of 108 would read 1 + 108.
"""

from __future__ import annotations

from xdsl.dialects.func import FuncOp

from wia_compiler.dialects.tile import ForOp
from wia_compiler.passes.tile_rewrites import find_loop, interchange, split_loop

GROUPED_ROWS = 8
"""Blocks of so many tiles of rows follow one another along a tile of columns (``GROUP_M`` of
Triton's tutorial kernels)."""
WASTED_BLOCKS = 0.1
"""Groups that do not divide the rows end in blocks without work: so many are taken at most."""


def group_rows(nest: FuncOp, axis: str) -> None:
    """Let blocks walk some tiles of rows first, then the columns, then the rest of the rows.

    ::

        for i.0 in 32 @grid                 for i.0 in 4 @grid
          for j.0 in 32 @grid         →       for j.0 in 32 @grid
                                                for i.1 in 8 @grid
    """
    loop = find_loop(nest, f"{axis}.0")
    tiles = loop.trip_count
    sizes = range(min(GROUPED_ROWS, tiles), 1, -1)
    fitting = [size for size in sizes if -tiles % size <= WASTED_BLOCKS * tiles]
    inner = loop.body.block.first_op
    if not fitting or not isinstance(inner, ForOp) or inner.level.data != "grid":
        return
    _, rows = split_loop(nest, loop, fitting[0] * loop.step.value.data)
    while isinstance(below := rows.body.block.first_op, ForOp) and below.level.data == "grid":
        interchange(rows, below)
