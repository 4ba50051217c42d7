"""nvgpu ops as calls of NVVM intrinsics.

A vector of the nvgpu ops (``vector<4x2xf16>``: a row for each register) is one LLVM vector of all
its elements; intrinsics take and give its registers one by one. LLVM sees through the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects import vector
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, SSAValue

from wia_compiler.dialects.nvgpu import (
    DeviceAsyncCopyOp,
    DeviceAsyncCreateGroupOp,
    DeviceAsyncWaitOp,
    LdMatrixOp,
    MmaSyncOp,
)
from wia_compiler.dialects.nvvm_warp import BarWarpSyncOp, RoundToTf32Op
from wia_compiler.dialects.vector_elements import ExtractStridedSliceOp, FromElementsOp
from wia_compiler.passes.llvm.memory import element_pointer, linear_index, memref_type
from wia_compiler.passes.llvm.types import LLVMError, llvm_type, memory_type
from wia_compiler.passes.llvm.writer import Handler, Writer

_WORD = "i32"
_FRAGMENTS: dict[type[Attribute], str] = {
    BFloat16Type: "bf16",
    Float32Type: "tf32",
    IntegerType: "s8",
}
"""How the intrinsics call the type of their operands; that of f16 is named by its results'."""


def _load_matrix(writer: Writer, op: LdMatrixOp) -> None:
    tiles = op.numTiles.value.data
    turned = ".trans" if op.transpose.value.data else ""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{tiles}{turned}.b16.p3"
    result = _structure([_WORD] * tiles)
    pointer, address = element_pointer(writer, op.memref, op.indices).rsplit(" ", 1)
    loaded = writer.temporary(writer.call(name, result, [(pointer, address)]))
    parts = _parts(writer, loaded, result, tiles)
    writer.values[op.res] = _joined(writer, parts, _WORD, writer.type(op.res))


def _multiply(writer: Writer, op: MmaSyncOp) -> None:
    left, sums = (cast("VectorType[Attribute]", each.type) for each in (op.matrixA, op.matrixC))
    element = left.element_type
    shape = "m{}n{}k{}".format(*op.shape)
    held = llvm_type(sums.element_type, writer.options)
    if isinstance(element, Float16Type):
        kind, register = "f32.f32", "<2 x half>"
    else:
        kind, register = _FRAGMENTS[type(element)], _WORD
    arguments = [
        (register, part)
        for value in (op.matrixA, op.matrixB)
        for part in _registers(writer, value, register)
    ]
    arguments += [(held, part) for part in _registers(writer, op.matrixC, held)]
    count = prod(sums.get_shape())
    result = _structure([held] * count)
    name = f"llvm.nvvm.mma.{shape}.row.col.{kind}"
    summed = writer.temporary(writer.call(name, result, arguments))
    parts = _parts(writer, summed, result, count)
    writer.values[op.res] = _joined(writer, parts, held, writer.type(op.res))


def _structure(types: Sequence[str]) -> str:
    return f"{{ {', '.join(types)} }}" if len(types) > 1 else types[0]


def _parts(writer: Writer, value: str, type_: str, count: int) -> list[str]:
    """The members of a structure; a value alone is its own."""
    if count == 1:
        return [value]
    return [writer.temporary(f"extractvalue {type_} {value}, {n}") for n in range(count)]


def _joined(writer: Writer, parts: Sequence[str], part_type: str, whole_type: str) -> str:
    """Registers side by side as a vector of elements."""
    row = f"<{len(parts)} x {part_type}>"
    whole = "poison"
    for number, part in enumerate(parts):
        whole = writer.temporary(f"insertelement {row} {whole}, {part_type} {part}, i64 {number}")
    if row == whole_type:
        return whole
    return writer.temporary(f"bitcast {row} {whole} to {whole_type}")


def _registers(writer: Writer, value: SSAValue, register: str) -> list[str]:
    """The registers of a vector, in the type in which an intrinsic takes them."""
    type_, name = writer.type(value), writer.values[value]
    lanes, element = int(type_[1:].split(" ", 1)[0]), type_[1:-1].split(" x ", 1)[1]
    if register == element:
        return [
            writer.temporary(f"extractelement {type_} {name}, i64 {lane}") for lane in range(lanes)
        ]
    if register == _WORD:
        count = lanes * _SIZES[element] // 32
        words = f"<{count} x i32>"
        seen = writer.temporary(f"bitcast {type_} {name} to {words}")
        return [
            writer.temporary(f"extractelement {words} {seen}, i64 {lane}") for lane in range(count)
        ]
    return [
        writer.temporary(
            f"shufflevector {type_} {name}, {type_} poison, <2 x i32> <i32 {lane}, i32 {lane + 1}>"
        )
        for lane in range(0, lanes, 2)
    ]


