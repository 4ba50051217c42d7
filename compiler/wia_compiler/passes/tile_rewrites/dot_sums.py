"""What products start from where one factor was moved: sums of the other factor's rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, StringAttr, i8, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap, AffineSymExpr

from wia_compiler.dialects.tile import ComputeOp, ForOp, YieldOp
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.tile_rewrites.integer_products import IntegerProduct
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    axis_of,
    leaves_of,
    loops_around,
    remap,
)

SHIFT = 128
"""From a signed number of 8 bits to one from 0 on."""


def start_from_sums(leaf: ComputeOp, product: IntegerProduct, operand: int) -> None:
    """Sums of the other factor's rows, and a fill that starts from them times -128 or 128."""
    other = product.other(operand)
    walk = _walk_rows(leaf, other)
    nest = loops_around(leaf)[0].parent_op()
    fills = [
        each
        for each in leaves_of(cast(Operation, nest))
        if leaf.outputs[0] in each.outputs and not each.inputs
    ]
    if len(fills) != 1:
        raise IllegalRewrite("the sums do not start from a constant")
    (fill,) = fills
    sums = _row_sums(leaf, product, other, walk, cast(Operation, nest))
    block = Block(arg_types=[i32])
    factor = SHIFT if not product.is_signed(operand) else -SHIFT
    scale = arith.ConstantOp(IntegerAttr(factor, i32))
    scaled = arith.MuliOp(block.args[0], scale.result)
    block.add_ops([scale, scaled, end := YieldOp([scaled.result])])
    ivs = list(dict.fromkeys([*fill.ivs, *(iv for _, axis_ivs, _ in walk for iv in axis_ivs)]))
    index: list[AffineExpr] = []
    for name, axis_ivs, _ in walk:
        total: AffineExpr = AffineExpr.constant(0)
        if name in fill.axis_names:
            total = AffineExpr.dimension(fill.axis_names.index(name))
        for iv in reversed(axis_ivs):
            total = AffineExpr.symbol(ivs.index(iv)) + total
        index.append(total)
    rank = (len(fill.sizes), len(ivs))
    symbols: list[AffineExpr] = [AffineExpr.symbol(ivs.index(iv)) for iv in fill.ivs]
    dims: list[AffineExpr] = [AffineExpr.dimension(n) for n in range(rank[0])]
    out = remap(fill.output_maps[0], dims, symbols, rank)
    bounds = [
        (e.replace_dims_and_symbols(dims, symbols), limit)
        for e, limit in zip(fill.bounds.data.results, fill.limit_values, strict=True)
    ]
    for (_, axis_ivs, size), place in zip(walk, index, strict=True):
        extent = _extent_of(axis_ivs, size)
        if extent < size:
            bounds.append((place, extent))
    made = ComputeOp(
        "map",
        axes=list(zip(fill.axis_names, fill.sizes, strict=True)),
        ivs=ivs,
        inputs=[sums],
        outputs=list(fill.outputs),
        maps=[AffineMap(*rank, tuple(index)), out],
        bounds=AffineMap(*rank, tuple(e for e, _ in bounds)),
        limits=[limit for _, limit in bounds],
        body=Region(block),
    )
    made.attributes = dict(fill.attributes)
    for op in (made, scale, scaled, end):
        op.location = fill.location
    parent = fill.parent_block()
    assert parent is not None
    parent.insert_op_before(made, fill)
    fill.detach()
    fill.erase()


def _extent_of(ivs: Sequence[SSAValue], size: int) -> int:
    """The points of an axis: where its outermost loop ends, or ``size`` where it has none."""
    if not ivs:
        return size
    loop = cast(Block, ivs[0].owner).parent_op()
    return cast(ForOp, loop).extent.value.data


