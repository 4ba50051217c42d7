"""What a lowered kernel takes of a GPU: cycles of a block, registers of a thread, bytes it moves.

All of it is read off the kernel's ops before there is PTX, so it is an estimate: good enough to say
whether launches fill a GPU, not to time them (``profile.estimate`` does that).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import cast

from xdsl.dialects import arith, gpu, memref, scf
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, MemRefType, VectorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from wia_compiler.backends.gpu.architecture import (
    MAX_REGISTERS_PER_THREAD,
    REGISTERS_PER_SM,
    WARP_SIZE,
)
from wia_compiler.backends.gpu.launch import MIN_BLOCKS, integer_of
from wia_compiler.dialects.nvgpu import MmaSyncOp
from wia_compiler.dialects.nvgpu_hopper import SetMaxRegisterOp
from wia_compiler.dialects.nvgpu_hopper_types import AccumulatorType
from wia_compiler.dialects.nvgpu_warpgroup import WarpgroupMmaOp, WarpgroupMmaRegistersOp
from wia_compiler.passes.emit_index import constant_of
from wia_compiler.passes.llvm.types import scope_of, size_bytes
from wia_compiler.passes.scf_rewrites.loops import LOADS, trip_count

FAR_CYCLES = 500
"""Until a load from global memory is there, on every architecture of the last years about that."""
STEP_CYCLES = 2
"""Of a lone warp for an instruction: a latency of 4 cycles, two that do not wait for each other."""
BARRIER_CYCLES = 30
_SLOW_STEPS = 8
"""Instructions of an exact division or root, and of other functions of one op."""
BASE_REGISTERS = 10
"""Addresses, indices and what ptxas needs to put instructions in a better order."""
_WARPGROUP_WARPS = 4
_STEP_BYTES = 32
"""Of the folded axis that a fragment of ``wgmma`` holds."""
_FREE = (arith.ConstantOp, memref.ViewOp, memref.AllocOp, memref.AllocaOp, scf.YieldOp)
_SLOW = (arith.DivfOp, arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp)


@dataclass(frozen=True)
class Spent:
    """Of one thread: instructions, cycles that it waits beside, multiply-adds of matrix units."""

    instructions: float = 0.0
    waits: float = 0.0
    products: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.instructions + other.instructions,
            self.waits + other.waits,
            self.products + other.products,
        )

    def times(self, count: float) -> Spent:
        """The same so often."""
        return Spent(self.instructions * count, self.waits * count, self.products * count)


def spent_by(block: Block) -> Spent:
    """What a thread spends on a block of ops and on those inside; of branches the longer one.

    Loads of a block of ops are under way together. A loop whose bounds are known only on the way is
    taken to run as often as its upper bound says, or once.
    """
    total = Spent()
    far = False
    for op in block.ops:
        total += _spent_on(op)
        far = far or (isinstance(op, LOADS) and _scope(op.operands[0]) not in _NEAR)
    return total + Spent(waits=FAR_CYCLES) if far else total


_NEAR = ("shared", "register")


def _spent_on(op: Operation) -> Spent:
    match op:
        case scf.ForOp():
            return spent_by(op.body.block).times(_turns(op))
        case scf.IfOp():
            ways = [spent_by(b) for region in op.regions for b in region.blocks]
            return max(ways, key=lambda each: each.instructions * STEP_CYCLES + each.waits)
        case scf.WhileOp():
            return sum((spent_by(b) for region in op.regions for b in region.blocks), Spent())
        case gpu.BarrierOp():
            return Spent(1, BARRIER_CYCLES)
        case MmaSyncOp():
            return Spent(1, 0, float(prod(op.shape)))
        case WarpgroupMmaOp():
            return _warpgroup_product(op.matrixC, op.depth)
        case WarpgroupMmaRegistersOp():
            held = cast("VectorType[Attribute]", op.fragments[0].type)
            return _warpgroup_product(
                op.matrixC, len(op.fragments) * _STEP_BYTES // size_bytes(held.element_type)
            )
        case _ if isinstance(op, _FREE) or _is_register_access(op):
            return Spent()
        case _ if isinstance(op, _SLOW) and not isinstance(op.results[0].type, IndexType):
            return Spent(_SLOW_STEPS)
        case _:
            return Spent(1)


def _warpgroup_product(sums: SSAValue, depth: int) -> Spent:
    """A quarter of the multiply-adds of four warps."""
    shape = cast(AccumulatorType, sums.type).fragmented.get_shape()
    return Spent(1, 0, prod(shape) * depth / _WARPGROUP_WARPS)


def _turns(loop: scf.ForOp) -> float:
    known = trip_count(loop)
    if known is not None:
        return known
    upper, step = constant_of(loop.ub), constant_of(loop.step)
    return max(1.0, upper / step) if upper is not None and step else 1.0


def _is_register_access(op: Operation) -> bool:
    return isinstance(op, memref.LoadOp | memref.StoreOp) and _scope(op.memref) == "register"


def _scope(buffer: SSAValue) -> str:
    return scope_of(cast("MemRefType[Attribute]", buffer.type))


def registers_of(kernel: FuncOp, threads: int) -> int:
    """Registers of a thread: those of the values that are alive at one point, the most of all.

    Bounds of the launch and of ``setmaxnreg`` are kept.
    """
    if any(isinstance(op, SetMaxRegisterOp) for op in kernel.walk()):
        return REGISTERS_PER_SM // threads // 8 * 8
    found = BASE_REGISTERS + _most_alive(kernel)
    bound = MAX_REGISTERS_PER_THREAD
    min_blocks = integer_of(kernel, MIN_BLOCKS)
    if min_blocks:
        warps = -(-threads // WARP_SIZE)
        bound = min(bound, REGISTERS_PER_SM // (min_blocks * warps * WARP_SIZE))
    return max(16, min(found, bound))


def _most_alive(kernel: FuncOp) -> int:
    """Values are alive from their op to the last that uses them; in loops, to the loop's end."""
    place: dict[Operation, int] = {}
    ends: dict[Operation, int] = {}
    for number, op in enumerate(_in_order(kernel.body.block, ends, [0])):
        place[op] = number
    change = [0] * (len(place) + 2)
    slots = 0
    for op in place:
        if isinstance(op, memref.AllocaOp):
            slots += _words(op.memref.type.element_type) * prod(op.memref.type.get_shape())
        inside = [argument for region in op.regions for argument in _arguments(region)]
        for value in (*op.results, *inside):
            words = _words(value.type)
            if not words or isinstance(op, arith.ConstantOp):
                continue
            last = max((_last_use(use.operation, op, place, ends) for use in value.uses), default=0)
            if last > place[op]:
                change[place[op]] += words
                change[last] -= words
    most = alive = 0
    for each in change:
        alive += each
        most = max(most, alive)
    return most + slots


