"""What the rewrite of a pattern means by the name of a kernel that does not exist yet."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure


@irdl_op_definition
class FuseMatchOp(IRDLOperation):
    """The ops that a pattern matched, as one kernel of this name, on the pattern's free values.

    ``%out = wia.fuse_match "fused_conv_bias_relu" %input, %weight, %bias : (…) -> (!wia.tensor)``
    """

    name = "wia.fuse_match"

    kernel_name = prop_def(StringAttr)
    arguments = var_operand_def()
    outputs = var_result_def()

    traits = traits_def(Pure())

    assembly_format = "$kernel_name $arguments attr-dict `:` functional-type($arguments, $outputs)"

    def __init__(
        self, kernel_name: str, arguments: Sequence[SSAValue], result_types: Sequence[Attribute]
    ):
        super().__init__(
            operands=[list(arguments)],
            properties={"kernel_name": StringAttr(kernel_name)},
            result_types=[list(result_types)],
        )
