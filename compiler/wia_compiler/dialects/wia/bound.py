"""A bound of a loop over whole tensors."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure


@irdl_op_definition
class BoundOp(IRDLOperation):
    """A whole number of any dtype as an i64: ``%1 = wia.bound %n as "the stop of i" : (T) -> T``.

    infer-shapes checks that it is one, and puts a cast or the value itself in its place.
    """

    name = "wia.bound"

    input = operand_def()
    what = prop_def(StringAttr)
    result = result_def()

    traits = traits_def(Pure())

    assembly_format = "$input `as` $what attr-dict `:` `(` type($input) `)` `->` type($result)"

    def __init__(self, value: SSAValue, what: str, result_type: Attribute):
        super().__init__(
            operands=[value], properties={"what": StringAttr(what)}, result_types=[result_type]
        )