def _walk_rows(leaf: ComputeOp, operand: int) -> list[tuple[str, Sequence[SSAValue], int]]:
    """The kept axes that an operand reads: name, variables of loops, points in whole tiles."""
    read = {atom for result in leaf.input_maps[operand].results for atom in atoms(result)}
    folded = {name.data for name in leaf.reduce_axes}
    found: list[tuple[str, Sequence[SSAValue], int]] = []
    around = loops_around(leaf)
    for number, name in enumerate(leaf.axis_names):
        loops = [loop for loop in around if axis_of(loop) == name]
        own = {AffineExpr.dimension(number)}
        own |= {
            AffineSymExpr(list(leaf.ivs).index(loop.induction_variable))
            for loop in loops
            if loop.induction_variable in leaf.ivs
        }
        if name in folded or not read & own:
            continue
        size = leaf.sizes[number]
        size += sum((loop.trip_count - 1) * loop.step.value.data for loop in loops)
        found.append((name, [loop.induction_variable for loop in loops], size))
    return found


def _row_sums(
    leaf: ComputeOp,
    product: IntegerProduct,
    operand: int,
    walk: Sequence[tuple[str, Sequence[SSAValue], int]],
    nest: Operation,
) -> SSAValue:
    """``sums[i] = Σ a[i, k]`` over the whole folded axis, before all loops."""
    around = loops_around(leaf)
    fold = leaf.reduce_axes.data[0].data
    over = [loop for loop in around if axis_of(loop) == fold]
    depth = over[0].extent.value.data if over else leaf.sizes[leaf.axis_names.index(fold)]
    extents = [_extent_of(ivs, size) for _, ivs, size in walk]
    shape = [size for _, _, size in walk]
    buffer = memref.AllocOp([], [], MemRefType(i32, shape, memory_space=StringAttr("packed")))
    buffer.memref.name_hint = f"{leaf.inputs[operand].name_hint or 'a'}_sums"
    loops = [
        ForOp(f"{name}_sum.0", extent) for (name, _, _), extent in zip(walk, extents, strict=True)
    ]
    ivs = [loop.induction_variable for loop in loops]
    count = len(walk)
    rank = (count + 1, count)
    places = tuple(AffineExpr.symbol(n) + AffineExpr.dimension(n) for n in range(count))
    dims: list[AffineExpr] = [AffineExpr.constant(0)] * len(leaf.axis_names)
    symbols: list[AffineExpr] = [AffineExpr.constant(0)] * len(leaf.ivs)
    for number, (name, _, _) in enumerate(walk):
        dims[leaf.axis_names.index(name)] = places[number]
    dims[leaf.axis_names.index(fold)] = AffineExpr.dimension(count)
    axes = [(f"{name}_sum", 1) for name, _, _ in walk]
    zero = Block()
    zero.add_ops([nothing := arith.ConstantOp(IntegerAttr(0, i32)), YieldOp([nothing.result])])
    fill = ComputeOp(
        "map",
        axes=axes,
        ivs=ivs,
        inputs=[],
        outputs=[buffer.memref],
        maps=[AffineMap(count, count, places)],
        body=Region(zero),
    )
    body = Block(arg_types=[i8, i32])
    widen = arith.ExtSIOp if product.is_signed(operand) else arith.ExtUIOp
    wide = widen(body.args[0], i32)
    total = arith.AddiOp(body.args[1], wide.results[0])
    body.add_ops([wide, total, YieldOp([total.result])])
    fold_leaf = ComputeOp(
        "reduce",
        axes=[*axes, (fold, depth)],
        reduce_axes=[fold],
        ivs=ivs,
        inputs=[leaf.inputs[operand]],
        outputs=[buffer.memref],
        maps=[
            remap(leaf.input_maps[operand], dims, symbols, rank),
            AffineMap(*rank, places),
        ],
        body=Region(body),
    )
    for each in (buffer, *loops, *fill.walk(), *fold_leaf.walk()):
        each.location = leaf.location
    first = around[0]
    block = first.parent_block()
    assert block is not None and nest is first.parent_op()
    outermost: list[Operation] = [fill, fold_leaf]
    for loop in reversed(loops):
        loop.body.block.add_ops(outermost)
        outermost = [loop]
    block.insert_ops_before([buffer, *outermost], first)
    return buffer.memref
