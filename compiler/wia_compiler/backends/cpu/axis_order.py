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
    """A map or copy whose last wide axis is the one that fewest operands have to jump along.

    Of axes alike in that, it is the one that most operands are dense along. An operand that does
    not move along an axis costs nothing there: one value for each channel is no reason to walk over
    channels.

    ::

        map axes [j = 64, i = 9] y[i, j] = x[i, j]   →   map axes [i = 9, j = 64] y[i, j] = x[i, j]

    Its points may be walked in any order; other leaves stay as they are.
    """
    wide = [axis for axis, size in enumerate(leaf.sizes) if size > 1]
    if leaf.folds or len(wide) < 2:
        return leaf
    steps = [_steps(leaf, axis) for axis in wide]
    jumps = [sum(step > 1 for step in each) for each in steps]
    dense = [each.count(1) for each in steps]
    last = wide[max(range(len(wide)), key=lambda place: (-jumps[place], dense[place], place))]
    if last == wide[-1]:
        return leaf
    order = [axis for axis in range(len(leaf.sizes)) if axis != last] + [last]
    dims: list[AffineExpr] = [
        AffineExpr.dimension(order.index(axis)) for axis in range(len(leaf.sizes))
    ]
    symbols = [AffineExpr.symbol(number) for number in range(len(leaf.ivs))]
    axes = [(leaf.axis_names[axis], leaf.sizes[axis]) for axis in order]
    return remap_leaf(leaf, dims, symbols, list(leaf.ivs), axes=axes)


def _steps(leaf: ComputeOp, axis: int) -> list[int]:
    """How far apart in memory the neighbours along an axis are, for each operand."""
    found: list[int] = []
    operands = (*leaf.inputs, *leaf.outputs)
    for value, each in zip(operands, (*leaf.input_maps, *leaf.output_maps), strict=True):
        strides = strides_of(cast("MemRefType[Attribute]", value.type))
        step = sum(
            stride * linear_form(result).terms.get(AffineDimExpr(axis), 0)
            for stride, result in zip(strides, each.results, strict=True)
        )
        found.append(abs(step))
    return found
