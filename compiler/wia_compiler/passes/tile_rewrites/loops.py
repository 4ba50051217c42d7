"""Rewrites of loops over kept axes: tiles, splits, order, and loops of one turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from wia_compiler.dialects.tile import ComputeOp, ForOp, LoopLevel, hint_of
from wia_compiler.passes.tile_rewrites.buffers import check_layouts, grow_buffers, grow_copies
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    axis_of,
    find_loop,
    leaves_of,
    loops_of,
    needs_bounds,
    remap_leaf,
    replace_ivs,
)


def tile_axis(nest: Operation, axis: str, size: int, *, past_end: bool = False) -> ForOp:
    """Take ``size`` points of an axis at a time: the step of its innermost loops, and leaves.

    ::

        for %i0 in 1000 step 1                      for %i0 in 1000 step 128
          %acc = alloc 1 @register           →        %acc = alloc 128 @register
          contract [i = 1] acc[i] += a[%i0 + i]       contract [i = 128] acc[i] += a[%i0 + i]
                                                        bounds (%i0 + i < 1000)

    Register buffers with a dimension for the axis grow with it. Bounds are added where ``size``
    does not divide the loop's extent; a leaf that only fills a buffer needs none. A shorter axis
    has smaller tiles, but with ``past_end``. Gives the last of the loops.
    """
    loops = innermost_loops(nest, axis)
    if not loops:
        raise IllegalRewrite(f"axis {axis!r} has no loop: only kept axes longer than 1 have one")
    if size < 1:
        raise IllegalRewrite(f"a tile of {size} points of axis {axis!r}")
    for loop in loops:
        if loop.step.value.data != 1:
            raise IllegalRewrite(
                f"loop {loop.axis.data} already takes {loop.step.value.data} points at a time",
                hint="an axis has one size in the innermost leaf",
            )
        for leaf in leaves_of(loop):
            if axis not in leaf.axis_names:
                raise IllegalRewrite(
                    f"a {leaf.kind.data} leaf inside {loop.axis.data} has no {axis!r}"
                )
            check_layouts(leaf, axis, loop)
    for loop in loops:
        _take_points(loop, axis, size if past_end else min(size, loop.extent.value.data))
    return loops[-1]


def innermost_loops(nest: Operation, axis: str) -> list[ForOp]:
    """The loops of an axis that hold no other loop of it: one, or one in each part of a nest."""
    return [loop for loop in loops_of(nest, axis) if not loops_of(loop, axis)]


def _take_points(loop: ForOp, axis: str, size: int) -> None:
    extent = loop.extent.value.data
    if size == 1:
        return
    leaves = leaves_of(loop)
    grow_buffers(loop, axis, leaves, size)
    grow_copies(loop, axis, leaves, -extent % size)
    loop.properties["step"] = IntegerAttr(size, i64)
    for leaf in leaves:
        _widen_leaf(leaf, loop, axis, size, ragged=extent % size != 0)


def _widen_leaf(leaf: ComputeOp, loop: ForOp, axis: str, size: int, *, ragged: bool) -> None:
    position = leaf.axis_names.index(axis)
    ivs = list(leaf.ivs)
    axes = list(zip(leaf.axis_names, leaf.sizes, strict=True))
    axes[position] = (axis, size)
    bounds: list[tuple[AffineExpr, int]] = []
    if ragged and needs_bounds(leaf):
        symbol = AffineExpr.symbol(_position(ivs, loop.induction_variable))
        bounds.append((symbol + AffineExpr.dimension(position), loop.extent.value.data))
    symbols = [AffineExpr.symbol(number) for number in range(len(ivs))]
    remap_leaf(leaf, None, symbols, ivs, axes=axes, bounds=bounds)


def _position(ivs: Sequence[SSAValue], iv: SSAValue) -> int:
    if iv not in ivs:
        raise IllegalRewrite("a leaf does not list the variable of a loop around it")
    return ivs.index(iv)


def split_loop(nest: Operation, named: str | ForOp, size: int) -> tuple[ForOp, ForOp]:
    """Two loops out of one, the inner over ``size`` indices; both stand where the loop stood.

    ::

        for %i0 in 1000 step 4           for %i0 in 1000 step 128
          leaf a[%i0 + i]          →       for %i1 in 128 step 4
                                             leaf a[%i0 + %i1 + i] bounds (%i0 + %i1 + i < 1000)

    Bounds are added where ``size`` does not divide the extent. Loops of the axis are numbered anew.
    """
    loop = find_loop(nest, named) if isinstance(named, str) else named
    axis = axis_of(loop)
    extent, step = loop.extent.value.data, loop.step.value.data
    if size < step or size % step:
        raise IllegalRewrite(
            f"loop {loop.axis.data} takes {step} points at a time: {size} is no multiple"
        )
    leaves = leaves_of(loop)
    inner = ForOp(f"{axis}.0", size, step, cast(LoopLevel, loop.level.data))
    inner.location = loop.location
    inner.attributes = dict(loop.attributes)
    body = loop.body.block
    for op in list(body.ops):
        op.detach()
        inner.body.block.add_op(op)
    body.add_op(inner)
    loop.properties["step"] = IntegerAttr(size, i64)
    outer_iv, inner_iv = loop.induction_variable, inner.induction_variable
    for leaf in leaves:
        made = replace_ivs(leaf, {outer_iv: (outer_iv, inner_iv)})
        if extent % size and needs_bounds(made):
            _bound(made, axis, (outer_iv, inner_iv), extent)
    _renumber(nest, axis)
    return loop, inner


def _bound(leaf: ComputeOp, axis: str, ivs: Sequence[SSAValue], extent: int) -> None:
    """Stop a leaf at the end of a loop that was split.

    One without the axis (what another nest computes there) is not run at all past that end.
    """
    own = list(leaf.ivs)
    reach: AffineExpr = AffineExpr.constant(0)
    if axis in leaf.axis_names:
        reach = AffineExpr.dimension(leaf.axis_names.index(axis))
    elif not all(iv in own for iv in ivs):
        return
    inside = [iv for iv in own if iv in ivs or _walks_inside(iv, axis, ivs)]
    for iv in reversed(inside):
        reach = AffineExpr.symbol(own.index(iv)) + reach
    symbols = [AffineExpr.symbol(number) for number in range(len(own))]
    remap_leaf(leaf, None, symbols, own, bounds=[(reach, extent)])


def _walks_inside(iv: SSAValue, axis: str, ivs: Sequence[SSAValue]) -> bool:
    """Whether a variable is that of a loop of the axis inside the loop that was split."""
    loop = iv.owner.parent_op() if not isinstance(iv.owner, Operation) else None
    if not isinstance(loop, ForOp) or axis_of(loop) != axis:
        return False
    split = ivs[0].owner.parent_op() if not isinstance(ivs[0].owner, Operation) else None
    return split is not None and split.is_ancestor(loop)


def _renumber(nest: Operation, axis: str) -> None:
    """Number the loops of an axis from the outermost in: ``i.0``, ``i.1`` …"""
    depth: dict[ForOp, int] = {}
    for loop in loops_of(nest, axis):
        parent = loop.parent_op()
        while parent is not None and parent not in depth:
            parent = parent.parent_op()
        depth[loop] = depth[parent] + 1 if isinstance(parent, ForOp) else 0
        name = f"{axis}.{depth[loop]}"
        loop.properties["axis"] = StringAttr(name)
        loop.induction_variable.name_hint = hint_of(name)


def remove_unit_loops(nest: Operation) -> None:
    """Take away every loop that runs once.

    ::

        for %i0 in 64 step 64 { leaf a[%i0 + i] }   →   leaf a[i]
    """
    for loop in loops_of(nest):
        if loop.trip_count != 1:
            continue
        for leaf in leaves_of(loop):
            replace_ivs(leaf, {loop.induction_variable: ()})
        block = loop.parent_block()
        assert block is not None
        for op in list(loop.body.block.ops):
            op.detach()
            block.insert_op_before(op, loop)
        loop.detach()
        loop.erase()
