"""What is plain of a value's range from how it is computed."""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.ir import Operation, SSAValue

NEVER_POSITIVE = "wia.never_positive"
"""Attribute of an op whose float result is known to be at most 0, or NaN."""


def is_never_positive(value: SSAValue) -> bool:
    """Whether a float is plainly at most 0, or NaN: ``-x * x``, ``-|x|``, or where it is noted."""
    op = value.owner
    match op:
        case _ if isinstance(op, Operation) and NEVER_POSITIVE in op.attributes:
            return True
        case arith.NegfOp():
            return _is_never_negative(op.operand)
        case arith.MulfOp():
            owners = [each.owner for each in op.operands]
            negated = [each.operand for each in owners if isinstance(each, arith.NegfOp)]
            return len(negated) == 1 and negated[0] in op.operands
        case _:
            return False


def _is_never_negative(value: SSAValue) -> bool:
    """Whether a float is plainly a square, a magnitude or a power."""
    op = value.owner
    if isinstance(op, arith.MulfOp):
        return op.lhs is op.rhs
    return isinstance(op, math.AbsFOp | math.ExpOp | math.SqrtOp)
