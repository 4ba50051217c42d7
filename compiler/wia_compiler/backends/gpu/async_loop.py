"""Loops whose tiles are on their way to shared memory several turns before they are used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, gpu, memref
from xdsl.dialects.builtin import IndexType, StringAttr
from xdsl.ir import SSAValue

from wia_compiler.backends.gpu.async_copy import AsyncTileCopy
from wia_compiler.backends.gpu.builder import shape_of
from wia_compiler.backends.gpu.index import Index, of_value
from wia_compiler.backends.gpu.leaf import Kernel
from wia_compiler.backends.gpu.leaf_chunks import CHUNKS
from wia_compiler.backends.gpu.swizzle import SWIZZLE
from wia_compiler.backends.gpu.tile_copy import Read
from wia_compiler.dialects.loop_hints import hints_of
from wia_compiler.dialects.nvgpu import DeviceAsyncCreateGroupOp, DeviceAsyncWaitOp
from wia_compiler.dialects.tile import ComputeOp, ForOp


@dataclass(frozen=True)
class AsyncLoop:
    """A serial loop whose ``copies`` fill swizzled tiles that its other leaves, ``rest``, read.

    There are ``stages`` of each tile: one in use, the others on their way.
    """

    loop: ForOp
    copies: tuple[ComputeOp, ...]
    rest: tuple[ComputeOp, ...]
    stages: int

    @property
    def buffers(self) -> tuple[SSAValue, ...]:
        """The tiles."""
        return tuple(copy.outputs[0] for copy in self.copies)

    @property
    def allocations(self) -> tuple[memref.AllocOp, ...]:
        """What makes them, where that stands in the loop."""
        return tuple(op for op in self.loop.body.block.ops if isinstance(op, memref.AllocOp))


def async_loop(loop: ForOp) -> AsyncLoop | None:
    """The parts of a serial loop that copies swizzled tiles; ``None`` for any other.

    Leaves that only fill what a copy writes are left out: a copy writes 0 where it has nothing.
    """
    leaves = [op for op in loop.body.block.ops if isinstance(op, ComputeOp)]
    copies = tuple(leaf for leaf in leaves if leaf.kind.data == "copy" and _fills_tile(leaf))
    if loop.level.data != "serial" or not copies:
        return None
    filled = {copy.outputs[0] for copy in copies}
    rest = tuple(leaf for leaf in leaves if not set(leaf.outputs) & filled)
    stages = max(1, min(hints_of(loop).pipeline, loop.trip_count))
    return AsyncLoop(loop, copies, rest, stages)


def _fills_tile(leaf: ComputeOp) -> bool:
    owner = leaf.outputs[0].owner
    in_place = CHUNKS in leaf.attributes
    return isinstance(owner, memref.AllocOp) and SWIZZLE in owner.attributes and not in_place


def lower_async_loop(
    parts: AsyncLoop,
    kernel: Kernel,
    leaf: Callable[[ComputeOp], None],
    *,
    changing: Sequence[SSAValue],
) -> None:
    """Emit such a loop.

    ::

        for %k0 in 512 step 32 pipeline 3       copy stage 0;  group;  copy stage 1
          tile = copy a[%k0]              →     for %t in 16
          contract … tile                         group;  wait for all groups but 1;  barrier
                                                  copy stage (%t + 2) mod 3, where it is
                                                  contract … stage %t mod 3

    One barrier a turn: who copies to a stage has passed the one after the last reads of it. What
    ``cp.async`` does not copy goes through registers: loaded before the leaves, stored after them,
    or at once where a thread has much of it.
    """
    if parts.loop.trip_count == 0:
        return
    work = _Work(parts, kernel, leaf)
    work.begin()
    kernel.builder.repeat(parts.loop.trip_count, work.turn, changing=[*changing, work.stage])
    kernel.stages.clear()


class _Work:
    """One loop being written; ``stage`` is a register with the number of the stage in use."""

    def __init__(self, parts: AsyncLoop, kernel: Kernel, leaf: Callable[[ComputeOp], None]):
        self.parts = parts
        self.kernel = kernel
        self.builder = kernel.builder
        self.leaf = leaf
        self.count = parts.loop.trip_count
        self.ahead = parts.stages - 1
        slot = memref.AllocaOp.get(IndexType(), None, [1], memory_space=StringAttr("register"))
        slot.memref.name_hint = "stage"
        self.stage = self.builder.at_entry(slot).memref

    def begin(self) -> None:
        """Copy the tiles of the turns that come before any is used."""
        self.builder.store(self.builder.number(0, IndexType()), self.stage, [Index()])
        for number in range(self.ahead):
            if number:
                self._close_group()
            self._copy(Index((), number), Index((), number))

    def turn(self, position: SSAValue) -> None:
        """One turn of the loop."""
        builder = self.builder
        position.name_hint = self.parts.loop.induction_variable.name_hint
        here = of_value(position, self.count)
        held = builder.load(self.stage, [Index()])
        if self.ahead == 0:
            builder.add(gpu.BarrierOp())
            self._copy(here, Index())
        self._wait()
        builder.add(gpu.BarrierOp())
        if self.ahead == 0:
            self._compute(here, Index())
            return
        # Stage (t + stages - 1) mod stages is the one that the turn before has read.
        target = of_value(self._stage_after(held, self.ahead), self.parts.stages)
        loaded = self._begin_copies(here + self.ahead, target)
        self._compute(here, of_value(held, self.parts.stages))
        self._end_copies(loaded, here + self.ahead, target)
        builder.store(self._stage_after(held, 1), self.stage, [Index()])

    def _compute(self, turn: Index, stage: Index) -> None:
        self._at(turn, stage)
        for op in self.parts.rest:
            self.leaf(op)

    def _copy(self, turn: Index, stage: Index) -> None:
        """Copy the tiles of a turn that is there."""
        self._at(turn, stage)
        for copy in self._copies():
            if copy.is_async:
                copy.issue()
            else:
                copy.put(copy.read())

    def _begin_copies(self, turn: Index, stage: Index) -> list[list[Read]]:
        """Start the copies of a turn that may not be, and load what registers carry."""
        builder = self.builder
        self._at(turn, stage)
        copies = self._copies()
        carried = [copy for copy in copies if copy.is_carried]

        def start() -> None:
            for copy in copies:
                if copy.is_async:
                    copy.issue()
                elif not copy.is_carried:
                    copy.put(copy.read())

        if len(carried) < len(copies):
            builder.when(builder.within(turn, self.count), start)
        if not carried:
            return []
        # The last turn is read once more instead of nothing, which costs less than a branch.
        last = builder.number(self.count - 1, IndexType())
        clamped = builder.add(arith.MinSIOp(builder.index(turn), last)).result
        self._at(of_value(clamped, self.count), stage)
        return [copy.read() for copy in self._copies() if copy.is_carried]

    def _end_copies(self, loaded: Sequence[Sequence[Read]], turn: Index, stage: Index) -> None:
        """Store what registers carry."""
        if not loaded:
            return
        self._at(turn, stage)
        carried = [copy for copy in self._copies() if copy.is_carried]

        def store() -> None:
            for copy, reads in zip(carried, loaded, strict=True):
                copy.put(reads)

        self.builder.when(self.builder.within(turn, self.count), store)

    def _stage_after(self, held: SSAValue, distance: int) -> SSAValue:
        """The stage so many turns after one."""
        builder = self.builder
        total = builder.add(arith.AddiOp(held, builder.number(distance, IndexType()))).result
        stages = builder.number(self.parts.stages, IndexType())
        around = builder.add(arith.SubiOp(total, stages)).result
        inside = builder.add(arith.CmpiOp(total, stages, "ult")).result
        return builder.add(arith.SelectOp(inside, total, around)).result

    def _at(self, turn: Index, stage: Index) -> None:
        """Leaves that follow are those of a turn, and their tiles those of a stage."""
        loop = self.parts.loop
        self.kernel.ivs[loop.induction_variable] = turn * loop.step.value.data
        for buffer in self.parts.buffers:
            self.kernel.stages[buffer] = stage * shape_of(buffer)[0]

    def _copies(self) -> list[AsyncTileCopy]:
        return [AsyncTileCopy(op, self.kernel) for op in self.parts.copies]

    def _close_group(self) -> SSAValue | None:
        """What was started since the last group becomes one."""
        if not any(copy.is_async for copy in self._copies()):
            return None
        return self.builder.add(DeviceAsyncCreateGroupOp()).asyncToken

    def _wait(self) -> None:
        """Wait for the tiles of this turn: those of the turns after it may be on their way."""
        token = self._close_group()
        if token is not None:
            self.builder.add(DeviceAsyncWaitOp(token, max(self.ahead - 1, 0)))
