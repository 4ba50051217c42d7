"""Products of small integers, several of neighbours added at a time: the layout that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType, StringAttr, i8, i32
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap, AffineSymExpr

from wia_compiler.dialects.tile import ComputeOp, ForOp, YieldOp
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    axis_of,
    leaves_of,
    loops_around,
    remap,
    replace_leaf,
)

NEIGHBOURS = 4
"""Numbers of 8 bits in the 32 bits that their products are added to."""
_SHIFT = 128
"""From a signed number of 8 bits to one from 0 on."""


@dataclass(frozen=True)
class IntegerProduct:
    """``held + wide(x) * wide(y)`` of numbers of 8 bits, summed in 32.

    ``operands`` are the inputs of the two factors, ``widened`` the ops that make them wider.
    """

    operands: tuple[int, int]
    widened: tuple[Operation, Operation]

    def is_signed(self, operand: int) -> bool:
        """Whether a factor's numbers have a sign."""
        return isinstance(self.widened[self.operands.index(operand)], arith.ExtSIOp)

    def other(self, operand: int) -> int:
        """The input of the other factor."""
        return self.operands[1 - self.operands.index(operand)]


def integer_product(leaf: ComputeOp) -> IntegerProduct | None:
    """What a leaf multiplies, if it adds up products of two numbers of 8 bits in 32 bits."""
    block = leaf.body.block
    if not leaf.folds or len(leaf.inputs) != 2 or len(leaf.outputs) != 1:
        return None
    total = cast(YieldOp, block.last_op).arguments[0].owner
    held = block.args[2]
    if not isinstance(total, arith.AddiOp) or held not in total.operands or held.type != i32:
        return None
    (product,) = (value.owner for value in total.operands if value is not held)
    if not isinstance(product, arith.MuliOp):
        return None
    operands: list[int] = []
    widened: list[Operation] = []
    for factor in product.operands:
        op = factor.owner
        if not isinstance(op, arith.ExtSIOp | arith.ExtUIOp) or op.input not in block.args[:2]:
            return None
        if op.input.type != i8:
            return None
        operands.append([*block.args].index(cast(BlockArgument, op.input)))
        widened.append(op)
    if sorted(operands) != [0, 1] or len(list(block.ops)) != 5:
        return None
    return IntegerProduct((operands[0], operands[1]), (widened[0], widened[1]))


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
        _start_from_sums(leaf, product, operand)
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
        bit = arith.ConstantOp(IntegerAttr(-_SHIFT, IntegerType(8)))
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


def _start_from_sums(leaf: ComputeOp, product: IntegerProduct, operand: int) -> None:
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
    factor = _SHIFT if not product.is_signed(operand) else -_SHIFT
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
