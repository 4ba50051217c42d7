"""Axes that leaves walk alone: a loop right around each of them."""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr

from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    axis_of,
    check_fold_order,
    leaves_of,
    loops_around,
    remap_leaf,
)


def tile_leaf(
    leaf: ComputeOp, axis: str, size: int, *, past_end: bool = False
) -> tuple[ForOp, ComputeOp]:
    """Walk an axis that a leaf has all of ``size`` points at a time: a serial loop around it.

    ::

        map [j = 100] y[i, j] = x[i, j]   →   for %j0 in 100 step 16 @serial
                                                map [j = 16] y[i, %j0 + j] = x[i, %j0 + j]
                                                  bounds (%j0 + j < 100)

    A ``wia.ordered`` fold is cut along its first folded axis: cut along another, its elements
    would be added in another order. A shorter axis has smaller pieces, but with ``past_end``.
    """
    position = leaf.axis_names.index(axis)
    extent = leaf.sizes[position]
    check_fold_order(leaf, axis, size)
    if size < 1:
        raise IllegalRewrite(f"a tile of {size} points of axis {axis!r}")
    size = size if past_end else min(size, extent)
    outer = [loop for loop in loops_around(leaf) if axis_of(loop) == axis]
    loop = ForOp(f"{axis}.{len(outer)}", extent, size, "serial")
    loop.location = leaf.location
    block = leaf.parent_block()
    assert block is not None
    block.insert_op_before(loop, leaf)
    leaf.detach()
    loop.body.block.add_op(leaf)
    ivs = [*leaf.ivs, loop.induction_variable]
    dims = [AffineExpr.dimension(number) for number in range(len(leaf.axis_names))]
    dims[position] = AffineExpr.symbol(len(ivs) - 1) + dims[position]
    symbols = [AffineExpr.symbol(number) for number in range(len(ivs) - 1)]
    axes = list(zip(leaf.axis_names, leaf.sizes, strict=True))
    axes[position] = (axis, size)
    bounds = [(dims[position], extent)] if extent % size else []
    return loop, remap_leaf(leaf, dims, symbols, ivs, axes=axes, bounds=bounds)


def tile_leaves(nest: Operation, axis: str, size: int) -> list[ForOp]:
    """Walk an axis ``size`` points at a time in each leaf that has more of them (``tile_leaf``)."""
    made: list[ForOp] = []
    for leaf in leaves_of(nest):
        if axis in leaf.axis_names and leaf.sizes[leaf.axis_names.index(axis)] > size:
            made.append(tile_leaf(leaf, axis, size)[0])
    return made
