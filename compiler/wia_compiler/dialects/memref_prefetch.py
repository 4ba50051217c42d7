"""``memref.prefetch``, an op of MLIR's memref dialect that xDSL lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, cast

from xdsl.dialects.builtin import BoolAttr, IndexType, IntegerAttr, MemRefType, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

CacheLevel = Literal[1, 2, 3]


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """Ask for the cache line of an element before it is accessed; it changes no value.

    ``memref.prefetch %A[%i, %j], read, locality<3>, data : memref<8x8xf32>``. A locality of 3 keeps
    the line in every cache, 2 from the second level on, 1 in the last. The place may lie outside
    the array: an address that is not there is not fetched.
    """

    name = "memref.prefetch"

    memref = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    is_write = prop_def(BoolAttr, prop_name="isWrite")
    locality = prop_def(IntegerAttr, prop_name="localityHint")
    is_data = prop_def(BoolAttr, prop_name="isDataCache")

    def __init__(
        self,
        memref: SSAValue,
        indices: Sequence[SSAValue],
        *,
        write: bool = False,
        locality: int = 3,
    ):
        super().__init__(
            operands=[memref, list(indices)],
            properties={
                "isWrite": BoolAttr.from_bool(write),
                "localityHint": IntegerAttr(locality, i32),
                "isDataCache": BoolAttr.from_bool(True),
            },
        )

    @property
    def writes(self) -> bool:
        """Whether the line is fetched to be written."""
        return bool(self.is_write.value.data)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.memref)
        with printer.in_square_brackets():
            printer.print_list(self.indices, printer.print_ssa_value)
        kind = "write" if self.writes else "read"
        printer.print_string(f", {kind}, locality<{self.locality.value.data}>, data")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        array = parser.parse_unresolved_operand()
        places = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_unresolved_operand
        )
        parser.parse_punctuation(",")
        write = parser.parse_identifier() == "write"
        parser.parse_punctuation(",")
        parser.parse_keyword("locality")
        with parser.in_angle_brackets():
            locality = parser.parse_integer()
        parser.parse_punctuation(",")
        parser.parse_keyword("data")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        indices = [parser.resolve_operand(each, IndexType()) for each in places]
        made = cls(parser.resolve_operand(array, type_), indices, write=write, locality=locality)
        made.attributes = dict(attributes)
        return made

    def verify_(self) -> None:
        rank = len(cast("MemRefType[Attribute]", self.memref.type).get_shape())
        if len(self.indices) != rank:
            raise VerifyException(f"expected an index for each of {rank} axes")
        if not 0 <= self.locality.value.data <= 3:
            raise VerifyException("a locality is from 0 to 3")
