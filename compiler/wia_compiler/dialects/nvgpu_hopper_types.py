"""Types of MLIR's nvgpu dialect for GPUs of capability 9.0: barriers, tensor maps, warpgroups.

Barriers and maps print as MLIR prints them; the types of ``warpgroup`` are ours. What this project
never varies (no interleaving, 0 past the edges, 256 bytes at a time fetched into L2) is spelled all
the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from xdsl.dialects.builtin import AnyFloat, IntAttr, IntegerType, MemRefType, StringAttr, VectorType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

_SPACE = "#gpu.address_space<workgroup>"
SwizzleKind = Literal["none", "swizzle_32b", "swizzle_64b", "swizzle_128b"]
TENSOR_MAP_BYTES = 128
MAX_TENSOR_MAP_RANK = 5
MAX_BOX_SIDE = 256
"""Elements of a box along one dimension (CUDA driver API, cuTensorMapEncodeTiled)."""
SWIZZLE_BYTES = {"none": 0, "swizzle_32b": 32, "swizzle_64b": 64, "swizzle_128b": 128}
"""The widest row of a box with a swizzle; 0 where none is set."""


@irdl_attr_definition
class BarrierGroupType(ParametrizedAttribute, TypeAttribute):
    """``!nvgpu.mbarrier.group<…, num_barriers = 4>``: barriers in shared memory, side by side."""

    name = "nvgpu.mbarrier.group"

    num_barriers: IntAttr

    @staticmethod
    def of(count: int) -> BarrierGroupType:
        return BarrierGroupType(IntAttr(count))

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<memorySpace = {_SPACE}, num_barriers = {self.num_barriers.data}>")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_keyword("memorySpace")
            parser.parse_punctuation("=")
            parser.parse_attribute()
            parser.parse_punctuation(",")
            parser.parse_keyword("num_barriers")
            parser.parse_punctuation("=")
            return [IntAttr(parser.parse_integer())]

    def verify(self) -> None:
        if self.num_barriers.data < 1:
            raise VerifyException("a group has at least one barrier")


@irdl_attr_definition
class TensorMapType(ParametrizedAttribute, TypeAttribute):
    """``!nvgpu.tensormap.descriptor<tensor = memref<128x64xf16, …>, swizzle = …, …>``.

    What a copy of a box of a global array must know: ``tensor`` is the box in shared memory; the
    array, its sizes and strides are in the 128 bytes of the value.
    """

    name = "nvgpu.tensormap.descriptor"

    tensor: MemRefType
    swizzle: StringAttr

    @staticmethod
    def of(tensor: MemRefType[Attribute], swizzle: SwizzleKind) -> TensorMapType:
        return TensorMapType(tensor, StringAttr(swizzle))

    @property
    def box(self) -> tuple[int, ...]:
        """Elements along each dimension of the array, the last one dense."""
        return tuple(self.tensor.get_shape())

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<tensor = ")
        printer.print_attribute(self.tensor)
        printer.print_string(
            f", swizzle = {self.swizzle.data}, l2promo = l2promo_256b, oob = zero, "
            "interleave = none>"
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_keyword("tensor")
            parser.parse_punctuation("=")
            tensor = parser.parse_type()
            words: dict[str, str] = {}
            while parser.parse_optional_punctuation(","):
                word = parser.parse_identifier()
                parser.parse_punctuation("=")
                words[word] = parser.parse_identifier()
        return [tensor, StringAttr(words["swizzle"])]

    def verify(self) -> None:
        if self.swizzle.data not in get_args(SwizzleKind):
            raise VerifyException(
                f"no swizzle {self.swizzle.data!r}: expected one of {get_args(SwizzleKind)}"
            )
        if not 1 <= len(self.box) <= MAX_TENSOR_MAP_RANK:
            raise VerifyException(f"a tensor map has 1 to {MAX_TENSOR_MAP_RANK} dimensions")
        if any(not 1 <= side <= MAX_BOX_SIDE for side in self.box):
            raise VerifyException(
                f"a box has 1 to {MAX_BOX_SIDE} elements a side, found {self.box}"
            )
        row = self.box[-1] * element_bytes(self.tensor.element_type)
        widest = SWIZZLE_BYTES[self.swizzle.data]
        if row % 16 or (widest and row > widest):
            raise VerifyException(
                f"a row of a box is a multiple of 16 bytes, {widest or 'any'} at most with "
                f"{self.swizzle.data}: found {row} bytes"
            )


@irdl_attr_definition
class WarpgroupDescriptorType(ParametrizedAttribute, TypeAttribute):
    """``!warpgroup.descriptor<tensor = memref<…>>``: an operand of ``wgmma`` where it lies.

    ``tensor`` is the tile as it lies in shared memory with a swizzle of 128 bytes: its last
    dimension is 128 bytes. Rows × folded axis (*K-major*), panels × rows × folded axis of one panel
    where that is longer, or panels × folded axis × rows of one panel where the operand is
    transposed.
    """

    name = "warpgroup.descriptor"

    tensor: MemRefType

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<tensor = ")
        printer.print_attribute(self.tensor)
        printer.print_string(">")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_keyword("tensor")
            parser.parse_punctuation("=")
            return [parser.parse_type()]

    def verify(self) -> None:
        row = self.tensor.get_shape()[-1] * element_bytes(self.tensor.element_type)
        if row != SWIZZLE_BYTES["swizzle_128b"]:
            raise VerifyException(f"rows of a wgmma operand are 128 bytes, found {row}")


@irdl_attr_definition
class AccumulatorType(ParametrizedAttribute, TypeAttribute):
    """``!warpgroup.accumulator<fragmented = vector<64x256xf32>>``, over 128 threads.

    Thread ``32 w + 4 g + t`` holds of each 8 columns the elements (16 w + g, 2 t), (…, 2 t + 1),
    (16 w + g + 8, 2 t), (…, 2 t + 1) (PTX ISA, register fragments of wgmma.mma_async).
    """

    name = "warpgroup.accumulator"

    fragmented: VectorType

    @property
    def slots(self) -> int:
        """Elements of one thread."""
        rows, columns = self.fragmented.get_shape()
        return rows * columns // 128

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<fragmented = ")
        printer.print_attribute(self.fragmented)
        printer.print_string(">")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_keyword("fragmented")
            parser.parse_punctuation("=")
            return [parser.parse_type()]

    def verify(self) -> None:
        shape = self.fragmented.get_shape()
        if len(shape) != 2 or shape[0] != 64 or shape[1] % 8 or not 8 <= shape[1] <= 256:
            raise VerifyException(f"wgmma accumulates 64 × 8 … 256, found {self.fragmented}")


def element_bytes(element: Attribute) -> int:
    """Bytes of one element of a tile."""
    assert isinstance(element, AnyFloat | IntegerType)
    return element.bitwidth // 8
