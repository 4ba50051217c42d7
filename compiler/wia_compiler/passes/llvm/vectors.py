"""vector ops as LLVM instructions: whole, masked and folded vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects import vector
from xdsl.dialects.builtin import VectorType, i1, i8, i16
from xdsl.ir import Attribute, SSAValue

from wia_compiler.passes.llvm.memory import linear_index, memref_type, read_element, write_element
from wia_compiler.passes.llvm.rounding import widened
from wia_compiler.passes.llvm.scalars import flags_of
from wia_compiler.passes.llvm.types import (
    LLVMError,
    intrinsic_suffix,
    is_bf16,
    llvm_type,
    memory_type,
    scalar_of,
    size_bytes,
    with_element,
)
from wia_compiler.passes.llvm.writer import Handler, Writer


def _vector_load(writer: Writer, op: vector.LoadOp) -> None:
    _require_unit_stride(writer, op.base)
    read_element(writer, op, op.base, op.indices)


def _vector_store(writer: Writer, op: vector.StoreOp) -> None:
    _require_unit_stride(writer, op.base)
    write_element(writer, op, op.vector, op.base, op.indices)


def _require_unit_stride(writer: Writer, buffer: SSAValue) -> None:
    if writer.strides(buffer)[-1:] != (1,):
        raise LLVMError(f"a vector access needs a last stride of 1, found {buffer.type}")


def _broadcast(writer: Writer, op: vector.BroadcastOp) -> None:
    type_, name = writer.type(op.vector), writer.values[op.source]
    if isinstance(op.source.type, VectorType):
        short, whole = (int(t[1:].split(" ", 1)[0]) for t in (writer.type(op.source), type_))
        numbers = ", ".join(f"i32 {lane % short}" for lane in range(whole))
        source = writer.typed(op.source)
        text = (
            f"shufflevector {source}, {writer.type(op.source)} poison, <{whole} x i32> <{numbers}>"
        )
        writer.assign(op.vector, text)
        return
    if not name.startswith("%"):
        writer.values[op.vector] = f"splat ({writer.typed(op.source)})"
        return
    first = writer.temporary(f"insertelement {type_} poison, {writer.typed(op.source)}, i64 0")
    lanes = type_[1:].split(" ", 1)[0]
    writer.assign(
        op.vector,
        f"shufflevector {type_} {first}, {type_} poison, <{lanes} x i32> zeroinitializer",
    )


def _bitcast(writer: Writer, op: vector.BitcastOp) -> None:
    writer.assign(op.result, f"bitcast {writer.typed(op.source)} to {writer.type(op.result)}")


def _multiply_add(writer: Writer, op: vector.FMAOp) -> None:
    if is_bf16(op.res.type):
        raise LLVMError("vector.fma of bf16: extend it to f32 first")
    type_ = writer.type(op.res)
    arguments = [(type_, writer.values[each]) for each in (op.lhs, op.rhs, op.acc)]
    writer.assign(
        op.res, writer.call(f"llvm.fma.{intrinsic_suffix(op.res.type)}", type_, arguments)
    )


def _create_mask(writer: Writer, op: vector.CreateMaskOp) -> None:
    """Lanes below a count, which is clamped so that 32 bits hold the comparison."""
    type_ = writer.type(op.mask_vector)
    lanes = int(type_[1:].split(" ", 1)[0])
    (count,) = op.mask_dim_sizes
    name = writer.values[count]
    if name.lstrip("-").isdigit():
        values = ", ".join(f"i1 {str(lane < int(name)).lower()}" for lane in range(lanes))
        writer.values[op.mask_vector] = f"<{values}>"
        return
    for kind, limit in (("smin", lanes), ("smax", 0)):
        arguments = [("i64", name), ("i64", str(limit))]
        name = writer.temporary(writer.call(f"llvm.{kind}.i64", "i64", arguments))
    narrow = writer.temporary(f"trunc i64 {name} to i32")
    wide = f"<{lanes} x i32>"
    first = writer.temporary(f"insertelement {wide} poison, i32 {narrow}, i64 0")
    limits = writer.temporary(
        f"shufflevector {wide} {first}, {wide} poison, <{lanes} x i32> zeroinitializer"
    )
    numbers = ", ".join(f"i32 {lane}" for lane in range(lanes))
    writer.assign(op.mask_vector, f"icmp ult {wide} <{numbers}>, {limits}")


def _masked_pointer(writer: Writer, buffer: SSAValue, indices: Sequence[SSAValue]) -> str:
    """Like ``element_pointer``, for an address that may lie outside where no lane is on."""
    values = [writer.values[index] for index in indices]
    linear = linear_index(writer, values, writer.strides(buffer))
    element = memory_type(memref_type(buffer).element_type, writer.options)
    name = writer.temporary(f"getelementptr {element}, {writer.typed(buffer)}, i64 {linear}")
    return f"{writer.type(buffer)} {name}"


def _masked_name(writer: Writer, word: str, type_: Attribute, buffer: SSAValue) -> str:
    if is_bf16(type_) and writer.options.bf16 == "integer":
        type_ = with_element(type_, i16)
    space = writer.type(buffer)[14:-1] or "0"
    return f"llvm.masked.{word}.{intrinsic_suffix(type_)}.p{space}"


def _masked_load(writer: Writer, op: vector.MaskedLoadOp) -> None:
    if scalar_of(op.result.type) == i1:
        _masked_load_of_truths(writer, op)
        return
    type_ = writer.type(op.result)
    pointer, address = _masked_pointer(writer, op.base, op.indices).rsplit(" ", 1)
    arguments = [
        (pointer, address),
        (writer.type(op.mask), writer.values[op.mask]),
        (type_, writer.values[op.pass_thru]),
    ]
    align = size_bytes(scalar_of(op.result.type))
    name = _masked_name(writer, "load", op.result.type, op.base)
    writer.assign(op.result, writer.call(name, type_, arguments, align=align))


def _masked_load_of_truths(writer: Writer, op: vector.MaskedLoadOp) -> None:
    """Bools lie in memory as bytes; those of lanes that are off are read as the ``pass_thru``."""
    bytes_ = with_element(op.result.type, i8)
    stored = llvm_type(bytes_, writer.options)
    pointer, address = _masked_pointer(writer, op.base, op.indices).rsplit(" ", 1)
    rest = writer.temporary(f"zext {writer.typed(op.pass_thru)} to {stored}")
    mask = (writer.type(op.mask), writer.values[op.mask])
    arguments = [(pointer, address), mask, (stored, rest)]
    name = _masked_name(writer, "load", bytes_, op.base)
    read = writer.temporary(writer.call(name, stored, arguments, align=1))
    writer.assign(op.result, f"icmp ne {stored} {read}, zeroinitializer")


def _masked_store(writer: Writer, op: vector.MaskedStoreOp) -> None:
    value = op.value_to_store
    type_, stored = value.type, writer.type(value)
    pointer, address = _masked_pointer(writer, op.base, op.indices).rsplit(" ", 1)
    if scalar_of(type_) == i1:
        type_ = with_element(type_, i8)
        stored = llvm_type(type_, writer.options)
        lanes = writer.temporary(f"zext {writer.typed(value)} to {stored}")
    else:
        lanes = _whole(writer, value)
    arguments = [
        (stored, lanes),
        (pointer, address),
        (writer.type(op.mask), writer.values[op.mask]),
    ]
    align = size_bytes(scalar_of(type_))
    name = _masked_name(writer, "store", type_, op.base)
    writer.line(writer.call(name, "void", arguments, align=align))


def _whole(writer: Writer, value: SSAValue) -> str:
    """The lanes of a masked store, so that a truncation is done before it and not by it.

    LLVM 22 makes ``masked.store(trunc x)`` one store that truncates, and where the mask is known
    to have one lane then stores that lane of ``x`` in full: bytes behind the element are
    overwritten. A fence, which is no instruction, keeps the two apart.
    """
    type_, name = writer.type(value), writer.values[value]
    bits = 8 * size_bytes(scalar_of(value.type)) * int(type_[1:].split(" ", 1)[0])
    if not re.fullmatch(r"<\d+ x i(8|16|32)>", type_) or bits % 32:
        return name
    floats = "float" if bits == 32 else f"<{bits // 32} x float>"
    suffix = "f32" if bits == 32 else f"v{bits // 32}f32"
    seen = writer.temporary(f"bitcast {type_} {name} to {floats}")
    fence = writer.call(f"llvm.arithmetic.fence.{suffix}", floats, [(floats, seen)])
    return writer.temporary(f"bitcast {floats} {writer.temporary(fence)} to {type_}")


_REDUCTIONS = {
    "add": ("fadd", "add"),
    "mul": ("fmul", "mul"),
    "maximumf": ("fmaximum", ""),
    "minimumf": ("fminimum", ""),
    "maxsi": ("", "smax"),
    "minsi": ("", "smin"),
    "maxui": ("", "umax"),
    "minui": ("", "umin"),
    "and": ("", "and"),
    "or": ("", "or"),
}


def _reduce(writer: Writer, op: vector.ReductionOp) -> None:
    """All lanes folded into one scalar, starting from ``acc`` for sums and products of floats."""
    kind = op.kind.data.value
    type_, name = widened(writer, op.vector)
    scalar = llvm_type(scalar_of(op.vector.type), writer.options)
    is_float = scalar in ("float", "double", "half")
    spelled = _REDUCTIONS[kind][0 if is_float else 1]
    if not spelled or (op.acc is not None and not is_float):
        raise LLVMError(f"no LLVM form for vector.reduction <{kind}> of {op.vector.type}")
    arguments = [(type_, name)]
    if kind in ("add", "mul") and is_float:
        start = "-0.0" if kind == "add" else "1.0"
        arguments.insert(0, (scalar, writer.values[op.acc] if op.acc is not None else start))
    full = f"llvm.vector.reduce.{spelled}.{intrinsic_suffix(op.vector.type)}"
    writer.assign(op.dest, writer.call(full, scalar, arguments, flags_of(op)))


def _shuffle(writer: Writer, op: vector.ShuffleOp) -> None:
    """Lanes of two vectors in a given order."""
    lanes = ", ".join(f"i32 {lane}" for lane in op.mask.iter_values())
    first, second = writer.typed(op.v1), writer.typed(op.v2)
    order = f"<{len(op.mask)} x i32> <{lanes}>"
    writer.assign(op.result, f"shufflevector {first}, {second}, {order}")


VECTORS: dict[str, Handler] = {
    "vector.load": _vector_load,
    "vector.store": _vector_store,
    "vector.broadcast": _broadcast,
    "vector.bitcast": _bitcast,
    "vector.fma": _multiply_add,
    "vector.create_mask": _create_mask,
    "vector.maskedload": _masked_load,
    "vector.maskedstore": _masked_store,
    "vector.reduction": _reduce,
    "vector.shuffle": _shuffle,
}