_SIZES = {"half": 16, "bfloat": 16, "float": 32, "i8": 8, "i32": 32}


def _copy(writer: Writer, op: DeviceAsyncCopyOp) -> None:
    """16 bytes go past L1, less through it: so the instruction has it."""
    size = op.size_bytes
    cached = "cg" if op.bypassL1 is not None else "ca"
    name = f"llvm.nvvm.cp.async.{cached}.shared.global.{size}"
    target_type, target = element_pointer(writer, op.dst, op.dstIndices).rsplit(" ", 1)
    source_type, source = _source_pointer(writer, op)
    arguments = [(target_type, target), (source_type, source)]
    if op.srcElements is not None:
        each = size // op.dstElements.value.data
        given = writer.temporary(f"trunc i64 {writer.values[op.srcElements]} to i32")
        arguments.append(("i32", writer.temporary(f"mul i32 {given}, {each}")))
        name += ".s"
    writer.line(writer.call(name, "void", arguments))


def _source_pointer(writer: Writer, op: DeviceAsyncCopyOp) -> tuple[str, str]:
    """The place that is read, which may lie outside of the array where nothing is read."""
    if op.srcElements is None:
        type_, name = element_pointer(writer, op.src, op.srcIndices).rsplit(" ", 1)
        return type_, name
    values = [writer.values[index] for index in op.srcIndices]
    linear = linear_index(writer, values, writer.strides(op.src))
    element = memory_type(memref_type(op.src).element_type, writer.options)
    text = f"getelementptr {element}, {writer.typed(op.src)}, i64 {linear}"
    return writer.type(op.src), writer.temporary(text)


def _create_group(writer: Writer, op: DeviceAsyncCreateGroupOp) -> None:
    writer.line(writer.call("llvm.nvvm.cp.async.commit.group", "void", []))


def _wait(writer: Writer, op: DeviceAsyncWaitOp) -> None:
    if op.numGroups is None:
        writer.line(writer.call("llvm.nvvm.cp.async.wait.all", "void", []))
        return
    count = str(op.numGroups.value.data)
    writer.line(writer.call("llvm.nvvm.cp.async.wait.group", "void", [(_WORD, count)]))


def _warp_barrier(writer: Writer, op: BarWarpSyncOp) -> None:
    writer.line(writer.call("llvm.nvvm.bar.warp.sync", "void", [(_WORD, writer.values[op.mask])]))


def _round_to_tf32(writer: Writer, op: RoundToTf32Op) -> None:
    argument = ("float", writer.values[op.value])
    writer.assign(op.res, writer.call("llvm.nvvm.f2tf32.rna", _WORD, [argument]))


def _from_elements(writer: Writer, op: FromElementsOp) -> None:
    names = [writer.values[each] for each in op.elements]
    element = llvm_type(op.elements[0].type, writer.options)
    writer.values[op.dest] = _joined(writer, names, element, writer.type(op.dest))


def _extract(writer: Writer, op: vector.ExtractOp) -> None:
    """One element, at a position known here."""
    type_ = cast("VectorType[Attribute]", op.vector.type)
    if op.dynamic_position or isinstance(op.result.type, VectorType):
        raise LLVMError("vector.extract of one element at a constant position, found another")
    place = 0
    for position, size in zip(op.static_position.iter_values(), type_.get_shape(), strict=True):
        place = place * size + position
    writer.assign(op.result, f"extractelement {writer.typed(op.vector)}, i64 {place}")


def _extract_rows(writer: Writer, op: ExtractStridedSliceOp) -> None:
    type_ = writer.type(op.source)
    result = op.result.type
    row = prod(result.get_shape()[1:])
    first, count = op.offset * row, prod(result.get_shape())
    lanes = ", ".join(f"i32 {lane}" for lane in range(first, first + count))
    writer.assign(
        op.result,
        f"shufflevector {writer.typed(op.source)}, {type_} poison, <{count} x i32> <{lanes}>",
    )


NVGPU: dict[str, Handler] = {
    "nvgpu.ldmatrix": _load_matrix,
    "nvgpu.mma.sync": _multiply,
    "nvgpu.device_async_copy": _copy,
    "nvgpu.device_async_create_group": _create_group,
    "nvgpu.device_async_wait": _wait,
    "nvvm.bar.warp.sync": _warp_barrier,
    "nvvm.convert.float.to.tf32": _round_to_tf32,
    "vector.from_elements": _from_elements,
    "vector.extract": _extract,
    "vector.extract_strided_slice": _extract_rows,
}
