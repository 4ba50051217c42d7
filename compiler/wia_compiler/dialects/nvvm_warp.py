"""MLIR's ``nvvm.bar.warp.sync``: the lanes of a warp wait for one another."""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def


@irdl_op_definition
class BarWarpSyncOp(IRDLOperation):
    """``nvvm.bar.warp.sync %mask : i32``: what lanes of the mask wrote before, all of them see."""

    name = "nvvm.bar.warp.sync"

    mask = operand_def(i32)

    assembly_format = "$mask attr-dict `:` type($mask)"

    def __init__(self, mask: SSAValue):
        super().__init__(operands=[mask])
