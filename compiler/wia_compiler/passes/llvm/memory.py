"""memref loads, stores, buffers and views as LLVM instructions.

A memref value is the pointer to its element [0, 0, …]: what a layout's offset says is already in
it, and numpy's data pointer is exactly that. Indices are 64 bits, strides are constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    MemRefType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue

from wia_compiler.dialects.memref_prefetch import PrefetchOp
from wia_compiler.passes.llvm.types import (
    LLVMError,
    constant,
    memory_type,
    num_elements,
    scalar_of,
    scope_of,
    size_bytes,
    strides_of,
)
from wia_compiler.passes.llvm.writer import Handler, Writer, symbol

SCRATCH = "wia.scratch"
"""Attribute: bytes of a parallel loop's memory for each thread, or a buffer's place in it."""
_DYNAMIC = -(2**63)  # MLIR's mark of an offset that is an operand


def memref_type(value: SSAValue) -> MemRefType[Attribute]:
    """The type of a memref value."""
    type_ = value.type
    if not isinstance(type_, MemRefType):
        raise LLVMError(f"expected a memref, found {type_}")
    return cast("MemRefType[Attribute]", type_)


def linear_index(
    writer: Writer, indices: Sequence[str], strides: Sequence[int], start: int = 0
) -> str:
    """``start`` + the sum of index times stride as one i64 value; constants are folded."""
    total = ""
    for index, stride in zip(indices, strides, strict=True):
        if stride == 0:
            continue
        if index.lstrip("-").isdigit():
            start += int(index) * stride
            continue
        term = index if stride == 1 else writer.temporary(f"mul nsw i64 {index}, {stride}")
        total = writer.temporary(f"add nsw i64 {total}, {term}") if total else term
    if not total:
        return str(start)
    return writer.temporary(f"add nsw i64 {total}, {start}") if start else total


def element_pointer(writer: Writer, buffer: SSAValue, indices: Sequence[SSAValue]) -> str:
    """The typed pointer of one element: ``ptr %p``."""
    type_ = memref_type(buffer)
    strides, offset = writer.strides(buffer), 0
    if writer.options.constant_offsets:
        parts = [_constant_part(index) for index in indices]
        offset = sum(part * stride for (_, part), stride in zip(parts, strides, strict=True))
        indices = [index for index, _ in parts]
    values = [writer.values[index] for index in indices]
    linear = linear_index(writer, values, strides)
    pointer = writer.typed(buffer)
    element = memory_type(type_.element_type, writer.options)
    # Without its constant part an index may lie outside of the buffer.
    within = "" if offset else "inbounds "
    for step in (linear, str(offset)):
        if step != "0":
            name = writer.temporary(f"getelementptr {within}{element}, {pointer}, i64 {step}")
            pointer = f"{writer.type(buffer)} {name}"
    return pointer


def _constant_part(index: SSAValue) -> tuple[SSAValue, int]:
    """``(a, c)`` of an index that is ``a + c``."""
    added = index.owner
    if isinstance(added, arith.AddiOp) and isinstance(added.rhs.owner, arith.ConstantOp):
        number = added.rhs.owner.value
        if isinstance(number, IntegerAttr):
            return added.lhs, number.value.data
    return index, 0


def _nontemporal(op: Operation) -> bool:
    flag = op.properties.get("nontemporal")
    return isinstance(flag, IntegerAttr) and bool(flag.value.data)


def _tail(writer: Writer, element: Attribute, op: Operation) -> str:
    """Alignment (that of one element, or what the op says) and whether the cache is bypassed."""
    known = op.attributes.get("wia.alignment")
    aligned = known.value.data if isinstance(known, IntegerAttr) else size_bytes(scalar_of(element))
    tail = f", align {aligned}"
    if _nontemporal(op):
        tail += f", !nontemporal !{writer.module.metadata.shared('!{i32 1}')}"
    return tail


def read_element(
    writer: Writer, op: Operation, buffer: SSAValue, indices: Sequence[SSAValue]
) -> None:
    """A load; what it gives is called as the buffer is where it has no name of its own."""
    result = op.results[0]
    pointer = element_pointer(writer, buffer, indices)
    stored = memory_type(result.type, writer.options)
    text = f"load {stored}, {pointer}{_tail(writer, result.type, op)}"
    name = writer.temporary(text, result.name_hint or buffer.name_hint)
    writer.values[result] = name
    if scalar_of(result.type) != i1:
        return
    byte = name
    zero = "zeroinitializer" if isinstance(result.type, VectorType) else "0"
    writer.assign(result, f"icmp ne {stored} {byte}, {zero}")


def write_element(
    writer: Writer, op: Operation, value: SSAValue, buffer: SSAValue, indices: Sequence[SSAValue]
) -> None:
    """A store; a bool is written as a byte, 0 or 1."""
    pointer = element_pointer(writer, buffer, indices)
    stored, name = memory_type(value.type, writer.options), writer.values[value]
    if scalar_of(value.type) == i1:
        name = writer.temporary(f"zext {writer.type(value)} {name} to {stored}")
    writer.line(f"store {stored} {name}, {pointer}{_tail(writer, value.type, op)}")


def _load(writer: Writer, op: memref.LoadOp) -> None:
    read_element(writer, op, op.memref, op.indices)


def _store(writer: Writer, op: memref.StoreOp) -> None:
    write_element(writer, op, op.value, op.memref, op.indices)


def _scratch_buffer(writer: Writer, op: memref.AllocOp | memref.AllocaOp) -> bool:
    """A buffer in memory of the thread's own; ``False`` where the op asks for none."""
    place = op.attributes.get(SCRATCH)
    if not isinstance(place, IntegerAttr):
        return False
    text = f"getelementptr inbounds i8, ptr %scratch, i64 {place.value.data}"
    writer.assign(op.memref, text)
    return True


