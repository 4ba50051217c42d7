"""A user's schedule of reductions on a GPU: how many blocks and threads share a fold.

``parallel j 4096`` cuts a fold for all blocks. ``tile`` and ``thread_tile`` deal it out inside of a
block: ``tile i 4, j 128; thread_tile j 4`` is four rows a block, of each 128 points at a time, four
neighbours for each of the 32 threads (a warp) that share the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.architecture import MAX_THREADS_PER_BLOCK, WARP_SIZE, Architecture
from wia_compiler.backends.gpu.choice import Choice
from wia_compiler.backends.gpu.leaf import identity_of
from wia_compiler.backends.gpu.phases import check_grid_fold, folds_over
from wia_compiler.backends.gpu.schedule_grid import Parts, rows_are_neighbours
from wia_compiler.backends.gpu.schedule_rows import (
    columns_alone,
    deal_blocks,
    deal_columns,
    deal_threads,
    deal_warps,
    row_axis,
)
from wia_compiler.backends.gpu.schedule_scan import the_scan
from wia_compiler.backends.gpu.tiling import Tile, kept_loops
from wia_compiler.base.schedule import Directive, Schedule
from wia_compiler.passes.scheduling.apply import without_units
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    axis_of,
    is_folded,
    leaves_of,
    loops_of,
)


def parts_as_written(nest: FuncOp, schedule: Schedule) -> Parts | None:
    """The parts of a fold that a line ``parallel AXIS SIZE`` asks for; ``None`` without one."""
    lines = [line for line in schedule.directives if line.name == "parallel"]
    if not lines:
        return None
    entries = [entry for line in lines for entry in line.entries]
    if len(entries) != 1 or len(schedule.directives) > 1:
        raise IllegalRewrite(
            "parallel: a gpu folds one axis in parts, and schedules the launches for it by itself",
            hint="parallel AXIS SIZE stands alone",
            span=lines[0].span,
        )
    (entry,) = entries
    axes = list(dict.fromkeys(name for leaf in leaves_of(nest) for name in leaf.axis_names))
    if entry.number is None:
        raise IllegalRewrite(
            "parallel: every block and thread of a gpu runs in parallel",
            hint=f"with a size it cuts a fold into parts: parallel AXIS SIZE, of {', '.join(axes)}",
            span=entry.span,
        )
    if entry.name not in axes:
        raise IllegalRewrite(
            f"parallel: no axis {entry.name!r}",
            hint=f"the nest has {', '.join(axes)}",
            span=entry.span,
        )
    folds = folds_over(nest, entry.name)
    if not folds:
        raise IllegalRewrite(
            f"parallel: no leaf folds {entry.name!r}, its points run in parallel as they are",
            hint="leave the line out",
            span=entry.span,
        )
    scan = the_scan(nest)
    if scan is None:
        check_grid_fold(nest, entry.name)
        extent = folds[0].sizes[folds[0].axis_names.index(entry.name)]
    else:
        extent = scan.trip_count
    if not 0 < entry.number < extent:
        raise IllegalRewrite(
            f"parallel: {entry.name} has {extent} points, which parts of {entry.number} do not cut",
            hint=f"choose a part of 1 to {extent - 1} points",
            span=entry.span,
        )
    return Parts(entry.name, entry.number, -(-extent // entry.number))


def rows_as_written(
    nest: ScheduledNest, directives: Sequence[Directive], architecture: Architecture
) -> Choice:
    """Deal the rows of reductions out as a user says; ``IllegalRewrite`` where that cannot be."""
    function = nest.function
    if any(is_folded(loop) for loop in loops_of(function)):
        raise IllegalRewrite(
            "a gpu deals running folds out to threads by itself",
            hint="parallel AXIS SIZE cuts one in parts; leave the rest to the target",
        )
    kept = [axis_of(loop) for loop in kept_loops(function)]
    tiles = _tiles_of(nest, directives)
    folds = [leaf for leaf in leaves_of(function) if leaf.folds]
    folded = {name: tile for name, tile in tiles.items() if name not in kept}
    rows = {axis: tiles.get(axis, Tile()) for axis in kept}
    numbers = {"rows": prod(loop.trip_count for loop in kept_loops(function))}
    if not folded:
        _check_threads(prod(tile.block // tile.each for tile in rows.values()))
        return deal_threads(function, rows, numbers)
    (axis, points) = _one_folded(folded, folds[-1].axis_names)
    for leaf in folds:
        if leaf.is_ordered or any(
            identity_of(leaf, number) is None for number in range(len(leaf.outputs))
        ):
            raise IllegalRewrite(
                f"the fold along {axis} keeps its order: one thread runs it",
                hint=f"leave {axis} out of tile and thread_tile",
            )
    group = points.block // points.each
    last = kept[-1] if kept else None
    if last is not None and rows[last].block > 1 and rows_are_neighbours(folds, last):
        return _columns(nest, rows, last, points)
    if any(tile.each > 1 for tile in rows.values()):
        raise IllegalRewrite(
            f"{group} threads share a row: each of them takes one row at a time",
            hint="thread_tile a kept axis where a thread has rows alone, without a tile of " + axis,
        )
    _check_width(nest, axis, points.each)
    if group == WARP_SIZE:
        taken = {name: tile for name, tile in rows.items() if tile.block > 1}
        _check_threads(WARP_SIZE * prod(tile.block for tile in taken.values()))
        return deal_warps(function, taken, points.each, numbers)
    if group < WARP_SIZE or group & (group - 1) or group > MAX_THREADS_PER_BLOCK:
        raise IllegalRewrite(
            f"{points.block} points of {axis} at a time, {points.each} a thread, are {group} "
            "threads for a row",
            hint=f"a row has 32, 64, 128, 256, 512 or 1024: tile {axis} {128 * points.each}",
        )
    several = prod(tile.block for tile in rows.values())
    if several > 1:
        raise IllegalRewrite(
            f"a row of {group} threads has a block of its own, here are {several} rows for one",
            hint=f"tile {axis} {WARP_SIZE * points.each} gives each row a warp",
        )
    return deal_blocks(function, group, points.each, numbers, architecture)


def _tiles_of(nest: ScheduledNest, directives: Sequence[Directive]) -> dict[str, Tile]:
    """What a block and a thread take of each axis that the lines name."""
    blocks: dict[str, int] = {}
    each: dict[str, int] = {}
    for written in directives:
        line = without_units(nest, written)
        if line is not None and line.name not in ("tile", "thread_tile", "vectorize"):
            raise IllegalRewrite(
                f"{line.name}: rows of a gpu are dealt out by tile and thread_tile",
                hint="leave it out",
                span=line.span,
            )
        for entry in line.entries if line is not None else ():
            assert line is not None
            expected = ("grid", "block") if line.name == "tile" else ("thread",)
            if line.level is not None and line.level not in expected:
                raise IllegalRewrite(
                    f"{line.name} of a gpu is @{' or @'.join(expected)}",
                    hint=f"leave @{line.level} away",
                    span=line.span,
                )
            axis = nest.check_axis(entry)
            sizes = blocks if line.name == "tile" else each
            if axis in sizes:
                raise IllegalRewrite(
                    f"{line.name} of axis {axis!r} stands twice",
                    hint="an axis is cut for blocks by tile, and for threads by thread_tile",
                    span=entry.span,
                )
            sizes[axis] = number_of(line, entry, "size")
    found: dict[str, Tile] = {}
    for axis in dict.fromkeys([*blocks, *each]):
        tile = Tile(blocks.get(axis, each.get(axis, 1)), each.get(axis, 1))
        if tile.block % tile.each:
            raise IllegalRewrite(
                f"a block takes {tile.block} points of axis {axis!r}, each of its threads "
                f"{tile.each}",
                hint=f"choose a block of a multiple of {tile.each}",
            )
        found[axis] = tile
    return found


def _one_folded(folded: dict[str, Tile], order: Sequence[str]) -> tuple[str, Tile]:
    """The folded axis that is dealt out: all of them are walked as one, the last one fastest."""
    if len(folded) > 1:
        names = ", ".join(sorted(folded, key=list(order).index))
        raise IllegalRewrite(
            f"threads walk {names} as one row",
            hint="name the last of them alone: its size is how much of the row a block takes",
        )
    return next(iter(folded.items()))


def _columns(nest: ScheduledNest, rows: dict[str, Tile], last: str, points: Tile) -> Choice:
    """Columns side by side, of each so many rows at a time."""
    function, tile = nest.function, rows[last]
    others = [axis for axis, each in rows.items() if axis != last and each.block > 1]
    if points.each > 1 or others or not columns_alone(leaves_of(function), last):
        raise IllegalRewrite(
            f"columns of {last} lie side by side: threads fold them alone, a row at a time",
            hint=f"tile {last} 32 and the folded axis alone",
        )
    sizes = {axis_of(loop): loop.trip_count for loop in kept_loops(function)}
    if sizes[last] % tile.each:
        raise IllegalRewrite(
            f"{sizes[last]} columns of {last} are no whole runs of {tile.each}",
            hint=f"thread_tile {last} of a divisor of {sizes[last]}",
        )
    threads = tile.block // tile.each * points.block
    _check_threads(threads)
    if threads % WARP_SIZE:
        raise IllegalRewrite(
            f"{tile.block} columns, {tile.each} a thread, and {points.block} rows at a time are "
            f"{threads} threads",
            hint=f"choose a multiple of {WARP_SIZE}",
        )
    numbers = {"rows": prod(sizes.values())}
    return deal_columns(function, (last, tile), points.block, numbers, threads)


def _check_width(nest: ScheduledNest, axis: str, width: int) -> None:
    """Raise where neighbours that a thread takes would lie in two rows."""
    if width == 1:
        return
    if row_axis(nest.function) != axis:
        raise IllegalRewrite(
            f"neighbours of {axis} are no neighbours of the row: not all leaves end in it",
            hint=f"leave {axis} out of thread_tile",
        )
    for leaf in leaves_of(nest.function):
        if axis in leaf.axis_names:
            size = leaf.sizes[leaf.axis_names.index(axis)]
            if any(end % width for end in (size, *leaf.limit_values) if size > 1):
                raise IllegalRewrite(
                    f"{size} points of {axis} are no whole runs of {width}",
                    hint=f"thread_tile {axis} of a divisor of {size}",
                )


def _check_threads(threads: int) -> None:
    if threads > MAX_THREADS_PER_BLOCK:
        raise IllegalRewrite(
            f"a block would have {threads} threads, a gpu takes {MAX_THREADS_PER_BLOCK}",
            hint="choose smaller blocks, or more points a thread",
        )
