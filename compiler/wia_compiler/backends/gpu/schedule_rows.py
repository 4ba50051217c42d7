"""Nests with reductions: a warp or a block for each row, or a thread for each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.access import in_memory, vector_width
from wia_compiler.backends.gpu.architecture import MAX_THREADS_PER_BLOCK, WARP_SIZE, Architecture
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.choice import BLOCK_THREADS, Choice, power_of_two_at_least
from wia_compiler.backends.gpu.distribute import WIDTH
from wia_compiler.backends.gpu.leaf import identity_of
from wia_compiler.backends.gpu.leaf_columns import take_columns
from wia_compiler.backends.gpu.schedule_elementwise import spread_threads
from wia_compiler.backends.gpu.schedule_grid import rows_are_neighbours
from wia_compiler.backends.gpu.schedule_scan import schedule_scan
from wia_compiler.backends.gpu.stage_rows import stage_rows
from wia_compiler.backends.gpu.tiling import Tile, as_directives, kept_loops, tile_loops
from wia_compiler.base.schedule import Directive
from wia_compiler.dialects.tile import ComputeOp, LeafLevel
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import (
    axis_of,
    leaves_of,
    loops_of,
    scope_of,
    set_leaf_level,
)
from wia_compiler.passes.tile_rewrites.nest import is_folded

TINY_ROW = 8
"""Rows up to this long leave most of a warp idle: a thread takes one."""
WARP_ROW = 512
"""Rows up to this long are a warp's: 16 elements a lane. Longer ones are a block's."""
WARPS_PER_BLOCK = 4
COLUMNS_PER_SM = 1024
"""Columns from which a thread for each has enough bytes under way: half of an SM's threads."""
REGISTERS = 128
"""Enough for the elements a thread keeps in f64; ptxas would rather spill a few at 48."""
NARROW_BYTES = 4
"""Narrower elements fill no line of 128 bytes with one for each lane of a warp."""
ELEMENTS_PER_THREAD = 8
"""A block for a row has one thread for so many elements, so that loads overlap."""


