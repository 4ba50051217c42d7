"""Products of small integers, several of neighbours added at a time: the layout that takes."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType, StringAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from wia_compiler.dialects.tile import ComputeOp, YieldOp
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.tile_rewrites.dot_sums import SHIFT, start_from_sums
from wia_compiler.passes.tile_rewrites.integer_products import (
    NEIGHBOURS,
    IntegerProduct,
    integer_product,
)
from wia_compiler.passes.tile_rewrites.nest import IllegalRewrite, remap, replace_leaf


def interleave_dots(leaf: ComputeOp, operand: int) -> ComputeOp:
    """Lay a staged operand out for sums of four products: four folded neighbours side by side.

    ::

        copy b_tile[k, j] = b[k, j]             sums[i] = Σ a[i, k]
        map acc[i, j] = 0                   →   map b_tile[k floordiv 4, j, k mod 4] = b[k, j] ^ 128
        contract acc[i, j] +=                   map acc[i, j] = sums[i] * -128
          sext(a[i, k]) * sext(b_tile[k, j])    contract acc[i, j] += sext(a[i, k])
                                                  * zext(b_tile[k floordiv 4, j, k mod 4])

    The instructions for such sums multiply numbers with a sign by numbers without: where both
    operands have one, or neither, the staged one is moved by 128, which the sums then start from.
    Exact for every number, as 32 bits wrap. Refused where operands are not of 8 bits, sums not of
    32, or the fold is over several axes. Gives the leaf.
    """
    product = integer_product(leaf)
    if product is None:
        raise IllegalRewrite("the leaf does not add products of 8-bit integers up in 32 bits")
    if len(leaf.reduce_axes) != 1:
        raise IllegalRewrite("the leaf folds several axes")
    buffer = leaf.inputs[operand]
    if not isinstance(buffer.owner, memref.AllocOp):
        raise IllegalRewrite("the operand is read where it lies: pack it first")
    fold = leaf.axis_names.index(leaf.reduce_axes.data[0].data)
    results = leaf.input_maps[operand].results
    places = [n for n, result in enumerate(results) if AffineDimExpr(fold) in atoms(result)]
    if len(places) != 1 or results[places[0]] != AffineDimExpr(fold):
        raise IllegalRewrite("the copy does not hold the folded axis alone in one dimension")
    users = [use.operation for use in buffer.uses]
    if any(op is not leaf and buffer in getattr(op, "inputs", ()) for op in users):
        raise IllegalRewrite("another leaf reads the copy too")
    moves = product.is_signed(0) == product.is_signed(1)
    if moves:
        start_from_sums(leaf, product, operand)
    made = _interleaved(buffer, places[0])
    for op in users:
        if op is not leaf and isinstance(op, ComputeOp):
            _interleave_writer(op, buffer, made, places[0], leaf.axis_names[fold], moves=moves)
    maps = [each.data for each in leaf.maps]
    k = AffineExpr.dimension(fold)
    index = [*results, k % NEIGHBOURS]
    index[places[0]] = k // NEIGHBOURS
    maps[operand] = AffineMap(len(leaf.sizes), len(leaf.ivs), tuple(index))
    inputs = list(leaf.inputs)
    inputs[operand] = made
    if moves:
        _change_sign(leaf, product, operand)
    leaf = replace_leaf(leaf, inputs=inputs, maps=maps)
    owner = buffer.owner
    owner.detach()
    owner.erase()
    return leaf


def _interleaved(buffer: SSAValue, place: int) -> SSAValue:
    old = cast("MemRefType[Attribute]", buffer.type)
    shape = list(old.get_shape())
    shape[place] = -(-shape[place] // NEIGHBOURS)
    type_ = MemRefType(old.element_type, [*shape, NEIGHBOURS], old.layout, old.memory_space)
    owner = cast(Operation, buffer.owner)
    made = memref.AllocOp([], [], type_)
    made.location, made.memref.name_hint = owner.location, buffer.name_hint
    block = owner.parent_block()
    assert block is not None
    block.insert_op_before(made, owner)
    return made.memref


def _interleave_writer(
    leaf: ComputeOp, buffer: SSAValue, made: SSAValue, place: int, axis: str, *, moves: bool
) -> None:
    """The copy into the buffer, or the fill before it, walks neighbours innermost."""
    fold = leaf.axis_names.index(axis)
    rank = len(leaf.axis_names)
    dims: list[AffineExpr] = [AffineExpr.dimension(n) for n in range(rank)]
    dims[fold] = dims[fold] * NEIGHBOURS + AffineExpr.dimension(rank)
    symbols: list[AffineExpr] = [AffineExpr.symbol(n) for n in range(len(leaf.ivs))]
    axes = list(zip(leaf.axis_names, leaf.sizes, strict=True))
    axes[fold] = (axis, -(-axes[fold][1] // NEIGHBOURS))
    axes.append((f"{axis}_neighbour", NEIGHBOURS))
    sizes = (rank + 1, len(leaf.ivs))
    number = list(leaf.outputs).index(buffer)
    maps = [remap(each.data, dims, symbols, sizes) for each in leaf.maps]
    index = list(leaf.output_maps[number].results)
    index[place] = AffineExpr.dimension(fold)
    maps[len(leaf.inputs) + number] = AffineMap(*sizes, (*index, AffineExpr.dimension(rank)))
    bounds = [
        (e.replace_dims_and_symbols(dims, symbols), limit)
        for e, limit in zip(leaf.bounds.data.results, leaf.limit_values, strict=True)
    ]
    outputs = list(leaf.outputs)
    outputs[number] = made
    replaced = replace_leaf(leaf, axes=axes, outputs=outputs, maps=maps, bounds=bounds)
    if moves and replaced.inputs:
        last = cast(YieldOp, replaced.body.block.last_op)
        bit = arith.ConstantOp(IntegerAttr(-SHIFT, IntegerType(8)))
        moved = arith.XOrIOp(last.arguments[0], bit.result)
        replaced.body.block.insert_ops_before([bit, moved], last)
        last.operands = [moved.result]
        bit.location = moved.location = replaced.location
        replaced.properties["kind"] = StringAttr("map")


def _change_sign(leaf: ComputeOp, product: IntegerProduct, operand: int) -> None:
    old = product.widened[product.operands.index(operand)]
    kind = arith.ExtUIOp if isinstance(old, arith.ExtSIOp) else arith.ExtSIOp
    made = kind(old.operands[0], i32)
    made.location = old.location
    leaf.body.block.insert_op_before(made, old)
    old.results[0].replace_all_uses_with(made.results[0])
    old.detach()
    old.erase()
