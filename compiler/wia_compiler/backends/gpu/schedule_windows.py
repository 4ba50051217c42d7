"""Folds over sliding windows: a thread for some results above one another, neighbours beside."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.access import axis_strides
from wia_compiler.backends.gpu.choice import Choice
from wia_compiler.backends.gpu.schedule_elementwise import spread_threads
from wia_compiler.backends.gpu.tiling import Tile, kept_loops, tile_loops
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.tile_rewrites import axis_of, leaves_of

LARGEST_WINDOW = 49
"""Points of a window that one thread folds: its loads are written out."""
MOST_POINTS = 64
"""Points that a thread folds for all of its results."""
ROWS_PER_THREAD = (4, 2)
"""Results above one another, where their windows overlap."""


def schedule_windows(nest: FuncOp) -> Choice | None:
    """Deal the results of sliding windows out over threads; ``None`` for a nest of other folds.

    ::

        for %y0 in 56, for %x0 in 56:  reduce m[y, x] = max(m[y, x], a[y * 2 + r, x * 2 + s])
          →  a thread for 2 × 1 results; consecutive threads along x

    A thread keeps several rows of results where windows overlap: what they share is read once.
    """
    folds = [leaf for leaf in leaves_of(nest) if leaf.kind.data == "reduce"]
    if len(folds) != 1 or folds[0].is_ordered:
        return None
    (leaf,) = folds
    slid = _slid_axes(leaf)
    points = prod(n for n, folded in zip(leaf.sizes, leaf.reductions, strict=True) if folded)
    loops = kept_loops(nest)
    axes = [axis_of(loop) for loop in loops]
    if not slid or points > LARGEST_WINDOW or not set(slid) <= set(axes):
        return None
    sizes = [loop.extent.value.data for loop in loops]
    above = axes[-2] if len(axes) > 1 and axes[-2] in slid else None
    rows = 1
    if above is not None and _overlaps(leaf, above):
        extent = sizes[axes.index(above)]
        fitting = (n for n in ROWS_PER_THREAD if extent % n == 0 and n * points <= MOST_POINTS)
        rows = next(fitting, 1)
    others = [
        size // rows if axis == above else size for axis, size in zip(axes, sizes, strict=True)
    ]
    tiles = spread_threads(axes, others, 1)
    if above is not None and rows > 1:
        tiles[above] = Tile(tiles.get(above, Tile()).block * rows, rows)
    tile_loops(nest, tiles)
    threads = prod(tile.block // tile.each for tile in tiles.values())
    return Choice(
        threads, "windows: a thread for each column of results", {"results a thread": rows}
    )


def _slid_axes(leaf: ComputeOp) -> list[str]:
    """Kept axes along which a window moves: by their strides, whichever way indices are written.

    Rows that lie one behind the other in memory are no windows.
    """
    found: dict[str, None] = {}
    for number in range(len(leaf.inputs)):
        sides = _window(leaf, number)
        is_run = _is_run(sides)
        for axis, stride in _moves(leaf, number).items():
            near = [(step, count) for step, count in sides if step <= stride]
            if near and (not is_run or any(stride < step * count for step, count in near)):
                found[axis] = None
    return list(found)


def _overlaps(leaf: ComputeOp, axis: str) -> bool:
    """Whether neighbouring windows along an axis share elements."""
    return any(
        step <= _moves(leaf, number).get(axis, 0) < step * count
        for number in range(len(leaf.inputs))
        for step, count in _window(leaf, number)
    )


def _window(leaf: ComputeOp, number: int) -> list[tuple[int, int]]:
    """Elements between neighbours of each folded axis of an input, and how many points it has."""
    strides = axis_strides(leaf, number)
    axes = zip(leaf.axis_names, leaf.sizes, leaf.reductions, strict=True)
    sides = [(strides[name] or 0, size) for name, size, folded in axes if folded and size > 1]
    return [(step, count) for step, count in sides if step > 0]


def _moves(leaf: ComputeOp, number: int) -> dict[str, int]:
    """Elements between neighbours of each kept axis that an input uses."""
    strides = axis_strides(leaf, number)
    kept = (n for n, folded in zip(leaf.axis_names, leaf.reductions, strict=True) if not folded)
    return {name: stride for name in kept if (stride := strides[name])}


def _is_run(sides: Sequence[tuple[int, int]]) -> bool:
    """Whether the points of a window lie one behind the other."""
    ordered = sorted(sides)
    return all(step * count == above for (step, count), (above, _) in pairwise(ordered))
