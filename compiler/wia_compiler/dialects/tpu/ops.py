"""The TPU's low level in IR: one op for each instruction of the table (dialect ``tpu``).

A function of this level holds ``memref.alloc`` (HBM temporaries; buffers of memory space
``"vmem"`` or ``"accumulators"`` with an attribute ``slots``), ``memref.reinterpret_cast`` (the same
HBM memory under another shape), serial ``tile.for`` loops (instruction ``loop``) and these ops.
What each does is said in ``instructions.py``.
"""

from __future__ import annotations

from typing import Any, Self, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    UnitAttr,
    f64,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from wia_compiler.base.record import Family
from wia_compiler.dialects.tpu.window import WindowSpec, parse_window, print_window


class _WindowOp(IRDLOperation):
    """What ops that move, or take the shape of, a window of an HBM tensor have in common."""

    tile = opt_operand_def(MemRefType)
    tensor = operand_def(MemRefType)
    ivs = var_operand_def(IndexType())
    starts = prop_def(AffineMapAttr)
    lengths = prop_def(ArrayAttr[IntegerAttr])
    clips = prop_def(ArrayAttr[IntegerAttr])
    transposed = opt_prop_def(UnitAttr)
    number = opt_prop_def(FloatAttr)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(self, tile: SSAValue | float, tensor: SSAValue, window: WindowSpec):
        number = None if isinstance(tile, SSAValue) else FloatAttr(tile, f64)
        held = tile if isinstance(tile, SSAValue) else None
        super().__init__(
            operands=[held, tensor, list(window.ivs)],
            properties={**window.properties(), "number": number},
        )

    @property
    def window(self) -> WindowSpec:
        """The part of ``tensor`` it is about."""
        return WindowSpec(
            self.ivs,
            self.starts.data,
            [length.value.data for length in self.lengths],
            [bool(clip.value.data) for clip in self.clips],
            self.transposed is not None,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        if self.tile is not None:
            printer.print_ssa_value(self.tile)
        elif self.number is not None:
            printer.print_string("number ")
            printer.print_attribute(self.number)
        printer.print_string(", ")
        print_window(printer, self.tensor, self.window)
        printer.print_string(" : ")
        if self.tile is not None:
            printer.print_attribute(self.tile.type)
            printer.print_string(", ")
        printer.print_attribute(self.tensor.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        number: float | None = None
        tile: UnresolvedOperand | None = None
        if parser.parse_optional_keyword("number"):
            number = cast("FloatAttr[Any]", parser.parse_attribute()).value.data
        else:
            tile = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        tensor = parser.parse_unresolved_operand()
        window = parse_window(parser)
        parser.parse_punctuation(":")
        held: SSAValue | float = number or 0.0
        if tile is not None:
            held = parser.resolve_operand(tile, parser.parse_type())
            parser.parse_punctuation(",")
        return cls(held, parser.resolve_operand(tensor, parser.parse_type()), window)

    def verify_(self) -> None:
        self.window.verify(cast("MemRefType[Attribute]", self.tensor.type))
        if (self.tile is None) == (self.number is None):
            raise VerifyException(f"{self.name} moves a tile or a number")
        if self.number is not None and not isinstance(self, StoreOutputOp):
            raise VerifyException(f"{self.name} has a tile")
        if memory_of(self.tensor) is not None:
            raise VerifyException("a window is taken of a tensor in HBM")


@irdl_op_definition
class DmaInOp(_WindowOp):
    """HBM to a buffer: ``tpu.dma_in %input_buffer, %A[0 : 1000, %k0 : 128 clip] : …``."""

    name = "tpu.dma_in"


@irdl_op_definition
class StoreOutputOp(_WindowOp):
    """A tile or a number to HBM: ``tpu.store_output %accumulators, %C[0 : 64, 0 : 64]``."""

    name = "tpu.store_output"


@irdl_op_definition
class ClearOp(_WindowOp):
    """Accumulators of a window's rows and columns, all 0: ``tpu.clear %accumulators, %C[…]``."""

    name = "tpu.clear"


@irdl_op_definition
class LoadWeightsOp(IRDLOperation):
    """A tile of weights into the array: ``tpu.load_weights %weight_buffer``."""

    name = "tpu.load_weights"
    weights = operand_def(MemRefType)
    assembly_format = "$weights attr-dict `:` type($weights)"

    def __init__(self, weights: SSAValue):
        super().__init__(operands=[weights])


@irdl_op_definition
class StreamInputOp(IRDLOperation):
    """Rows for the next pass: ``tpu.stream_input %input_buffer``."""

    name = "tpu.stream_input"
    input = operand_def(MemRefType)
    assembly_format = "$input attr-dict `:` type($input)"

    def __init__(self, input: SSAValue):
        super().__init__(operands=[input])


@irdl_op_definition
class SystolicExecuteOp(IRDLOperation):
    """One pass through the array: ``tpu.systolic_execute "128x128", %accumulators``."""

    name = "tpu.systolic_execute"
    accumulators = operand_def(MemRefType)
    size = prop_def(StringAttr)
    assembly_format = "$size `,` $accumulators attr-dict `:` type($accumulators)"

    def __init__(self, size: str, accumulators: SSAValue):
        super().__init__(operands=[accumulators], properties={"size": StringAttr(size)})


@irdl_op_definition
class VectorAddOp(IRDLOperation):
    """Sum of two tiles, or of a tile and ``number``: ``tpu.vector_add %to, %x, %y``."""

    name = "tpu.vector_add"
    destination = operand_def(MemRefType)
    left = operand_def(MemRefType)
    right = opt_operand_def(MemRefType)
    number = opt_prop_def(FloatAttr)
    assembly_format = (
        "$destination `,` $left (`,` $right^)? (`number` $number^)? attr-dict `:` "
        "type($destination) `,` type($left) (`,` type($right)^)?"
    )

    def __init__(self, destination: SSAValue, left: SSAValue, right: SSAValue | float):
        number = None if isinstance(right, SSAValue) else FloatAttr(right, f64)
        other = right if isinstance(right, SSAValue) else None
        super().__init__(operands=[destination, left, other], properties={"number": number})

    def verify_(self) -> None:
        if (self.right is None) == (self.number is None):
            raise VerifyException("tpu.vector_add adds a tile or a number")


@irdl_op_definition
class ActivateOp(IRDLOperation):
    """A function of every element: ``tpu.activate "relu", %to, %x``."""

    name = "tpu.activate"
    destination = operand_def(MemRefType)
    source = operand_def(MemRefType)
    function = prop_def(StringAttr)
    assembly_format = (
        "$function `,` $destination `,` $source attr-dict `:` type($destination) `,` type($source)"
    )

    def __init__(self, function: str, destination: SSAValue, source: SSAValue):
        super().__init__(
            operands=[destination, source], properties={"function": StringAttr(function)}
        )


@irdl_op_definition
class VectorRoundOp(IRDLOperation):
    """Every element as a dtype holds it: ``tpu.vector_round %to, %x, "bf16"``."""

    name = "tpu.vector_round"
    destination = operand_def(MemRefType)
    source = operand_def(MemRefType)
    dtype = prop_def(StringAttr)
    assembly_format = (
        "$destination `,` $source `,` $dtype attr-dict `:` type($destination) `,` type($source)"
    )

    def __init__(self, destination: SSAValue, source: SSAValue, dtype: str):
        super().__init__(operands=[destination, source], properties={"dtype": StringAttr(dtype)})


def memory_of(value: SSAValue) -> str | None:
    """``vmem`` or ``accumulators``; ``None`` for HBM."""
    space = cast("MemRefType[Attribute]", value.type).memory_space
    return space.data if isinstance(space, StringAttr) else None


FAMILIES: dict[str, Family] = {
    DmaInOp.name: "movement",
    StoreOutputOp.name: "movement",
    LoadWeightsOp.name: "movement",
    StreamInputOp.name: "movement",
    SystolicExecuteOp.name: "contraction",
    VectorAddOp.name: "elementwise",
    ActivateOp.name: "elementwise",
    VectorRoundOp.name: "elementwise",
}
"""What an op does, as a graph colours it."""

Tpu = Dialect(
    "tpu",
    [
        DmaInOp,
        StoreOutputOp,
        ClearOp,
        LoadWeightsOp,
        StreamInputOp,
        SystolicExecuteOp,
        VectorAddOp,
        ActivateOp,
        VectorRoundOp,
    ],
    [],
)
