"""Sums of 8-bit integers kept in 32 bits, whose lowest bits are the same: sums wrap around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, i8, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from wia_compiler.backends.gpu.builder import shape_of
from wia_compiler.dialects.tile import ComputeOp, YieldOp
from wia_compiler.passes.tile_rewrites import replace_leaf


def widen_sums(leaf: ComputeOp) -> None:
    """Make the register buffer that a product of i8 is added up in one of i32.

    ::

        acc: 1×1 i8                          acc: 1×1 i32
        map acc = 0 : i8              →      map acc = 0 : i32
        contract acc += a * b                contract acc += extsi a * extsi b
        map y = f(acc)                       map y = f(trunci acc)
    """
    old = leaf.outputs[0]
    allocation = old.owner
    assert isinstance(allocation, memref.AllocOp)
    type = cast("MemRefType[Attribute]", old.type)
    made = memref.AllocOp([], [], MemRefType(i32, shape_of(old), memory_space=type.memory_space))
    made.memref.name_hint = old.name_hint
    made.location = allocation.location
    block = allocation.parent_block()
    assert block is not None
    block.insert_op_before(made, allocation)
    users = list(dict.fromkeys(use.operation for use in old.uses))
    for user in users:
        assert isinstance(user, ComputeOp)
        _widen_body(user, old)
        replace_leaf(
            user,
            inputs=[made.memref if each is old else each for each in user.inputs],
            outputs=[made.memref if each is old else each for each in user.outputs],
        )
    allocation.detach()
    allocation.erase()


def _widen_body(leaf: ComputeOp, buffer: SSAValue) -> None:
    """The body in which what the buffer holds is an i32."""
    old = leaf.body.block
    scalars = [*leaf.inputs, *(leaf.outputs if leaf.folds else ())]
    types = [
        i32 if value is buffer else argument.type
        for value, argument in zip(scalars, old.args, strict=True)
    ]
    block = Block(arg_types=types)
    if leaf.folds:
        _product(block)
    else:
        values: dict[SSAValue, SSAValue] = {}
        for value, before, after in zip(scalars, old.args, block.args, strict=True):
            values[before] = _added(block, arith.TruncIOp(after, i8)) if value is buffer else after
        for op in old.ops:
            if isinstance(op, YieldOp):
                block.add_op(YieldOp(_yielded(block, leaf, op, values, buffer)))
            else:
                block.add_op(op.clone(values))
    for op in block.ops:
        op.location = leaf.location
    leaf.detach_region(leaf.body)
    leaf.add_region(Region(block))


def _product(block: Block) -> None:
    a, b, held = block.args
    left, right = (_added(block, arith.ExtSIOp(each, i32)) for each in (a, b))
    product = _added(block, arith.MuliOp(left, right))
    block.add_op(YieldOp([_added(block, arith.AddiOp(held, product))]))


def _yielded(
    block: Block,
    leaf: ComputeOp,
    op: YieldOp,
    values: dict[SSAValue, SSAValue],
    buffer: SSAValue,
) -> Sequence[SSAValue]:
    """What a map writes: a filled buffer of sums gets the number in 32 bits."""
    found: list[SSAValue] = []
    for output, value in zip(leaf.outputs, op.arguments, strict=True):
        if output is not buffer:
            found.append(values[value])
            continue
        number = value.owner
        if isinstance(number, arith.ConstantOp) and isinstance(number.value, IntegerAttr):
            constant = IntegerAttr(number.value.value.data, i32)
            found.append(_added(block, arith.ConstantOp(constant)))
        else:
            found.append(_added(block, arith.ExtSIOp(values[value], i32)))
    return found


def _added(block: Block, op: Operation) -> SSAValue:
    block.add_op(op)
    return op.results[0]
