"""The operands of a nest before it is typed: constants go inside, unused ones go."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.ir import Block, SSAValue

from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_arrays import OutputOp
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import AnyTensorType, ConstantOp, LiteralType
from wia_compiler.passes.loops.values import Evaluator


def inline_constants(nest: NestOp) -> list[ConstantOp]:
    """Write scalars that are known numbers outside inside the nest instead, and drop operands
    that the nest does not read: ranges of indices are then plain in its text. The constants made.
    """
    block = nest.body.block
    made: list[ConstantOp] = []
    dropped: list[int] = []
    written = nest.written
    for position, (argument, outer) in enumerate(zip(block.args, nest.arguments, strict=True)):
        if position in written or isinstance(outer.type, AnyTensorType | LiteralType):
            continue
        number = None if spec_of(outer.type).rank else Evaluator().number(outer)
        if number is not None and block.first_op is not None:
            copy = ConstantOp(number, outer.type)
            copy.location = (
                nest.location if isinstance(outer.owner, Block) else outer.owner.location
            )
            block.insert_op_before(copy, block.first_op)
            copy.result.name_hint = argument.name_hint
            argument.replace_all_uses_with(copy.result)
            made.append(copy)
        if argument.first_use is None:
            dropped.append(position)
    if not dropped:
        return made
    for position in reversed(dropped):
        block.erase_arg(block.args[position])
    kept = [each for n, each in enumerate(nest.arguments) if n not in dropped]
    shifted = [each - sum(gone < each for gone in dropped) for each in written]
    nest.operands = kept
    nest.properties["writes"] = ArrayAttr([IntegerAttr(each, i64) for each in shifted])
    return made


def declared_rank(array: SSAValue, nest: NestOp) -> int | None:
    """How many axes the text gives an output that the nest is the first to write."""
    block = nest.body.block
    for argument, outer in zip(block.args, nest.arguments, strict=True):
        if argument is array and isinstance(outer.owner, OutputOp):
            return outer.owner.declared_rank
    return None
