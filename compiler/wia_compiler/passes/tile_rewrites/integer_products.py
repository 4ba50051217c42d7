"""Products of 8-bit integers that are added up in 32 bits: which leaves are such."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import BlockArgument, Operation

from wia_compiler.dialects.tile import ComputeOp, YieldOp

NEIGHBOURS = 4
"""Numbers of 8 bits in the 32 bits that their products are added to."""


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
