"""gpu ops as calls of NVVM intrinsics: who am I, barriers, exchanges inside a warp."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import gpu
from xdsl.dialects.builtin import Float32Type, IndexType, IntegerType, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from wia_compiler.dialects.gpu_dynamic_shared import DynamicSharedMemoryOp
from wia_compiler.dialects.gpu_ids import BlockIdOp, ThreadIdOp
from wia_compiler.dialects.nvvm_barrier import BarrierOp
from wia_compiler.passes.llvm.types import LLVMError, memory_type, size_bytes
from wia_compiler.passes.llvm.writer import Handler, Writer

_DYNAMIC_SHARED = "__dynamic_shared"
_SHUFFLES = {"xor": ("bfly", 31), "down": ("down", 31), "up": ("up", 0), "idx": ("idx", 31)}


def _register(writer: Writer, op: ThreadIdOp | BlockIdOp) -> None:
    """A launch register: 32 bits, never negative, widened to the 64 bits of an index."""
    name = f"{writer.options.registers[op.name]}.{op.dimension.data.value}"
    narrow = writer.temporary(writer.call(name, "i32", []))
    writer.assign(op.result, f"zext nneg i32 {narrow} to i64")


def _lane(writer: Writer, op: gpu.LaneIdOp) -> None:
    narrow = writer.temporary(writer.call("llvm.nvvm.read.ptx.sreg.laneid", "i32", []))
    writer.assign(op.result, f"zext nneg i32 {narrow} to i64")


def _barrier(writer: Writer, op: gpu.BarrierOp) -> None:
    writer.line(writer.call(writer.options.barrier, "void", [("i32", "0")]))


def _counted_barrier(writer: Writer, op: BarrierOp) -> None:
    arguments = [("i32", writer.values[value]) for value in (op.barrierId, op.numberOfThreads)]
    writer.line(writer.call("llvm.nvvm.barrier.cta.sync.aligned.count", "void", arguments))


def _dynamic_shared(writer: Writer, op: DynamicSharedMemoryOp) -> None:
    """An array without a size outside the module: all kernels of it share the name."""
    text = f"@{_DYNAMIC_SHARED} = external addrspace(3) global [0 x i8], align 1024"
    if text not in writer.module.globals:
        writer.module.globals.append(text)
    writer.values[op.memory] = f"@{_DYNAMIC_SHARED}"


def _power_of_two(writer: Writer, op: Operation) -> None:
    """``math.exp2`` that may be approximate: within 2 units in the last place, subnormals are 0."""
    if not isinstance(op.results[0].type, Float32Type):
        raise LLVMError(f"no approximate power of two of {op.results[0].type}: expected f32")
    operand = ("float", writer.values[op.operands[0]])
    writer.assign(op.results[0], writer.call("llvm.nvvm.ex2.approx.ftz.f", "float", [operand]))


def _shuffle(writer: Writer, op: Operation) -> None:
    """``gpu.shuffle MODE %value, %offset``: another lane's value, all 32 lanes taking part.

    Values of up to 32 bits are carried in one i32, 64-bit values in two.
    """
    mode = _mode(op)
    if mode not in _SHUFFLES:
        raise LLVMError(f"no shuffle mode {mode!r}: expected one of {', '.join(_SHUFFLES)}")
    value, offset = op.operands[0], op.operands[1]
    distance = _as_i32(writer, offset)
    size = 8 * size_bytes(value.type)
    type_ = memory_type(value.type, writer.options)
    name = writer.values[value]
    if value.type == IntegerType(1):
        name = writer.temporary(f"zext i1 {name} to i8")
    bits = name
    if not type_.startswith("i"):
        bits = writer.temporary(f"bitcast {type_} {name} to i{size}")
    moved = _move(writer, mode, bits, size, distance)
    result = op.results[0]
    if value.type == IntegerType(1):
        writer.assign(result, f"icmp ne i8 {moved}, 0")
    elif type_.startswith("i"):
        writer.values[result] = moved
    else:
        writer.assign(result, f"bitcast i{size} {moved} to {type_}")
    for valid in op.results[1:]:
        writer.values[valid] = "true"


def _move(writer: Writer, mode: str, bits: str, size: int, distance: str) -> str:
    if size == 32:
        return _exchange(writer, mode, bits, distance)
    if size < 32:
        wide = writer.temporary(f"zext i{size} {bits} to i32")
        moved = _exchange(writer, mode, wide, distance)
        return writer.temporary(f"trunc i32 {moved} to i{size}")
    low = writer.temporary(f"trunc i64 {bits} to i32")
    shifted = writer.temporary(f"lshr i64 {bits}, 32")
    high = writer.temporary(f"trunc i64 {shifted} to i32")
    halves = [_exchange(writer, mode, half, distance) for half in (low, high)]
    wide = [writer.temporary(f"zext i32 {half} to i64") for half in halves]
    placed = writer.temporary(f"shl i64 {wide[1]}, 32")
    return writer.temporary(f"or disjoint i64 {placed}, {wide[0]}")


def _exchange(writer: Writer, mode: str, bits: str, distance: str) -> str:
    spelled, clamp = _SHUFFLES[mode]
    arguments = [("i32", "-1"), ("i32", bits), ("i32", distance), ("i32", str(clamp))]
    return writer.temporary(writer.call(f"llvm.nvvm.shfl.sync.{spelled}.i32", "i32", arguments))


def _mode(op: Operation) -> str:
    attribute: Attribute | None = op.properties.get("mode") or op.attributes.get("mode")
    if isinstance(attribute, StringAttr):
        return attribute.data
    data = getattr(attribute, "data", None)
    return str(getattr(data, "value", data))


def _as_i32(writer: Writer, value: SSAValue) -> str:
    name = writer.values[value]
    if name.lstrip("-").isdigit():
        return name
    if isinstance(value.type, IndexType):
        return writer.temporary(f"trunc i64 {name} to i32")
    width = cast("IntegerType", value.type).width.data
    if width == 32:
        return name
    kind = "trunc" if width > 32 else "zext"
    return writer.temporary(f"{kind} i{width} {name} to i32")


GPU: dict[str, Handler] = {
    "gpu.thread_id": _register,
    "gpu.block_id": _register,
    "gpu.block_dim": _register,
    "gpu.grid_dim": _register,
    "gpu.lane_id": _lane,
    "gpu.barrier": _barrier,
    "nvvm.barrier": _counted_barrier,
    "gpu.dynamic_shared_memory": _dynamic_shared,
    "gpu.shuffle": _shuffle,
    "math.exp2": _power_of_two,
}