def _allocate(writer: Writer, op: memref.AllocOp | memref.AllocaOp) -> None:
    """``shared``: a global of address space 3; other spaces: a stack slot in the entry block."""
    if _scratch_buffer(writer, op):
        return
    type_ = memref_type(op.memref)
    element = memory_type(type_.element_type, writer.options)
    count = num_elements(type_)
    # xDSL prints ``alignment`` in braces, where newer MLIR does not read it.
    known = op.attributes.get("wia.alignment", op.alignment)
    alignment = known.value.data if isinstance(known, IntegerAttr) else 0
    match scope_of(type_):
        case "shared":
            align = alignment or 16
            writer.values[op.memref] = writer.module.add_global(
                op.memref.name_hint or "shared",
                f"internal addrspace(3) global [{count} x {element}] poison, align {align}",
            )
        case "":
            raise LLVMError("no place for an allocation in main memory: pass it as an argument")
        case _:
            name = writer.fresh(op.memref.name_hint)
            size = count * size_bytes(type_.element_type)
            align = alignment or next((each for each in (64, 32) if size >= each), 8)
            writer.allocas.append(f"  {name} = alloca [{count} x {element}], align {align}")
            writer.values[op.memref] = name


def _deallocate(writer: Writer, op: memref.DeallocOp) -> None:
    """Stack slots and shared memory live as long as the function."""


def _view(writer: Writer, op: memref.ViewOp) -> None:
    """A typed window into bytes, ``byte_shift`` from their start."""
    shift = writer.values[op.byte_shift]
    writer.assign(op.result, f"getelementptr inbounds i8, {writer.typed(op.source)}, i64 {shift}")


def _offsets(writer: Writer, op: memref.SubviewOp | memref.ReinterpretCastOp) -> list[str]:
    dynamic = iter(op.offsets)
    return [
        writer.values[next(dynamic)] if offset == _DYNAMIC else str(offset)
        for offset in op.static_offsets.iter_values()
    ]


def _subview(writer: Writer, op: memref.SubviewOp) -> None:
    _shift(writer, op, linear_index(writer, _offsets(writer, op), writer.strides(op.source)))


def _reinterpret(writer: Writer, op: memref.ReinterpretCastOp) -> None:
    (offset,) = _offsets(writer, op)
    _shift(writer, op, offset)


