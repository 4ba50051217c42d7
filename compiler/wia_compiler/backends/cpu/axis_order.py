"""The order in which a map's loops stand: innermost the axis along which memory is dense."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import linear_form
from wia_compiler.passes.llvm.types import strides_of
from wia_compiler.passes.tile_rewrites.nest import remap_leaf


def walk_memory_last(leaf: ComputeOp) -> ComputeOp:
    """A map or copy whose last wide axis is the one that most operands are dense along.

    ::

        map axes [j = 64, i = 9] y[i, j] = x[i, j]   →   map axes [i = 9, j = 64] y[i, j] = x[i, j]

    Its points may be walked in any order; other leaves stay as they are.
    """
    wide = [axis for axis, size in enumerate(leaf.sizes) if size > 1]
    if leaf.folds or len(wide) < 2:
        return leaf
    dense = [_dense_operands(leaf, axis) for axis in wide]
    last = wide[max(range(len(wide)), key=lambda place: (dense[place], place))]
    if last == wide[-1]:
        return leaf
    order = [axis for axis in range(len(leaf.sizes)) if axis != last] + [last]
    dims: list[AffineExpr] = [
        AffineExpr.dimension(order.index(axis)) for axis in range(len(leaf.sizes))
    ]
    symbols = [AffineExpr.symbol(number) for number in range(len(leaf.ivs))]
    axes = [(leaf.axis_names[axis], leaf.sizes[axis]) for axis in order]
    return remap_leaf(leaf, dims, symbols, list(leaf.ivs), axes=axes)


def _dense_operands(leaf: ComputeOp, axis: int) -> int:
    """How many operands have their neighbours in memory along an axis."""
    count = 0
    operands = (*leaf.inputs, *leaf.outputs)
    for value, each in zip(operands, (*leaf.input_maps, *leaf.output_maps), strict=True):
        strides = strides_of(cast("MemRefType[Attribute]", value.type))
        step = sum(
            stride * linear_form(result).terms.get(AffineDimExpr(axis), 0)
            for stride, result in zip(strides, each.results, strict=True)
        )
        count += abs(step) == 1
    return count
