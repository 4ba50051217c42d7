"""The barrier of MLIR's nvvm dialect that counts: for some warps of a block."""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """``nvvm.barrier id = %b number_of_threads = %n``: threads wait until ``n`` have come.

    ``n`` is a multiple of 32: threads come in whole warps. Those of the block that never come hold
    up nobody.
    """

    name = "nvvm.barrier"

    barrierId = operand_def(i32)
    numberOfThreads = operand_def(i32)

    assembly_format = "`id` `=` $barrierId `number_of_threads` `=` $numberOfThreads attr-dict"

    def __init__(self, number: SSAValue, threads: SSAValue):
        super().__init__(operands=[number, threads])
