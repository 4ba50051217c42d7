"""nvgpu and nvvm ops for GPUs of capability 9.0 as NVVM intrinsics: barriers, tensor copies, roles.

A barrier group is a pointer to 64-bit words in shared memory, a tensor map a pointer to 128 bytes
of the kernel's parameters (``__grid_constant__``), which copies read where they lie.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from wia_compiler.dialects.nvgpu_hopper import (
    BarrierArriveOp,
    BarrierCreateOp,
    BarrierExpectOp,
    BarrierInitOp,
    BarrierWaitOp,
    ElectOp,
    FenceBarrierInitOp,
    SetMaxRegisterOp,
    TensorLoadOp,
    TensorMapPrefetchOp,
)
from wia_compiler.dialects.nvgpu_hopper_types import TENSOR_MAP_BYTES
from wia_compiler.passes.llvm.nvgpu_warpgroup import WARPGROUP
from wia_compiler.passes.llvm.writer import Handler, Writer

_SHARED = "ptr addrspace(3)"
_CLUSTER = "ptr addrspace(7)"
_SCOPE = "scope.cta.space.cta"


def tensor_map_parameter(name: str) -> str:
    """A tensor map among the parameters of a kernel: by value, never copied."""
    return f'ptr byval([{TENSOR_MAP_BYTES} x i8]) align 64 "nvvm.grid_constant" {name}'


def _create(writer: Writer, op: BarrierCreateOp) -> None:
    count = op.barriers.type.num_barriers.data
    writer.values[op.barriers] = writer.module.add_global(
        op.barriers.name_hint or "barriers",
        f"internal addrspace(3) global [{count} x i64] poison, align 8",
    )


def _address(writer: Writer, barriers: SSAValue, index: SSAValue) -> tuple[str, str]:
    """One barrier of a group as an argument."""
    base, number = writer.values[barriers], writer.values[index]
    if number == "0":
        return _SHARED, base
    text = f"getelementptr inbounds i64, {_SHARED} {base}, i64 {number}"
    return _SHARED, writer.temporary(text, "barrier")


def _narrow(writer: Writer, value: SSAValue) -> tuple[str, str]:
    """An index as an ``i32`` argument."""
    name = writer.values[value]
    if name.lstrip("-").isdigit():
        return "i32", name
    return "i32", writer.temporary(f"trunc i64 {name} to i32")


def _init(writer: Writer, op: BarrierInitOp) -> None:
    arguments = [_address(writer, op.barriers, op.index), _narrow(writer, op.count)]
    writer.line(writer.call("llvm.nvvm.mbarrier.init.shared", "void", arguments))


def _arrive(writer: Writer, op: BarrierArriveOp) -> None:
    arguments = [_address(writer, op.barriers, op.index), ("i32", "1")]
    writer.temporary(writer.call(f"llvm.nvvm.mbarrier.arrive.{_SCOPE}", "i64", arguments))


def _expect(writer: Writer, op: BarrierExpectOp) -> None:
    arguments = [_address(writer, op.barriers, op.index), _narrow(writer, op.txcount)]
    writer.temporary(writer.call(f"llvm.nvvm.mbarrier.arrive.expect.tx.{_SCOPE}", "i64", arguments))


def _wait(writer: Writer, op: BarrierWaitOp) -> None:
    """A loop: the instruction itself gives up after a time that is the machine's."""
    barrier = _address(writer, op.barriers, op.index)
    parity = writer.temporary(f"zext i1 {writer.values[op.phase]} to i32", "parity")
    again, done = writer.fresh("wait"), writer.fresh("arrived")
    writer.line(f"br label {again}")
    writer.label(again)
    name = f"llvm.nvvm.mbarrier.try.wait.parity.{_SCOPE}"
    over = writer.temporary(writer.call(name, "i1", [barrier, ("i32", parity)]))
    writer.line(f"br i1 {over}, label {done}, label {again}")
    writer.label(done)


def _prefetch(writer: Writer, op: TensorMapPrefetchOp) -> None:
    arguments = [("ptr", writer.values[op.tensorMap])]
    writer.line(writer.call("llvm.nvvm.prefetch.tensormap.p0", "void", arguments))


def _load(writer: Writer, op: TensorLoadOp) -> None:
    """Coordinates go from the dense dimension outwards; no multicast and no cache hint."""
    place = writer.temporary(
        f"addrspacecast {_SHARED} {writer.values[op.dst]} to {_CLUSTER}", "tile"
    )
    coordinates = [_narrow(writer, each) for each in reversed(op.coordinates)]
    arguments = [
        (_CLUSTER, place),
        _address(writer, op.barriers, op.index),
        ("ptr", writer.values[op.tensorMap]),
        *coordinates,
        ("i16", "0"),
        ("i64", "0"),
        ("i1", "false"),
        ("i1", "false"),
        ("i32", "0"),
    ]
    name = f"llvm.nvvm.cp.async.bulk.tensor.g2s.tile.{len(coordinates)}d"
    writer.line(writer.call(name, "void", arguments))


def _fence_init(writer: Writer, op: FenceBarrierInitOp) -> None:
    writer.line(writer.call("llvm.nvvm.fence.mbarrier_init.release.cluster", "void", []))


def _elect(writer: Writer, op: ElectOp) -> None:
    pair = writer.temporary(writer.call("llvm.nvvm.elect.sync", "{ i32, i1 }", [("i32", "-1")]))
    writer.assign(op.pred, f"extractvalue {{ i32, i1 }} {pair}, 1")


def _set_registers(writer: Writer, op: SetMaxRegisterOp) -> None:
    way = "inc" if op.decrease is None else "dec"
    arguments = [("i32", str(op.regCount.value.data))]
    writer.line(writer.call(f"llvm.nvvm.setmaxnreg.{way}.sync.aligned.u32", "void", arguments))


NVGPU_HOPPER: dict[str, Handler] = {
    "nvgpu.mbarrier.create": _create,
    "nvgpu.mbarrier.init": _init,
    "nvgpu.mbarrier.arrive": _arrive,
    "nvgpu.mbarrier.arrive.expect_tx": _expect,
    "nvgpu.mbarrier.try_wait.parity": _wait,
    "nvgpu.tma.prefetch.descriptor": _prefetch,
    "nvgpu.tma.async.load": _load,
    "nvvm.fence.mbarrier.init": _fence_init,
    "nvvm.elect.sync": _elect,
    "nvvm.setmaxregister": _set_registers,
    **WARPGROUP,
}