def schedule_rows(nest: FuncOp, architecture: Architecture) -> Choice:
    """Choose by the length of a row, the number of rows and how they lie in memory.

    A row whose elements are neighbours in memory is read by consecutive lanes: a warp a row up to
    512 elements, a block a row above, and one block for a reduction to a single value. Where it is
    the rows that are neighbours (a sum over the first axis), and there are enough of them, each
    thread folds one and neighbouring threads read neighbours.
    """
    scan = schedule_scan(nest, architecture)
    if scan is not None:
        return scan
    leaves = leaves_of(nest)
    folds = [leaf for leaf in leaves if leaf.kind.data == "reduce"]
    loops = kept_loops(nest)
    sizes = [loop.extent.value.data for loop in loops]
    axes = [axis_of(loop) for loop in loops]
    rows, length = prod(sizes), max(_row_length(leaf) for leaf in folds)
    numbers = {"rows": rows, "row": length}
    runs_on = any(is_folded(loop) for loop in loops_of(nest))
    shareable = not runs_on and all(
        identity_of(leaf, number) is not None and not leaf.is_ordered
        for leaf in folds
        for number in range(len(leaf.outputs))
    )
    by_column = bool(axes) and rows_are_neighbours(folds, axes[-1])
    enough_columns = rows >= architecture.sm_count * COLUMNS_PER_SM
    if by_column and shareable and length > TINY_ROW and not enough_columns:
        if columns_alone(leaves, axes[-1]):
            return _column_block(nest, axes, sizes, numbers, architecture)
        enough_columns = rows >= architecture.sm_count * WARP_SIZE
    if loops and (not shareable or length <= TINY_ROW or (by_column and enough_columns)):
        return deal_threads(nest, spread_threads(axes, sizes, 1), numbers)
    if not shareable:
        return Choice(1, "a reduction that cannot be shared: one thread", numbers)
    if loops and length <= WARP_ROW and rows >= architecture.sm_count:
        warps = min(WARPS_PER_BLOCK, power_of_two_at_least(sizes[-1]))
        return deal_warps(nest, {axes[-1]: Tile(warps, 1)}, None, numbers)
    wanted = power_of_two_at_least(-(-length // ELEMENTS_PER_THREAD))
    threads = min(MAX_THREADS_PER_BLOCK, max(2 * WARP_SIZE, wanted))
    return deal_blocks(nest, threads, None, numbers, architecture)


def row_axis(nest: FuncOp) -> str | None:
    """The folded axis whose neighbours neighbouring threads take: the last long one.

    ``None`` where the leaves of a nest end in different ones: then threads take single points.
    """
    walking = [leaf for leaf in leaves_of(nest) if prod(leaf.sizes) > 1]
    last = {leaf.axis_names[max(_long_axes(leaf))] for leaf in walking}
    return last.pop() if len(last) == 1 else None


def deal_threads(nest: FuncOp, tiles: Mapping[str, Tile], numbers: Mapping[str, int]) -> Choice:
    """A thread for each row, dealt out as an elementwise nest is."""
    tile_loops(nest, tiles)
    threads = prod(tile.block // tile.each for tile in tiles.values())
    made = as_directives(tiles, {})
    return Choice(threads, "reduction: a thread for each row", numbers, directives=made)


def deal_warps(
    nest: FuncOp, tiles: Mapping[str, Tile], width: int | None, numbers: Mapping[str, int]
) -> Choice:
    """A warp for each row; a block takes those of ``tiles``.

    ``width`` is how many neighbours a thread takes; ``None``: as many as one access holds.
    """
    warps = prod(tile.block for tile in tiles.values())
    axis = row_axis(nest)
    tile_loops(nest, tiles, inner="warp")
    kept = stage_rows(nest, WARP_SIZE, "warp")
    share_leaves(nest, "warp")
    width = take_neighbours(leaves_of(nest), WARP_SIZE, width)
    reason = f"reduction: a warp for each row, {warps} a block"
    shown = {**numbers, "neighbours": width, **kept.numbers}
    return Choice(
        warps * WARP_SIZE, reason, shown, directives=_lines(tiles, axis, WARP_SIZE, width)
    )


def deal_blocks(
    nest: FuncOp,
    threads: int,
    width: int | None,
    numbers: Mapping[str, int],
    architecture: Architecture,
) -> Choice:
    """A block for each row; ``width`` as for warps."""
    axis = row_axis(nest)
    tile_loops(nest, {})
    kept = stage_rows(nest, threads, "block", architecture.block_shared_kib * 1024)
    share_leaves(nest, "block")
    width = take_neighbours(leaves_of(nest), threads, width)
    return Choice(
        threads,
        "reduction: a block for each row",
        {**numbers, "neighbours": width, **kept.numbers},
        registers=REGISTERS,
        directives=_lines({}, axis, threads, width),
    )


def _lines(
    tiles: Mapping[str, Tile], axis: str | None, group: int, width: int
) -> tuple[Directive, ...] | None:
    """What was dealt out in the words of a schedule: ``tile i 4, j 128; thread_tile j 4``."""
    if axis is None:
        return None
    return as_directives({**tiles, axis: Tile(group * width, width)}, {})


def share_leaves(nest: FuncOp, level: LeafLevel) -> None:
    """Let a group of threads share every leaf of a nest."""
    for leaf in leaves_of(nest):
        set_leaf_level(leaf, level)


def _column_block(
    nest: FuncOp,
    axes: list[str],
    sizes: list[int],
    numbers: dict[str, int],
    architecture: Architecture,
) -> Choice:
    """A block for 32 columns; of more threads where its blocks alone would not fill the SMs.

    Of elements of 1 or 2 bytes a thread takes as many columns as 4 bytes hold, if that leaves each
    SM a block: a warp then reads whole lines of 128 bytes.
    """
    width = _narrow_columns(nest, axes[-1], sizes[-1])
    beside = prod(sizes[:-1])
    while width > 1 and beside * -(-sizes[-1] // (WARP_SIZE * width)) < architecture.sm_count:
        width //= 2
    across = min(WARP_SIZE, -(-sizes[-1] // width))
    blocks = beside * -(-sizes[-1] // (across * width))
    wanted = power_of_two_at_least(architecture.sm_count * COLUMNS_PER_SM // blocks)
    busy = power_of_two_at_least(across * -(-numbers["row"] // ELEMENTS_PER_THREAD))
    threads = min(MAX_THREADS_PER_BLOCK, max(BLOCK_THREADS, min(wanted, busy)))
    tile = Tile(across * width, width)
    return deal_columns(nest, (axes[-1], tile), threads // across, numbers, threads)


def _narrow_columns(nest: FuncOp, last: str, columns: int) -> int:
    folds = [leaf for leaf in leaves_of(nest) if leaf.folds]
    sizes = [
        size_bytes(element_type(leaf.inputs[number]))
        for leaf in folds
        for number in in_memory(leaf)
        if number < len(leaf.inputs)
    ]
    if max(sizes, default=NARROW_BYTES) >= NARROW_BYTES:
        return 1
    return gcd(vector_width(folds, last, NARROW_BYTES), columns)


def deal_columns(
    nest: FuncOp,
    columns: tuple[str, Tile],
    rows: int,
    numbers: Mapping[str, int],
    threads: int,
) -> Choice:
    """A block for some columns: the axis with what a block and a thread take of it.

    It takes ``rows`` rows at a time.
    """
    last, tile = columns
    (first, *_) = folds = [leaf for leaf in leaves_of(nest) if leaf.folds]
    for leaf in folds:
        if tile.each > 1:
            take_columns(leaf, tile.each)
    pairs = zip(first.axis_names, first.reductions, strict=True)
    folded = [name for name, is_folded in pairs if is_folded]
    tile_loops(nest, {last: Tile(tile.block, tile.block)})
    share_leaves(nest, "block")
    lines = as_directives({last: tile}, {folded[-1]: rows})
    return Choice(
        threads,
        f"reduction: a block for {tile.block} columns, {rows} rows at a time",
        {**numbers, "columns a block": tile.block},
        directives=lines if threads == tile.block // tile.each * rows else None,
    )


def columns_alone(leaves: Sequence[ComputeOp], last: str) -> bool:
    """Whether a block can take columns side by side: none of its threads needs another's result.

    Folds read memory alone, and everything else has one point for each column.
    """
    for leaf in leaves:
        kept = [
            name
            for name, size, folded in zip(leaf.axis_names, leaf.sizes, leaf.reductions, strict=True)
            if size > 1 and not folded
        ]
        if kept or last not in leaf.axis_names:
            return False
        if leaf.folds and any(scope_of(value) == "register" for value in leaf.inputs):
            return False
    return True


def take_neighbours(leaves: Sequence[ComputeOp], group: int, wanted: int | None = None) -> int:
    """Let each thread of a group take so many neighbours of a row that one access holds them.

    That needs rows that begin at 16 bytes and end with a whole access, and enough elements for all
    threads; all of the leaves take the same, so that what they keep in registers fits. ``wanted``
    is a schedule's number, which divides the row.
    """
    walking = [leaf for leaf in leaves if prod(leaf.sizes) > 1]
    last = {leaf.axis_names[max(_long_axes(leaf))] for leaf in walking}
    if len(last) != 1:
        return 1
    (axis,) = last
    width = vector_width(leaves, axis) if wanted is None else wanted
    for leaf in walking if wanted is None else ():
        ends = (leaf.sizes[leaf.axis_names.index(axis)], *leaf.limit_values)
        shared = prod(n for n, folded in _pairs(leaf) if folded or not leaf.folds)
        while width > 1 and (any(e % width for e in ends) or shared < group * width):
            width //= 2
    for leaf in walking:
        leaf.attributes[WIDTH] = IntegerAttr(width, i64)
    return width


def _long_axes(leaf: ComputeOp) -> list[int]:
    return [axis for axis, size in enumerate(leaf.sizes) if size > 1]


def _row_length(leaf: ComputeOp) -> int:
    return prod(size for size, folded in _pairs(leaf) if folded)


def _pairs(leaf: ComputeOp) -> list[tuple[int, bool]]:
    return list(zip(leaf.sizes, leaf.reductions, strict=True))
