"""Ops of MLIR's nvvm dialect for warps: a barrier of its lanes, and rounding for matrix units."""

from __future__ import annotations

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure


@irdl_op_definition
class BarWarpSyncOp(IRDLOperation):
    """``nvvm.bar.warp.sync %mask : i32``: what lanes of the mask wrote before, all of them see."""

    name = "nvvm.bar.warp.sync"

    mask = operand_def(i32)

    assembly_format = "$mask attr-dict `:` type($mask)"

    def __init__(self, mask: SSAValue):
        super().__init__(operands=[mask])


@irdl_op_definition
class RoundToTf32Op(IRDLOperation):
    """``%r = nvvm.convert.float.to.tf32 %x rnd = <rna>``: 10 bits of mantissa, ties away from 0.

    The bits of an f32, as an i32.
    """

    name = "nvvm.convert.float.to.tf32"

    value = operand_def(f32)
    res = result_def(i32)

    traits = traits_def(Pure())

    assembly_format = "$value `rnd` `=` `<` `rna` `>` attr-dict"

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[i32])
