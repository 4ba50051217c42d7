"""MLIR vector ops that xDSL 0.75 lacks: vectors from scalars, and parts of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Self, cast

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, IntegerType, VectorType, i64
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class FromElementsOp(IRDLOperation):
    """``%v = vector.from_elements %a, %b, %c, %d : vector<2x2xf32>``, the last index fastest."""

    name = "vector.from_elements"

    elements = var_operand_def()
    dest = result_def(VectorType)

    traits = traits_def(Pure())

    def __init__(self, elements: Sequence[SSAValue], type: VectorType[Attribute]):
        super().__init__(operands=[list(elements)], result_types=[type])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.elements, printer.print_ssa_value)
        printer.print_string(" : ")
        printer.print_attribute(self.dest.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        elements = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        parser.parse_punctuation(":")
        type = cast("VectorType[Attribute]", parser.parse_type())
        return cls([parser.resolve_operand(each, type.element_type) for each in elements], type)

    def verify_(self) -> None:
        type = self.dest.type
        if len(self.elements) != prod(type.get_shape()):
            raise VerifyException(f"{len(self.elements)} elements for {type}")
        if any(each.type != type.element_type for each in self.elements):
            raise VerifyException(f"the elements of {type} are {type.element_type}")


@irdl_op_definition
class ExtractStridedSliceOp(IRDLOperation):
    """Rows of a vector: ``sizes[0]`` of them from ``offsets[0]`` on.

    ``vector.extract_strided_slice %v offsets = [2], sizes = [2], strides = [1] : vector<4x2xf16> to
    vector<2x2xf16>``. Slices along one dimension, the outermost, are all that is
    needed here.
    """

    name = "vector.extract_strided_slice"

    source = operand_def(VectorType)
    offsets = prop_def(ArrayAttr[IntegerAttr])
    sizes = prop_def(ArrayAttr[IntegerAttr])
    strides = prop_def(ArrayAttr[IntegerAttr])
    result = result_def(VectorType)

    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, offset: int, size: int):
        type = cast("VectorType[Attribute]", source.type)
        super().__init__(
            operands=[source],
            properties={"offsets": _one(offset), "sizes": _one(size), "strides": _one(1)},
            result_types=[VectorType(type.element_type, [size, *type.get_shape()[1:]])],
        )

    @property
    def offset(self) -> int:
        """The first row."""
        return _number(self.offsets)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        texts = [f"{name} = [{_number(each)}]" for name, each in self._listed()]
        printer.print_string(f" {', '.join(texts)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)

    def _listed(self) -> list[tuple[str, ArrayAttr[IntegerAttr[IntegerType]]]]:
        return [
            ("offsets", cast("ArrayAttr[IntegerAttr[IntegerType]]", self.offsets)),
            ("sizes", cast("ArrayAttr[IntegerAttr[IntegerType]]", self.sizes)),
            ("strides", cast("ArrayAttr[IntegerAttr[IntegerType]]", self.strides)),
        ]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source = parser.parse_unresolved_operand()
        numbers: list[int] = []
        for name in ("offsets", "sizes", "strides"):
            if numbers:
                parser.parse_punctuation(",")
            parser.parse_keyword(name)
            parser.parse_punctuation("=")
            numbers += parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
        offset, size, _ = numbers
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        parser.parse_characters("to")
        parser.parse_type()
        op = cls(parser.resolve_operand(source, type), offset, size)
        op.attributes = attributes
        return op

    def verify_(self) -> None:
        type = cast("VectorType[Attribute]", self.source.type)
        size = _number(cast("ArrayAttr[IntegerAttr[IntegerType]]", self.sizes))
        if self.offset < 0 or size < 1 or self.offset + size > type.get_shape()[0]:
            raise VerifyException(f"rows {self.offset} … {self.offset + size - 1} of {type}")


def _one(number: int) -> ArrayAttr[IntegerAttr[IntegerType]]:
    return ArrayAttr([IntegerAttr(number, i64)])


def _number(attribute: ArrayAttr[IntegerAttr[IntegerType]] | ArrayAttr[IntegerAttr]) -> int:
    return attribute.data[0].value.data


VectorElements = Dialect("vector_elements", [FromElementsOp, ExtractStridedSliceOp], [])
