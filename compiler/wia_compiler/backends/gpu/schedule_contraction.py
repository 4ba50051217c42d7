"""Contractions: matmuls in tiles through shared memory, convolutions and vectors directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd, prod

from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.access import axis_strides, in_memory
from wia_compiler.backends.gpu.architecture import (
    ARCHITECTURES,
    REGISTERS_PER_SM,
    WARP_SIZE,
    Architecture,
)
from wia_compiler.backends.gpu.builder import element_type, shape_of
from wia_compiler.backends.gpu.choice import Choice, power_of_two_at_least
from wia_compiler.backends.gpu.grouped_rows import group_rows
from wia_compiler.backends.gpu.implicit_product import Collapsed, fold_step
from wia_compiler.backends.gpu.pipelined_loop import STAGES
from wia_compiler.backends.gpu.product_sides import Sides, sides_of
from wia_compiler.backends.gpu.schedule_elementwise import spread_threads
from wia_compiler.backends.gpu.schedule_vector_product import schedule_vector_product
from wia_compiler.backends.gpu.thread_tiles import arrange_warps, group_points, lanes_of
from wia_compiler.backends.gpu.tile_choice import choose_tiles, product_of, registers_of
from wia_compiler.backends.gpu.tile_copy import VECTOR_BYTES
from wia_compiler.backends.gpu.tiling import Tile, as_directives, kept_loops, tile_loops, uses_axis
from wia_compiler.base.schedule import directive
from wia_compiler.dialects.loop_hints import LoopHints, note_hints
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    axis_of,
    drop_bounds,
    leaves_of,
    loops_around,
    loops_of,
    scope_of,
    set_leaf_level,
    stage_operand,
    tile_reduction,
)

FOLD_STEP = 16
"""How much of the folded axis is in shared memory at a time, where a schedule does not say."""
TESTS = 32
"""More registers where elements are read one by one, beside two for the place of each."""
TILES = "tiles in shared memory"
PADDING = 4
"""Elements at the end of a row in shared memory that was turned."""
ONE_WAVE = 32
"""So many blocks all run at a time: there is no order among them."""
FILTERS_PER_THREAD = 4
"""A thread of a convolution computes up to 4 filters at one place: one load serves 4 sums."""
ROWS_PER_THREAD = 4
"""A thread of a convolution whose filters are each for one result takes places below each other."""
LEAST_THREADS = 1 << 15
"""Fewer leave processors idle: 8 warps for each SM of the larger ones."""
WARPS_PER_BLOCK = 4
FEW_RESULTS = 4096
"""So few results leave most of a GPU idle with a thread each: a warp folds each of them."""


def schedule_contraction(
    nest: FuncOp, architecture: Architecture, collapsed: Collapsed | None = None
) -> Choice:
    """Choose by the axes: tiles where both operands are reused, else a thread or warp a result.

    ``collapsed`` is how a convolution became the product that the nest is now.
    """
    windows = collapsed.windows if collapsed is not None else ()
    (leaf,) = [each for each in leaves_of(nest) if each.kind.data in ("contract", "window")]
    vector = schedule_vector_product(nest, architecture) if collapsed is None else None
    if vector is not None:
        return vector
    sides = sides_of(nest, leaf)
    if sides is not None:
        chosen = _product(nest, leaf, sides, architecture, windows)
        if chosen is not None and collapsed is not None:
            numbers = {**chosen.numbers, "direct cycles": round(collapsed.direct_cycles)}
            return replace(chosen, reason=f"convolution as a product: {TILES}", numbers=numbers)
        if chosen is not None:
            return chosen
    if leaf.is_ordered:
        return _direct(nest, leaf)
    if not kept_loops(nest):
        return _block_per_result(nest)
    results = prod(loop.extent.value.data for loop in kept_loops(nest))
    few = results < FEW_RESULTS and _fold_length(leaf) >= WARP_SIZE
    if leaf.kind.data == "contract" and (few or _folds_along_memory(leaf)):
        return _warp_per_result(nest)
    return _direct(nest, leaf)


def _product(
    nest: FuncOp,
    leaf: ComputeOp,
    sides: Sides,
    architecture: Architecture,
    windows: Sequence[int] = (),
) -> Choice | None:
    """Tiles of the least modelled time; ``None`` where the order of a sum allows none.

    ``windows`` are the sizes of the axes that the fold walks as one.
    """
    sizes = {axis_of(loop): loop.extent.value.data for loop in kept_loops(nest)}
    fold = leaf.sizes[leaf.axis_names.index(sides.fold)]
    rows, columns = sizes.pop(sides.rows), sizes.pop(sides.columns)
    product = product_of(leaf, rows, columns, fold, prod(sizes.values()))
    found = choose_tiles(product, architecture)
    step = fold_step(windows, fold) if windows else found.step
    if not _may_stage(leaf, sides, step):
        return None
    tiles = {sides.rows: found.rows, sides.columns: found.columns}
    stages = STAGES if fold > step else 1
    chosen = _tiled(nest, leaf, sides, tiles, step, stages)
    modelled = {"blocks": found.blocks, "modelled cycles": round(found.cycles)}
    return replace(chosen, numbers={**chosen.numbers, **modelled})


def _may_stage(leaf: ComputeOp, sides: Sides, step: int) -> bool:
    """Whether the fold may go on over zeros past its end: not a sum in the order of a text."""
    length = leaf.sizes[leaf.axis_names.index(sides.fold)]
    in_registers = scope_of(leaf.outputs[0]) == "register"
    return not leaf.is_ordered or (in_registers and length % min(step, length) == 0)


def reuses_operands(nest: FuncOp) -> bool:
    """Whether a contraction is a matrix product, each of whose operands serves several results."""
    leaves = [leaf for leaf in leaves_of(nest) if leaf.kind.data in ("contract", "window")]
    return len(leaves) == 1 and sides_of(nest, leaves[0]) is not None


def tile_as_written(
    nest: FuncOp, tiles: Mapping[str, Tile], folds: Mapping[str, int], stages: Mapping[str, int]
) -> Choice:
    """Tiles of a user's choice through shared memory; ``IllegalRewrite`` where there is no reuse.

    ``folds`` has the step of the folded axis, or nothing, ``stages`` how many of its tiles are in
    shared memory: 2 where the next one is read while a block computes, or nothing.
    """
    (leaf,) = [each for each in leaves_of(nest) if each.kind.data in ("contract", "window")]
    sides = sides_of(nest, leaf)
    if sides is None:
        raise IllegalRewrite(
            "a gpu tiles matrix products alone: here no two axes reuse what the other one reads",
            hint="leave the schedule to the target",
        )
    unknown = [
        axis for axis in (*tiles, *folds) if axis not in (sides.rows, sides.columns, sides.fold)
    ]
    if unknown:
        raise IllegalRewrite(
            f"each block takes one point of axis {unknown[0]!r}",
            hint=f"tile {sides.rows}, {sides.columns} and {sides.fold}",
        )
    step = folds.get(sides.fold, FOLD_STEP)
    if not _may_stage(leaf, sides, step):
        raise IllegalRewrite(
            f"{step} points of {sides.fold} at a time do not divide a sum that the text writes out",
            hint="choose a step that divides it",
        )
    whole = {axis: tiles.get(axis, Tile()) for axis in (sides.rows, sides.columns)}
    return _tiled(nest, leaf, sides, whole, step, stages.get(sides.fold, 1))


def _tiled(
    nest: FuncOp,
    leaf: ComputeOp,
    sides: Sides,
    tiles: Mapping[str, Tile],
    step: int,
    stages: int,
) -> Choice:
    """Three levels: a block's tile in shared memory, a thread's in registers, steps of the fold."""
    rows, columns = tiles[sides.rows], tiles[sides.columns]
    step = min(step, leaf.sizes[leaf.axis_names.index(sides.fold)])
    tile_loops(nest, tiles)
    lanes = lanes_of(rows, columns)
    if lanes is not None:
        arrange_warps(nest, sides.rows, sides.columns, lanes)
    (leaf,) = [each for each in leaves_of(nest) if each.kind.data == "contract"]
    loop, leaf = tile_reduction(leaf, sides.fold, step)
    read = [number for number in in_memory(leaf) if number < len(leaf.inputs)]
    # By quotients: elements of the tile are then read one by one.
    scattered = any(None in axis_strides(leaf, number).values() for number in read)
    for number in read:
        leaf = _stage(leaf, number, loop, sides)
    leaf = drop_bounds(leaf)
    if stages > 1:
        note_hints(loop, LoopHints(pipeline=stages))
    _group(nest, leaf, sides, tiles)
    if prod(each.trip_count for each in loops_of(nest) if each.level.data == "grid") > ONE_WAVE:
        group_rows(nest, sides.rows)
    threads = prod(tile.block // tile.each for tile in tiles.values())
    shape = [rows.block, columns.block, step]
    numbers = {
        "block tile": "×".join(map(str, shape)),
        "thread tile": f"{rows.each}×{columns.each}",
        "stages": stages,
    }
    least = REGISTERS_PER_SM // (threads * min(each.max_blocks for each in ARCHITECTURES.values()))
    registers = registers_of(rows, columns, step, size_bytes(element_type(leaf.outputs[0])))
    if scattered:
        registers += TESTS + 2 * (rows.block + columns.block) * step // threads
    directives = as_directives(tiles, {sides.fold: step})
    if stages > 1:
        directives = (*directives, directive("pipeline", {sides.fold: stages}))
    return Choice(threads, f"contraction: {TILES}", numbers, max(registers, least), directives)


def _group(nest: FuncOp, leaf: ComputeOp, sides: Sides, tiles: Mapping[str, Tile]) -> None:
    """Take a thread's columns in vectors of 16 bytes, neighbouring threads' side by side.

    Rows too, where the lanes of a warp that read together all have rows of their own.
    """
    inputs = enumerate(leaf.inputs)
    read = [value for number, value in inputs if uses_axis(leaf, number, sides.columns)]
    vector = min(VECTOR_BYTES // size_bytes(element_type(value)) for value in read)
    # Rows that were turned, and have padding, begin at fewer bytes.
    vector = gcd(vector, *(shape_of(value)[-1] for value in read))
    for axis in (sides.columns, sides.rows):
        each = tiles[axis].each
        if axis == sides.rows and tiles[sides.columns].block > tiles[sides.columns].each:
            continue
        if each > vector and each % vector == 0:
            group_points(nest, axis, vector)


def _stage(leaf: ComputeOp, number: int, loop: ForOp, sides: Sides) -> ComputeOp:
    """Stage an operand in shared memory: folded axis first, so that threads read vectors of rows.

    Threads copy neighbours in memory. A tile whose rows go along the folded axis there is turned on
    the way; 4 elements of padding then keep what threads write, which goes down a column, in
    different banks (``TileCopy``). Rows of an odd length have no vectors to turn, and no padding
    that keeps 16 bytes together would do: those are copied as they are to lie.
    """
    copied = _copy_order(leaf, number, sides.columns)
    order = sorted(copied, key=lambda name: name != sides.fold)
    is_turned = copied[-1] == sides.fold and len(order) > 1
    if is_turned and leaf.sizes[leaf.axis_names.index(sides.fold)] % 2:
        copied, is_turned = order, False
    padding = PADDING if is_turned else 0
    _, _, staged = stage_operand(
        leaf, number, loop, "shared", level="block", order=order, copied=copied, padding=padding
    )
    return staged


def _copy_order(leaf: ComputeOp, number: int, columns: str) -> list[str]:
    """Axes of an operand's tile, a dense one last: neighbouring threads copy neighbours.

    Where none is so throughout, places of a convolution are, from one row of it to the next.
    """
    strides = axis_strides(leaf, number)
    dense = 1 in strides.values()
    used = [name for name in leaf.axis_names if uses_axis(leaf, number, name)]
    moving = [name for name in used if _moves(leaf, name)]
    return sorted(moving, key=lambda name: strides[name] == 1 if dense else name == columns)


def _moves(leaf: ComputeOp, axis: str) -> bool:
    """Whether a block's tile has more than one point along an axis."""
    size = leaf.sizes[leaf.axis_names.index(axis)]
    walking = [loop for loop in loops_around(leaf) if axis_of(loop) == axis]
    return size > 1 or any(loop.level.data in ("warp", "thread") for loop in walking)


