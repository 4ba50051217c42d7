"""Arrays that loop-level text brings into being: outputs set element by element, local ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from wia_compiler.base.dtypes import DTYPES, DType
from wia_compiler.dialects.loop_elements import verify_index, verify_scalar
from wia_compiler.dialects.loop_text import parse_value, parse_values, print_value, print_values
from wia_compiler.dialects.types import as_tensor
from wia_compiler.dialects.wia.ops import AnyTensorType


@irdl_op_definition
class LocalOp(IRDLOperation):
    """An array of the nest, one for each time the op runs, every element the same at first.

    ``%acc = loop.local "f32" [%8, %8] = %zero : tensor<f32> -> tensor<8x8xf32>``. The sizes are
    constants once shapes are known.
    """

    name = "loop.local"

    dtype = prop_def(StringAttr)
    sizes = var_operand_def()
    start = operand_def()
    result = result_def()

    def __init__(
        self,
        dtype: DType,
        sizes: Sequence[SSAValue],
        start: SSAValue,
        result_type: Attribute | None = None,
    ):
        super().__init__(
            operands=[list(sizes), start],
            properties={"dtype": StringAttr(dtype.name)},
            result_types=[result_type or AnyTensorType()],
        )

    @property
    def element_dtype(self) -> DType:
        """The dtype of its elements."""
        return DTYPES[self.dtype.data]

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.dtype)
        printer.print_string(" ")
        print_values(printer, self.sizes)
        printer.print_string(" = ")
        print_value(printer, self.start)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        dtype = DTYPES[parser.parse_str_literal()]
        sizes = parse_values(parser)
        parser.parse_punctuation("=")
        start = parse_value(parser)
        parser.parse_punctuation("->")
        op = cls(dtype, sizes, start, parser.parse_type())
        op.attributes = dict(parser.parse_optional_attr_dict())
        return op

    def verify_(self) -> None:
        if self.dtype.data not in DTYPES:
            raise VerifyException(f"no dtype {self.dtype.data!r}")
        for size in self.sizes:
            verify_index(size, "a size")
        verify_scalar(self.start, "what a local array starts from")
        tensor = as_tensor(self.result.type)
        if tensor is not None and len(tensor.get_shape()) != len(self.sizes):
            raise VerifyException(f"{len(self.sizes)} sizes for a local array of type {tensor}")


@irdl_op_definition
class OutputOp(IRDLOperation):
    """An output that a nest writes element by element, before its first element is: all 0.

    ``%C = loop.output "C" [%M, %N] rank 2 "f32" : !wia.tensor`` stands in the kernel, before the
    nest. Without sizes the shape is the smallest that holds every index stored to, without a dtype
    it is that of the first element stored.
    """

    name = "loop.output"

    parameter = prop_def(StringAttr)
    sizes = var_operand_def()
    rank = opt_prop_def(IntegerAttr)
    dtype = opt_prop_def(StringAttr)
    result = result_def()

    def __init__(
        self,
        parameter: str,
        sizes: Sequence[SSAValue] = (),
        *,
        rank: int | None = None,
        dtype: DType | None = None,
        result_type: Attribute | None = None,
    ):
        super().__init__(
            operands=[list(sizes)],
            properties={
                "parameter": StringAttr(parameter),
                "rank": None if rank is None else IntegerAttr(rank, i64),
                "dtype": None if dtype is None else StringAttr(dtype.name),
            },
            result_types=[result_type or AnyTensorType()],
        )

    @property
    def declared_rank(self) -> int | None:
        """How many axes the text gives it, if it says."""
        return None if self.rank is None else self.rank.value.data

    @property
    def declared_dtype(self) -> DType | None:
        """The dtype that the text gives it, if it says."""
        return None if self.dtype is None else DTYPES[self.dtype.data]

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.parameter)
        if self.sizes:
            printer.print_string(" ")
            print_values(printer, self.sizes)
        if self.declared_rank is not None:
            printer.print_string(f" rank {self.declared_rank}")
        if self.dtype is not None:
            printer.print_string(" ")
            printer.print_attribute(self.dtype)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        parameter = parser.parse_str_literal()
        first = parser.parse_optional_punctuation("[")
        sizes: list[SSAValue] = []
        while first and not parser.parse_optional_punctuation("]"):
            sizes.append(parse_value(parser))
            parser.parse_optional_punctuation(",")
        rank = parser.parse_integer() if parser.parse_optional_keyword("rank") else None
        name = parser.parse_optional_str_literal()
        parser.parse_punctuation(":")
        op = cls(
            parameter,
            sizes,
            rank=rank,
            dtype=None if name is None else DTYPES[name],
            result_type=parser.parse_type(),
        )
        op.attributes = dict(parser.parse_optional_attr_dict())
        return op

    def verify_(self) -> None:
        for size in self.sizes:
            verify_index(size, "a size")
        if self.sizes and self.declared_rank != len(self.sizes):
            raise VerifyException(f"{len(self.sizes)} sizes for rank {self.declared_rank}")
