"""The MLIR gpu op that xDSL 0.75 lacks: ``gpu.shuffle``, an exchange between lanes of a warp."""

from __future__ import annotations

from typing import Literal, Self, cast, get_args

from xdsl.dialects.builtin import StringAttr, i1, i32
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

ShuffleMode = Literal["xor", "up", "down", "idx"]


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """The value that another lane holds; every lane of the warp must get here.

    ``%r, %valid = gpu.shuffle xor %value, %offset, %width : f32`` gives lane ``l`` what lane
    ``l ^ offset`` passed in; ``up``, ``down`` and ``idx`` read lane ``l - offset``, ``l + offset``
    and ``offset``. ``width`` is the number of lanes that take part, ``valid`` whether the lane read
    is one of them. Values are f32 or i32, as PTX has it: others are exchanged in 32-bit parts.
    """

    name = "gpu.shuffle"

    value = operand_def()
    offset = operand_def(i32)
    width = operand_def(i32)
    mode = prop_def(StringAttr)
    result = result_def()
    valid = result_def(i1)

    def __init__(self, mode: ShuffleMode, value: SSAValue, offset: SSAValue, width: SSAValue):
        super().__init__(
            operands=[value, offset, width],
            properties={"mode": StringAttr(mode)},
            result_types=[value.type, i1],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.mode.data} ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        mode = parser.parse_identifier()
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        offset = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        width = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        type: Attribute = parser.parse_type()
        operands = parser.resolve_operands([value, offset, width], [type, i32, i32], parser.pos)
        return cls(cast(ShuffleMode, mode), *operands)

    def verify_(self) -> None:
        if self.mode.data not in get_args(ShuffleMode):
            raise VerifyException(f"no shuffle mode {self.mode.data!r}: {get_args(ShuffleMode)}")
        if self.value.type != self.result.type:
            raise VerifyException("a shuffle's result has the type of its value")


GpuShuffle = Dialect("gpu_shuffle", [ShuffleOp], [])
