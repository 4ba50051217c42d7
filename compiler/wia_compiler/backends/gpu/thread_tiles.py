"""How threads stand in the tile of a block: lanes of a warp in a rectangle, points in groups."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir.affine import AffineExpr, AffineMap

from wia_compiler.backends.gpu.tiling import Tile
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    find_loop,
    interchange,
    leaves_of,
    loops_of,
    replace_leaf,
    set_level,
    split_loop,
)
from wia_compiler.passes.tile_rewrites.nest import bounds_of

LANES = ((4, 8), (2, 16), (8, 4), (1, 32), (16, 2), (32, 1))
"""Rows × columns of a warp's lanes, the best first: near a square, and 8 lanes of 16 bytes read the
128 bytes that one pass over shared memory gives."""


def lanes_of(rows: Tile, columns: Tile) -> tuple[int, int] | None:
    """The first of ``LANES`` whose rectangle fits into a block's threads; ``None`` for odd ones."""
    down, across = rows.block // rows.each, columns.block // columns.each
    return next((each for each in LANES if down % each[0] == across % each[1] == 0), None)


def arrange_warps(nest: FuncOp, rows: str, columns: str, lanes: tuple[int, int]) -> None:
    """Let each warp of a block take a rectangle of its threads.

    ::

        for %i1 in 128 step 8 @thread            for %i1 in 128 step 32 @warp
          for %j1 in 128 step 8 @thread    →       for %j1 in 128 step 64 @warp
                                                     for %i2 in 32 step 8 @thread
                                                       for %j2 in 64 step 8 @thread

    A loop over warps that would run once is left out.
    """
    split: list[str] = []
    for axis, count in zip((rows, columns), lanes, strict=True):
        thread = _thread_loop(nest, axis)
        if thread is not None and thread.trip_count > count:
            split_loop(nest, thread, count * thread.step.value.data)
            split.append(axis)
    if split == [rows, columns]:
        interchange(find_loop(nest, f"{rows}.2"), find_loop(nest, f"{columns}.1"))
    elif split == [columns] and (thread := _thread_loop(nest, rows)) is not None:
        interchange(thread, find_loop(nest, f"{columns}.1"))
    for axis in split:
        set_level(find_loop(nest, f"{axis}.1"), "warp")


def group_points(nest: FuncOp, axis: str, size: int) -> None:
    """Let a thread take its points of an axis in groups of ``size``, its neighbours' in between.

    ::

        for %j2 in 64 step 8 @thread           for %j2 in 32 step 4 @thread
          leaf [j = 8] b[%j2 + j]        →       leaf [j = 8] b[%j2 + j + (j floordiv 4) * 28]

    Vectors of neighbouring threads then lie side by side, as shared memory and global memory want
    it. Legal where the loop's threads take all of what the loop walks, and leaves read its variable
    only in a sum with the axis.
    """
    loop = _thread_loop(nest, axis)
    if loop is None:
        return
    each, lanes = loop.step.value.data, loop.trip_count
    if each % size or loop.extent.value.data != each * lanes:
        raise IllegalRewrite(f"{each} points of axis {axis!r} are no groups of {size}")
    if each == size:
        return
    for leaf in leaves_of(loop):
        _spread(leaf, loop, axis, size, lanes)
    loop.properties["extent"] = IntegerAttr(lanes * size, i64)
    loop.properties["step"] = IntegerAttr(size, i64)


def _spread(leaf: ComputeOp, loop: ForOp, axis: str, size: int, lanes: int) -> None:
    if loop.induction_variable not in leaf.ivs:
        return
    variable = AffineExpr.symbol(list(leaf.ivs).index(loop.induction_variable))
    dims = [AffineExpr.dimension(number) for number in range(len(leaf.axis_names))]
    symbols = [AffineExpr.symbol(number) for number in range(len(leaf.ivs))]
    own = leaf.axis_names.index(axis)
    dims[own] = dims[own] + (dims[own] // size) * (size * (lanes - 1))

    def moved(expression: AffineExpr) -> AffineExpr:
        if variable not in atoms(expression):
            return expression
        return expression.replace_dims_and_symbols(dims, symbols)

    rank = (len(dims), len(symbols))
    maps = [AffineMap(*rank, tuple(map(moved, each.data.results))) for each in leaf.maps]
    bounds = [(moved(expression), limit) for expression, limit in bounds_of(leaf)]
    replace_leaf(leaf, maps=maps, bounds=bounds)


def _thread_loop(nest: FuncOp, axis: str) -> ForOp | None:
    loops = [loop for loop in loops_of(nest, axis) if loop.level.data == "thread"]
    return loops[-1] if loops else None