def _shift(writer: Writer, op: memref.SubviewOp | memref.ReinterpretCastOp, linear: str) -> None:
    if linear == "0":
        writer.values[op.result] = writer.values[op.source]
        return
    element = memory_type(memref_type(op.source).element_type, writer.options)
    writer.assign(
        op.result, f"getelementptr inbounds {element}, {writer.typed(op.source)}, i64 {linear}"
    )


def _alias(writer: Writer, op: Operation) -> None:
    """A view of the same elements: the same pointer."""
    writer.values[op.results[0]] = writer.values[op.operands[0]]


def _copy(writer: Writer, op: memref.CopyOp) -> None:
    source, target = memref_type(op.source), memref_type(op.destination)
    dense = strides_of(MemRefType(source.element_type, source.get_shape()))
    if writer.strides(op.source) != dense or writer.strides(op.destination) != dense:
        raise LLVMError(f"memref.copy of {source} to {target} is no block of bytes")
    size = num_elements(source) * size_bytes(source.element_type)
    arguments = [
        (writer.type(op.destination), writer.values[op.destination]),
        (writer.type(op.source), writer.values[op.source]),
        ("i64", str(size)),
        ("i1", "false"),
    ]
    spaces = ["p" + (type_[14:-1] or "0") for type_, _ in arguments[:2]]
    writer.line(writer.call(f"llvm.memcpy.{'.'.join(spaces)}.i64", "void", arguments))


def _prefetch(writer: Writer, op: PrefetchOp) -> None:
    """The line of an address that may lie outside the array, where nothing is fetched."""
    values = [writer.values[index] for index in op.indices]
    linear = linear_index(writer, values, writer.strides(op.memref))
    type_ = writer.type(op.memref)
    element = memory_type(memref_type(op.memref).element_type, writer.options)
    pointer = writer.temporary(f"getelementptr {element}, {writer.typed(op.memref)}, i64 {linear}")
    kind, locality = int(op.writes), op.locality.value.data
    arguments = [(type_, pointer), ("i32", str(kind)), ("i32", str(locality)), ("i32", "1")]
    writer.line(writer.call(f"llvm.prefetch.p{type_[14:-1] or '0'}", "void", arguments))


def _global(writer: Writer, op: memref.GetGlobalOp) -> None:
    writer.values[op.memref] = symbol(op.name_.root_reference.data)


def global_text(op: memref.GlobalOp, writer_options: Any) -> str:
    """What follows the name of a constant table."""
    type_ = op.type
    element = memory_type(type_.element_type, writer_options)
    kind = "constant" if op.constant is not None else "global"
    space = f"addrspace({writer_options.global_space}) " if writer_options.global_space else ""
    count = num_elements(type_)
    value = "poison"
    if isinstance(op.initial_value, DenseIntOrFPElementsAttr):
        numbers = op.initial_value.get_values()
        if op.initial_value.is_splat():
            numbers = tuple(numbers) * count
        items = ", ".join(
            f"{element} {constant(number, type_.element_type, writer_options)}"
            for number in numbers
        )
        value = f"[{items}]"
    return f"internal {space}{kind} [{count} x {element}] {value}, align 16"


def _address(writer: Writer, op: memref.ExtractAlignedPointerAsIndexOp) -> None:
    writer.assign(op.aligned_pointer, f"ptrtoint {writer.typed(op.source)} to i64")


MEMORY: dict[str, Handler] = {
    "memref.load": _load,
    "memref.store": _store,
    "memref.alloc": _allocate,
    "memref.alloca": _allocate,
    "memref.dealloc": _deallocate,
    "memref.view": _view,
    "memref.subview": _subview,
    "memref.reinterpret_cast": _reinterpret,
    "memref.cast": _alias,
    "memref.collapse_shape": _alias,
    "memref.expand_shape": _alias,
    "memref.copy": _copy,
    "memref.get_global": _global,
    "memref.prefetch": _prefetch,
    "memref.extract_aligned_pointer_as_index": _address,
}