def _folds_along_memory(leaf: ComputeOp) -> bool:
    """Whether every operand in memory is dense along the one folded axis."""
    folded = [n for n, is_folded in zip(leaf.axis_names, leaf.reductions, strict=True) if is_folded]
    memory = [number for number in in_memory(leaf) if number < len(leaf.inputs)]
    return len(folded) == 1 and all(
        axis_strides(leaf, number)[folded[0]] in (0, 1) for number in memory
    )


def _fold_length(leaf: ComputeOp) -> int:
    return prod(n for n, folded in zip(leaf.sizes, leaf.reductions, strict=True) if folded)


def _warp_per_result(nest: FuncOp) -> Choice:
    """Matrix times vector along rows: lanes read neighbours of a row and fold their sums."""
    loops = kept_loops(nest)
    last = axis_of(loops[-1])
    warps = min(WARPS_PER_BLOCK, power_of_two_at_least(loops[-1].extent.value.data))
    tile_loops(nest, {last: Tile(warps, 1)}, inner="warp")
    for leaf in leaves_of(nest):
        set_leaf_level(leaf, "warp")
    return Choice(warps * WARP_SIZE, f"contraction: a warp for each result, {warps} a block")


def _block_per_result(nest: FuncOp) -> Choice:
    """A dot product: one block."""
    threads = 256
    for leaf in leaves_of(nest):
        set_leaf_level(leaf, "block")
    return Choice(threads, "contraction to one value: one block")


