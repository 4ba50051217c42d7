"""Ops on single elements, inside a ``loop.nest``: loads, stores and what ends a region.

A scalar is a tensor of rank 0 (``!wia.tensor`` before shapes are known), an index a scalar of any
integer dtype; one that is not i64 is extended to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from wia_compiler.dialects.loop_text import parse_value, parse_values, print_value, print_values
from wia_compiler.dialects.types import as_tensor, dtype_of
from wia_compiler.dialects.wia.ops import AnyTensorType, LiteralType

PROVEN = "proven"
"""Attribute of an access whose index was shown to lie inside its array."""


def verify_scalar(value: SSAValue, what: str) -> None:
    """Raise where a typed value is no scalar."""
    tensor = as_tensor(value.type)
    if tensor is not None and tensor.get_shape():
        raise VerifyException(f"{what} is a scalar, found {value.type}")


def verify_index(value: SSAValue, what: str) -> None:
    """Raise where a typed value is no scalar of an integer dtype."""
    verify_scalar(value, what)
    if isinstance(value.type, AnyTensorType | LiteralType):
        return
    if not dtype_of(value.type).is_integer:
        raise VerifyException(f"{what} is an integer, found {value.type}")


def verify_same(outer: SSAValue, inner: Attribute, what: str) -> None:
    """Raise where two typed ends of one value differ; a literal takes the type of the other."""
    open_types = (AnyTensorType, LiteralType)
    if isinstance(outer.type, open_types) or isinstance(inner, open_types):
        return
    if outer.type != inner:
        raise VerifyException(f"{what} is {inner}, found {outer.type}")


def _verify_access(array: SSAValue, indices: Sequence[SSAValue], element: SSAValue) -> None:
    for index in indices:
        verify_index(index, "an index")
    verify_scalar(element, "an element")
    tensor = as_tensor(array.type)
    if tensor is None:
        return
    if len(indices) != len(tensor.get_shape()):
        raise VerifyException(f"{len(indices)} indices for an array of type {tensor}")
    if as_tensor(element.type) is not None and dtype_of(element.type) != dtype_of(tensor):
        raise VerifyException(f"an element of {tensor} is no {element.type}")


@irdl_op_definition
class LoadOp(IRDLOperation):
    """One element: ``%x = loop.load %A[%i, %j] : tensor<4x8xf32> -> tensor<f32>``.

    It gives what the nest's last store to that element left. ``{proven}`` says that the index lies
    inside the array whenever the op runs; elsewhere it is checked and reads 0 outside.
    """

    name = "loop.load"

    array = operand_def()
    indices = var_operand_def()
    result = result_def()

    def __init__(
        self, array: SSAValue, indices: Sequence[SSAValue], result_type: Attribute | None = None
    ):
        super().__init__(
            operands=[array, list(indices)], result_types=[result_type or AnyTensorType()]
        )

    @property
    def is_proven(self) -> bool:
        """Whether the index was shown to lie inside the array."""
        return PROVEN in self.attributes

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.array)
        print_values(printer, self.indices)
        printer.print_string(" : ")
        printer.print_attribute(self.array.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        array = parser.parse_unresolved_operand()
        indices = parse_values(parser)
        parser.parse_punctuation(":")
        resolved = parser.resolve_operand(array, parser.parse_type())
        parser.parse_punctuation("->")
        op = cls(resolved, indices, parser.parse_type())
        op.attributes = dict(parser.parse_optional_attr_dict())
        return op

    def verify_(self) -> None:
        _verify_access(self.array, self.indices, self.result)


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Sets one element: ``loop.store %x : tensor<f32>, %C[%i, %j] : tensor<4x8xf32>``.

    ``{proven}`` as for ``loop.load``; elsewhere a store outside the array is checked and dropped.
    """

    name = "loop.store"

    value = operand_def()
    array = operand_def()
    indices = var_operand_def()

    def __init__(self, value: SSAValue, array: SSAValue, indices: Sequence[SSAValue]):
        super().__init__(operands=[value, array, list(indices)])

    @property
    def is_proven(self) -> bool:
        """Whether the index was shown to lie inside the array."""
        return PROVEN in self.attributes

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_value(printer, self.value)
        printer.print_string(", ")
        printer.print_ssa_value(self.array)
        print_values(printer, self.indices)
        printer.print_string(" : ")
        printer.print_attribute(self.array.type)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        value = parse_value(parser)
        parser.parse_punctuation(",")
        array = parser.parse_unresolved_operand()
        indices = parse_values(parser)
        parser.parse_punctuation(":")
        op = cls(value, parser.resolve_operand(array, parser.parse_type()), indices)
        op.attributes = dict(parser.parse_optional_attr_dict())
        return op

    def verify_(self) -> None:
        _verify_access(self.array, self.indices, self.value)


@irdl_op_definition
class YieldOp(IRDLOperation):
    """What a region gives: the carried values of a loop, the values of a branch or of a nest."""

    name = "loop.yield"

    arguments = var_operand_def()

    traits = traits_def(IsTerminator())

    assembly_format = "($arguments^ `:` type($arguments))? attr-dict"

    def __init__(self, values: Sequence[SSAValue] = ()):
        super().__init__(operands=[list(values)])


@irdl_op_definition
class ConditionOp(IRDLOperation):
    """Ends the first region of ``loop.while``: whether its body runs once more."""

    name = "loop.condition"

    condition = operand_def()

    traits = traits_def(IsTerminator())

    assembly_format = "$condition attr-dict `:` type($condition)"

    def __init__(self, condition: SSAValue):
        super().__init__(operands=[condition])

    def verify_(self) -> None:
        verify_scalar(self.condition, "a condition")
