"""What joins tensors to the branches of ``cf``."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure


@irdl_op_definition
class ConditionOp(IRDLOperation):
    """The one element of a bool tensor, for a branch to decide by.

    ``%c = wia.condition %x : (tensor<i1>) -> i1``, then ``cf.cond_br %c, ^a, ^b``. Before the
    arguments are known the operand is ``!wia.tensor``, or ``!wia.literal`` for ``while (true)``;
    infer-shapes checks that it is a bool with exactly one element and makes its rank 0.
    """

    name = "wia.condition"

    input = operand_def()
    result = result_def(IntegerType(1))

    traits = traits_def(Pure())

    assembly_format = "$input attr-dict `:` `(` type($input) `)` `->` type($result)"

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[i1])