def _direct(nest: FuncOp, leaf: ComputeOp) -> Choice:
    """Threads along the last axis; each keeps the sums of several filters at its place."""
    loops = kept_loops(nest)
    axes = [axis_of(loop) for loop in loops]
    sizes = [loop.extent.value.data for loop in loops]
    filters = _reused_axis(leaf, axes)
    tiles = spread_threads(axes, sizes, 1)
    each = 1
    if filters is not None:
        # One block keeps to as few filters as a thread does; places fill the block.
        others = [axis for axis in axes if axis != filters]
        rest = [size for axis, size in zip(axes, sizes, strict=True) if axis != filters]
        each = min(FILTERS_PER_THREAD, sizes[axes.index(filters)])
        tiles = spread_threads(others, rest, 1)
        tiles[filters] = Tile(each, each)
    elif (rows := _overlapping_axis(leaf, axes)) is not None:
        each = _rows_of_thread(sizes, axes.index(rows))
        others = [axis for axis in axes if axis != rows]
        rest = [size for axis, size in zip(axes, sizes, strict=True) if axis != rows]
        tiles = spread_threads(others, rest, 1)
        tiles[rows] = Tile(each, each)
    tile_loops(nest, tiles)
    threads = prod(tile.block // tile.each for tile in tiles.values())
    reason = f"contraction: direct, {each} results a thread"
    return Choice(threads, reason, {"results a thread": each})


def _overlapping_axis(leaf: ComputeOp, axes: Sequence[str]) -> str | None:
    """An axis, not the last, along which windows of neighbours have points in common.

    A thread that takes several of them reads these points once, and its filter too, while lanes
    still walk the last axis, which lies in memory as they do.
    """
    folded = {name for name, fold in zip(leaf.axis_names, leaf.reductions, strict=True) if fold}
    for axis in reversed(axes[:-1]):
        for result in [each for read in leaf.input_maps for each in read.results]:
            used = {leaf.axis_names[each] for each in result.used_dims()}
            if axis in used and used & folded:
                return axis
    return None


def _rows_of_thread(sizes: Sequence[int], own: int) -> int:
    """How many points of an axis a thread takes: so many that there are still enough threads."""
    each = min(ROWS_PER_THREAD, sizes[own])
    while each > 1 and prod(sizes) // each < LEAST_THREADS:
        each //= 2
    return each


def _reused_axis(leaf: ComputeOp, axes: list[str]) -> str | None:
    """An axis, not the last, that the first operand does not use: its loads serve several sums."""
    candidates = [axis for axis in axes[:-1] if not uses_axis(leaf, 0, axis)]
    return candidates[-1] if candidates else None
