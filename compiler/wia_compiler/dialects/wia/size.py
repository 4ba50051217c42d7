"""A named size of a kernel's types as a value."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, result_def, traits_def
from xdsl.traits import Pure


@irdl_op_definition
class SizeOp(IRDLOperation):
    """The size that a name of the text stands for: ``%0 = wia.size "M" scope 0 : !wia.tensor``.

    An i64 scalar. The ``wia.declare`` ops of the same ``scope`` say which axes have that size;
    infer-shapes puts the number in its place.
    """

    name = "wia.size"

    size = prop_def(StringAttr)
    scope = prop_def(IntegerAttr)
    result = result_def()

    traits = traits_def(Pure())

    assembly_format = "$size `scope` $scope attr-dict `:` type($result)"

    def __init__(self, size: str, scope: int, result_type: Attribute):
        super().__init__(
            properties={"size": StringAttr(size), "scope": IntegerAttr(scope, i64)},
            result_types=[result_type],
        )
