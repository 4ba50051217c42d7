"""Point code of a thread: the same ops on the values of the kernel."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith, memref
from xdsl.ir import Block, Operation, Region, SSAValue

from wia_compiler.backends.gpu.leaf import Kernel

LowerBlock = Callable[[Block], None]


def lower_point(op: Operation, kernel: Kernel, lower_block: LowerBlock) -> None:
    """Append what ``op`` becomes; ``lower_block`` does so for the ops of a block inside of it."""
    builder = kernel.builder
    if isinstance(op, arith.ConstantOp):
        kernel.values[op.result] = builder.once(
            ("number", op.value), lambda: builder.add(arith.ConstantOp(op.value)).result
        )
        return
    copy = op.create(
        operands=[_value(operand, kernel) for operand in op.operands],
        result_types=op.result_types,
        attributes=op.attributes,
        properties=op.properties,
        regions=[_region(region, kernel, lower_block) for region in op.regions],
    )
    builder.location = op.location
    if isinstance(op, memref.AllocaOp):
        builder.at_entry(copy)
    else:
        builder.add(copy)
    for before, after in zip(op.results, copy.results, strict=True):
        after.name_hint = before.name_hint
        kernel.values[before] = after


def _value(value: SSAValue, kernel: Kernel) -> SSAValue:
    """What stands for a value of the nest: indices of loops are sums until they are needed."""
    if value in kernel.ivs:
        return kernel.builder.index(kernel.ivs[value])
    return kernel.values[value]


def _region(region: Region, kernel: Kernel, lower_block: LowerBlock) -> Region:
    blocks: list[Block] = []
    for block in region.blocks:
        made = Block(arg_types=block.arg_types)
        for before, after in zip(block.args, made.args, strict=True):
            after.name_hint = before.name_hint
            kernel.values[before] = after
        with kernel.builder.inside(made):
            lower_block(block)
        blocks.append(made)
    return Region(blocks)
