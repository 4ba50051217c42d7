"""Matrix ops of a warp and asynchronous copies of NVIDIA's GPUs, as MLIR's NVGPU dialect has them.

::

    %a = nvgpu.ldmatrix %tile[%i, %k] numTiles = 4 transpose = false
           : memref<64x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
    %d = nvgpu.mma.sync (%a, %b, %c) mmaShape = [16, 8, 16]
           : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
    %t = nvgpu.device_async_copy %x[%i], %tile[%j], 8 : memref<100xf16> to memref<64xf16, …>
    %g = nvgpu.device_async_create_group %t
    nvgpu.device_async_wait %g numGroups = 1

A vector holds the part of a matrix that one lane has: a row for each of its registers of 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    BoolAttr,
    Float16Type,
    Float32Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import (
    Attribute,
    Dialect,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from wia_compiler.dialects.gpu_memory import is_workgroup

MatrixShape = tuple[int, int, int]
"""Rows, columns and summed elements of one ``mma.sync``."""
_COPY_BYTES = (4, 8, 16)
_BITS = 32


@irdl_attr_definition
class DeviceAsyncTokenType(ParametrizedAttribute, TypeAttribute):
    """``!nvgpu.device.async.token``: copies, or a group of them, that are on their way."""

    name = "nvgpu.device.async.token"


_TOKEN = DeviceAsyncTokenType()


def fragment_type(element: Attribute, registers: int) -> VectorType[Attribute]:
    """What a lane holds of a matrix in so many registers of 32 bits: ``vector<4x2xf16>``."""
    return VectorType(element, [registers, max(1, _BITS // bits_of(element))])


def accumulator_type(element: Attribute, rows: int) -> VectorType[Attribute]:
    """What a lane holds of a tile of sums of ``rows`` × 8: ``vector<2x2xf32>`` of 16 × 8."""
    return VectorType(element, [rows // 8, 2])


def bits_of(element: Attribute) -> int:
    """Bits of an element of a matrix; ``VerifyException`` for what no matrix unit multiplies."""
    match element:
        case Float16Type() | BFloat16Type():
            return 16
        case Float32Type():
            return 32
        case IntegerType():
            return element.width.data
        case _:
            raise VerifyException(f"no matrix unit multiplies {element}")


@irdl_op_definition
class LdMatrixOp(IRDLOperation):
    """``ldmatrix``: 1, 2 or 4 tiles of 8 rows of 16 bytes from shared memory to a warp's registers.

    Lane ``8 j + r`` gives the place of row ``r`` of tile ``j``, a multiple of 16 bytes; lane
    ``4 g + t`` gets of each tile the bytes ``4 t … 4 t + 3`` of row ``g``; with ``transpose`` the
    elements (of 16 bits) of rows ``2 t`` and ``2 t + 1`` in column ``g``.
    """

    name = "nvgpu.ldmatrix"

    memref = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    numTiles = prop_def(IntegerAttr)
    transpose = prop_def(BoolAttr)
    res = result_def(VectorType)

    def __init__(
        self, memref: SSAValue, indices: Sequence[SSAValue], tiles: int, *, transpose: bool
    ):
        element = cast("MemRefType[Attribute]", memref.type).element_type
        super().__init__(
            operands=[memref, list(indices)],
            properties={
                "numTiles": IntegerAttr(tiles, i32),
                "transpose": BoolAttr.from_bool(transpose),
            },
            result_types=[fragment_type(element, tiles)],
        )

    def print(self, printer: Printer) -> None:
        _print_place(printer, self.memref, self.indices)
        turned = "true" if self.transpose.value.data else "false"
        printer.print_string(f" numTiles = {self.numTiles.value.data} transpose = {turned}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source, indices = _parse_place(parser)
        parser.parse_keyword("numTiles")
        parser.parse_punctuation("=")
        tiles = parser.parse_integer()
        parser.parse_keyword("transpose")
        parser.parse_punctuation("=")
        transpose = parser.parse_boolean()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        memref = parser.resolve_operand(source, parser.parse_type())
        parser.parse_punctuation("->")
        parser.parse_type()
        op = cls(memref, _indices(parser, indices), tiles, transpose=transpose)
        op.attributes = attributes
        return op

    def verify_(self) -> None:
        source = cast("MemRefType[Attribute]", self.memref.type)
        tiles = self.numTiles.value.data
        _check_shared(source, "ldmatrix reads")
        if tiles not in (1, 2, 4):
            raise VerifyException(f"ldmatrix loads 1, 2 or 4 tiles, not {tiles}")
        if len(self.indices) != source.get_num_dims():
            raise VerifyException(f"{len(self.indices)} indices for {source}")
        if self.res.type != fragment_type(source.element_type, tiles):
            raise VerifyException(f"{tiles} tiles of {source.element_type} are no {self.res.type}")


@irdl_op_definition
class MmaSyncOp(IRDLOperation):
    """``mma.sync``: ``matrixA @ matrixB + matrixC`` of matrices that a warp holds together.

    ``mmaShape`` is rows, columns and summed elements; ``tf32Enabled`` says that f32 operands are
    multiplied by the upper 19 of their bits. Products are exact, their sum is rounded as the
    architecture does it.
    """

    name = "nvgpu.mma.sync"

    matrixA = operand_def(VectorType)
    matrixB = operand_def(VectorType)
    matrixC = operand_def(VectorType)
    mmaShape = prop_def(ArrayAttr[IntegerAttr])
    tf32Enabled = opt_prop_def(UnitAttr)
    res = result_def(VectorType)

    def __init__(
        self, a: SSAValue, b: SSAValue, c: SSAValue, shape: MatrixShape, *, tf32: bool = False
    ):
        properties: dict[str, Attribute] = {
            "mmaShape": ArrayAttr([IntegerAttr(size, i64) for size in shape])
        }
        if tf32:
            properties["tf32Enabled"] = UnitAttr()
        super().__init__(operands=[a, b, c], properties=properties, result_types=[c.type])

    @property
    def shape(self) -> MatrixShape:
        """Rows, columns and summed elements."""
        rows, columns, depth = (size.value.data for size in self.mmaShape)
        return rows, columns, depth

    def print(self, printer: Printer) -> None:
        printer.print_string(" (")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(") mmaShape = [")
        printer.print_string(", ".join(map(str, self.shape)))
        printer.print_string("]")
        if self.tf32Enabled is not None:
            printer.print_string(" tf32Enabled")
        printer.print_string(" : (")
        printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_string(") -> ")
        printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        parser.parse_keyword("mmaShape")
        parser.parse_punctuation("=")
        rows, columns, depth = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_integer
        )
        tf32 = parser.parse_optional_keyword("tf32Enabled") is not None
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        parser.parse_punctuation("->")
        parser.parse_type()
        a, b, c = parser.resolve_operands(operands, types, parser.pos)
        return cls(a, b, c, (rows, columns, depth), tf32=tf32)

    def verify_(self) -> None:
        a, b, c = (cast("VectorType[Attribute]", each.type) for each in self.operands)
        rows, columns, depth = self.shape
        if a.element_type != b.element_type or c != self.res.type:
            raise VerifyException("mma.sync multiplies one type and adds to the type of its sum")
        if isinstance(a.element_type, Float32Type) != (self.tf32Enabled is not None):
            raise VerifyException("f32 operands are multiplied as tf32, which tf32Enabled says")
        bits = bits_of(a.element_type)
        wanted = (
            fragment_type(a.element_type, rows * depth * bits // 1024),
            fragment_type(a.element_type, columns * depth * bits // 1024),
            accumulator_type(c.element_type, rows),
        )
        if (a, b, c) != wanted or columns != 8:
            raise VerifyException(
                f"a lane's part of {rows} × {columns} × {depth} is "
                f"{', '.join(map(str, wanted))}, found {a}, {b}, {c}"
            )


@irdl_op_definition
class DeviceAsyncCopyOp(IRDLOperation):
    """``cp.async``: ``dstElements`` neighbours from global to shared memory, arriving later.

    Where ``srcElements`` is given, only so many are read and the rest is filled with zeros: 0 reads
    nothing. ``bypassL1`` keeps what is read out of the nearest cache (16 bytes alone).
    """

    name = "nvgpu.device_async_copy"

    src = operand_def(MemRefType)
    srcIndices = var_operand_def(IndexType)
    dst = operand_def(MemRefType)
    dstIndices = var_operand_def(IndexType)
    srcElements = opt_operand_def(IndexType)
    dstElements = prop_def(IntegerAttr)
    bypassL1 = opt_prop_def(UnitAttr)
    asyncToken = result_def(DeviceAsyncTokenType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        source: SSAValue,
        source_indices: Sequence[SSAValue],
        target: SSAValue,
        target_indices: Sequence[SSAValue],
        elements: int,
        *,
        given: SSAValue | None = None,
        bypasses_l1: bool = False,
    ):
        properties: dict[str, Attribute] = {"dstElements": IntegerAttr(elements, IndexType())}
        if bypasses_l1:
            properties["bypassL1"] = UnitAttr()
        super().__init__(
            operands=[
                source,
                list(source_indices),
                target,
                list(target_indices),
                [given] if given is not None else [],
            ],
            properties=properties,
            result_types=[_TOKEN],
        )

    def print(self, printer: Printer) -> None:
        _print_place(printer, self.src, self.srcIndices)
        printer.print_string(",")
        _print_place(printer, self.dst, self.dstIndices)
        printer.print_string(f", {self.dstElements.value.data}")
        if self.srcElements is not None:
            printer.print_string(", ")
            printer.print_ssa_value(self.srcElements)
        if self.bypassL1 is not None:
            printer.print_string(" bypassL1")
        printer.print_string(" : ")
        printer.print_attribute(self.src.type)
        printer.print_string(" to ")
        printer.print_attribute(self.dst.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source, source_indices = _parse_place(parser)
        parser.parse_punctuation(",")
        target, target_indices = _parse_place(parser)
        parser.parse_punctuation(",")
        elements = parser.parse_integer()
        given = None
        if parser.parse_optional_punctuation(","):
            given = parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())
        bypasses_l1 = parser.parse_optional_keyword("bypassL1") is not None
        parser.parse_punctuation(":")
        from_type = parser.parse_type()
        parser.parse_characters("to")
        to_type = parser.parse_type()
        return cls(
            parser.resolve_operand(source, from_type),
            _indices(parser, source_indices),
            parser.resolve_operand(target, to_type),
            _indices(parser, target_indices),
            elements,
            given=given,
            bypasses_l1=bypasses_l1,
        )

    @property
    def size_bytes(self) -> int:
        """Bytes that arrive."""
        element = cast("MemRefType[Attribute]", self.dst.type).element_type
        return self.dstElements.value.data * bits_of(element) // 8

    def verify_(self) -> None:
        source, target = (cast("MemRefType[Attribute]", each.type) for each in (self.src, self.dst))
        _check_shared(target, "an asynchronous copy goes to")
        if source.element_type != target.element_type:
            raise VerifyException("an asynchronous copy converts nothing")
        if (len(self.srcIndices), len(self.dstIndices)) != (
            source.get_num_dims(),
            target.get_num_dims(),
        ):
            raise VerifyException("an index for each dimension of both memrefs")
        if self.size_bytes not in _COPY_BYTES:
            raise VerifyException(f"cp.async copies 4, 8 or 16 bytes, not {self.size_bytes}")
        if self.bypassL1 is not None and self.size_bytes != 16:
            raise VerifyException(f"copies of 16 bytes bypass L1, not of {self.size_bytes}")


@irdl_op_definition
class DeviceAsyncCreateGroupOp(IRDLOperation):
    """``cp.async.commit_group``: the copies of this thread since the last one become a group."""

    name = "nvgpu.device_async_create_group"

    inputTokens = var_operand_def(DeviceAsyncTokenType)
    asyncToken = result_def(DeviceAsyncTokenType)

    def __init__(self, tokens: Sequence[SSAValue] = ()):
        super().__init__(operands=[list(tokens)], result_types=[_TOKEN])

    def print(self, printer: Printer) -> None:
        if self.inputTokens:
            printer.print_string(" ")
            printer.print_list(self.inputTokens, printer.print_ssa_value)
        else:
            # Without tokens the name of what the next line gives would be read as one.
            printer.print_string(" {}")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        tokens: list[UnresolvedOperand] = []
        first = parser.parse_optional_unresolved_operand()
        while first is not None:
            tokens.append(first)
            more = parser.parse_optional_punctuation(",")
            first = parser.parse_unresolved_operand() if more else None
        parser.parse_optional_attr_dict()
        return cls([parser.resolve_operand(each, _TOKEN) for each in tokens])


@irdl_op_definition
class DeviceAsyncWaitOp(IRDLOperation):
    """``cp.async.wait_group``: until at most ``numGroups`` of the newest groups are on their way.

    What arrived is then seen by this thread, and by the block after a barrier.
    """

    name = "nvgpu.device_async_wait"

    asyncDependencies = operand_def(DeviceAsyncTokenType)
    numGroups = opt_prop_def(IntegerAttr)

    def __init__(self, token: SSAValue, groups: int | None = None):
        properties = {} if groups is None else {"numGroups": IntegerAttr(groups, i32)}
        super().__init__(operands=[token], properties=properties)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.asyncDependencies)
        if self.numGroups is not None:
            printer.print_string(f" numGroups = {self.numGroups.value.data}")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        token = parser.resolve_operand(parser.parse_unresolved_operand(), _TOKEN)
        if parser.parse_optional_keyword("numGroups") is None:
            return cls(token)
        parser.parse_punctuation("=")
        return cls(token, parser.parse_integer())

    def verify_(self) -> None:
        if self.numGroups is not None and self.numGroups.value.data < 0:
            raise VerifyException("a wait leaves 0 or more groups on their way")


def _print_place(printer: Printer, memref: SSAValue, indices: Sequence[SSAValue]) -> None:
    printer.print_string(" ")
    printer.print_ssa_value(memref)
    printer.print_string("[")
    printer.print_list(indices, printer.print_ssa_value)
    printer.print_string("]")


def _parse_place(parser: Parser) -> tuple[UnresolvedOperand, list[UnresolvedOperand]]:
    source = parser.parse_unresolved_operand()
    indices = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, parser.parse_unresolved_operand
    )
    return source, indices


def _indices(parser: Parser, operands: Sequence[UnresolvedOperand]) -> list[SSAValue]:
    return [parser.resolve_operand(each, IndexType()) for each in operands]


def _check_shared(memref: MemRefType[Attribute], what: str) -> None:
    if not is_workgroup(memref):
        raise VerifyException(f"{what} shared memory, found {memref}")


Nvgpu = Dialect(
    "nvgpu",
    [LdMatrixOp, MmaSyncOp, DeviceAsyncCopyOp, DeviceAsyncCreateGroupOp, DeviceAsyncWaitOp],
    [DeviceAsyncTokenType],
)
