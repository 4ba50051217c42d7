"""In which order blocks take tiles: down a few rows of tiles before the next column.

With 132 blocks at work, a column of 8 tiles beside 16 others reads 8 + 17 tiles of operands where a
row of 132 would read 1 + 132: most of it comes from L2.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from wia_compiler.backends.gpu.builder import Builder
from wia_compiler.backends.gpu.hopper_nest import HopperNest
from wia_compiler.backends.gpu.index import Index, delinearize, of_value

GROUP_ROWS = 8


def tile_places(builder: Builder, nest: HopperNest, tile: Index) -> Mapping[SSAValue, Index]:
    """Where the loops over tiles stand at the ``tile``-th one, by induction variable."""
    rows, columns = nest.rows.trip_count, nest.columns.trip_count
    counts = [loop.trip_count for loop in nest.batches]
    batch, rest = tile.floor_divide(rows * columns), tile.modulo(rows * columns)
    if prod(counts) == 1:
        batch, rest = Index(), tile
    row, column = _place(builder, rest, rows, columns)
    positions = (*delinearize(batch, counts), row, column)
    loops = (*nest.batches, nest.rows, nest.columns)
    return {
        loop.induction_variable: position * loop.step.value.data
        for loop, position in zip(loops, positions, strict=True)
    }


def _place(builder: Builder, tile: Index, rows: int, columns: int) -> tuple[Index, Index]:
    """Row and column of a tile of one product.

    ::

        0 2 4     5 rows of 3 tiles, in groups of 2 here; the last group has what is left
        1 3 5
        6 8 …
    """
    group = min(GROUP_ROWS, rows)
    whole, left = rows // group * group, rows % group
    places = _in_group(tile, group, columns)
    if not left:
        return places
    # The tiles of the last group, counted from its first; of others, no more than a number.
    first = builder.number(whole * columns, builder.index(tile).type)
    behind = builder.add(arith.SubiOp(builder.index(tile), first)).result
    row, column = _in_group(of_value(behind, left * columns), left, columns)
    is_whole = builder.within(tile, whole * columns)
    assert is_whole is not None

    def chosen(one: Index, other: Index, count: int) -> Index:
        values = (builder.index(one), builder.index(other))
        return of_value(builder.add(arith.SelectOp(is_whole, *values)).result, count)

    return chosen(places[0], row + whole, rows), chosen(places[1], column, columns)


def _in_group(tile: Index, group: int, columns: int) -> tuple[Index, Index]:
    """Row and column where every group has as many rows."""
    number, within = tile.floor_divide(group * columns), tile.modulo(group * columns)
    return number * group + within.modulo(group), within.floor_divide(group)