def _in_order(block: Block, ends: dict[Operation, int], count: list[int]) -> Iterator[Operation]:
    for op in block.ops:
        count[0] += 1
        yield op
        for region in op.regions:
            for inner in region.blocks:
                yield from _in_order(inner, ends, count)
        ends[op] = count[0]


def _arguments(region: Region) -> list[SSAValue]:
    return [argument for block in region.blocks for argument in block.args]


def _last_use(
    user: Operation, owner: Operation, place: dict[Operation, int], ends: dict[Operation, int]
) -> int:
    """Where a value dies that is read: behind the outermost loop between that and its owner."""
    last, around = place[user], user.parent_op()
    while around is not None and around is not owner and around is not owner.parent_op():
        if isinstance(around, scf.ForOp | scf.WhileOp):
            last = ends[around]
        around = around.parent_op()
    return last


def _words(type: Attribute) -> int:
    """Registers of 32 bits that a value takes; truth values have registers of their own."""
    match type:
        case VectorType():
            return -(-prod(type.get_shape()) * size_bytes(type.element_type) // 4)
        case AccumulatorType():
            return type.slots
        case IntegerType():
            return 0 if type.width.data == 1 else -(-type.width.data // 32)
        case IndexType():
            return 1
        case _ if isinstance(type, AnyFloat):
            return -(-size_bytes(type) // 4)
        case _:
            return 0
