"""The roles of a warp-specialised kernel as walks over its nest, and the one that copies.

Both walk the same loops and branches; a role emits of the leaves those that are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from xdsl.dialects import func, gpu, memref
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    MemRefType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from wia_compiler.backends.gpu.architecture import WARP_SIZE
from wia_compiler.backends.gpu.builder import Builder
from wia_compiler.backends.gpu.hopper_lower import WAIT_TICKS
from wia_compiler.backends.gpu.hopper_pipes import Cursor, Pipe
from wia_compiler.backends.gpu.index import Index, delinearize, of_value
from wia_compiler.backends.gpu.launch import GRID_SIZE
from wia_compiler.backends.gpu.leaf import Kernel
from wia_compiler.backends.gpu.lower_points import lower_point
from wia_compiler.dialects.gpu_ids import BlockIdOp
from wia_compiler.dialects.nvgpu_hopper import (
    BarrierExpectOp,
    BarrierWaitOp,
    ElectOp,
    TensorLoadOp,
    TensorMapPrefetchOp,
)
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.dialects.tile_places import PositionsOp

_X = gpu.DimensionAttr(gpu.DimensionEnum.X)


@dataclass(frozen=True)
class RoleMemory:
    """What both roles see: barriers, shared memory, its pipes and their tensor maps."""

    builder: Builder
    barriers: SSAValue
    memory: SSAValue
    pipes: Sequence[Pipe]
    maps: dict[Pipe, SSAValue]

    def wait(self, number: Index, parity: SSAValue) -> None:
        """Until a phase of a barrier is over."""
        ticks = self.builder.number(WAIT_TICKS, IndexType())
        place = self.builder.index(number)
        self.builder.add(BarrierWaitOp(self.barriers, place, parity, ticks))

    def view(
        self, pipe: Pipe, stage: Index, offset: Index, type: MemRefType[Attribute]
    ) -> SSAValue:
        """A part of a stage, at an offset in bytes."""
        place = stage * pipe.stage_bytes + offset + pipe.offset
        shift = self.builder.index(place)
        view = memref.ViewOp.build(operands=[self.memory, shift, []], result_types=[type])
        return self.builder.add(view).result


class Role:
    """A walk over the nest that emits one role's part of it."""

    parity: bool
    """Of the first phase that it waits for: nothing was read of a stage that is new."""

    def __init__(
        self,
        nest: func.FuncOp,
        shared: RoleMemory,
        thread: Index,
        threads: int,
        values: dict[SSAValue, SSAValue],
    ):
        self.nest, self.shared, self.builder = nest, shared, shared.builder
        self.kernel = Kernel(shared.builder, threads, thread, dict(values))

    def begin(self) -> None:
        """Cursors at the first stages."""
        self.cursors = {
            pipe: Cursor(self.builder, pipe.stages, parity=self.parity)
            for pipe in self.shared.pipes
        }

    def each_tile(self) -> None:
        """The tiles of queries of this block, one after the other."""
        builder, loops = self.builder, _grid(self.nest.body.block)
        launched = self.nest.attributes[GRID_SIZE]
        assert isinstance(launched, IntegerAttr)
        blocks = launched.value.data
        counts = [loop.trip_count for loop in loops]
        total = 1
        for count in counts:
            total *= count

        def one(tile: Index) -> None:
            for loop, position in zip(loops, delinearize(tile, counts), strict=True):
                self.kernel.ivs[loop.induction_variable] = position * loop.step.value.data
            self.body(self.nest.body.block)

        if total == 1:
            one(Index())
            return
        block = builder.add(BlockIdOp(_X)).result
        block.name_hint = "block"
        if total == blocks:
            one(of_value(block, total))
            return
        self._repeat(total, lambda tile: one(of_value(tile, total)), step=blocks, first=block)

    def _repeat(
        self, count: int, turn: Callable[[SSAValue], None], *, step: int = 1,
        first: SSAValue | None = None,
    ) -> None:  # fmt: skip
        def body(position: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            turn(position)
            return ()

        self.builder.loop(count, body, step=step, first=first, changing=self.written())

    def written(self) -> Collection[SSAValue]:
        """Register buffers that a turn of a loop may write."""
        return [each for cursor in self.cursors.values() for each in cursor.buffers]

    def body(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        """Emit this role's part of an op."""
        match op:
            case memref.AllocOp() | func.ReturnOp():
                pass
            case PositionsOp():
                self.kernel.values[op.memref] = op.memref
            case ForOp() if op.level.data == "grid":
                self.body(op.body.block)
            case ForOp():
                self._loop(op)
            case ComputeOp():
                self.builder.location = op.location
                self.leaf(op)
            case _:
                lower_point(op, self.kernel, self.body)

    def _loop(self, loop: ForOp) -> None:
        count, step = loop.trip_count, loop.step.value.data

        def turn(position: Index) -> None:
            self.kernel.ivs[loop.induction_variable] = position * step
            self.body(loop.body.block)

        if count == 1:
            turn(Index())
        elif count:
            self._repeat(count, lambda position: turn(of_value(position, count)))

    def leaf(self, op: ComputeOp) -> None:
        """Emit this role's part of a leaf."""
        raise NotImplementedError


class Producer(Role):
    """Copies, all started by one thread of one warp."""

    parity = True

    def run(self) -> None:
        builder = self.builder

        def copy_all() -> None:
            for each in self.shared.maps.values():
                builder.add(TensorMapPrefetchOp(each))
            self.begin()
            self.each_tile()

        def elect() -> None:
            builder.when(builder.add(ElectOp()).pred, copy_all)

        builder.when(builder.within(self.kernel.thread, WARP_SIZE), elect)

    def op(self, op: Operation) -> None:
        # Of loops and branches, those that bring something.
        if not op.regions or isinstance(op, ComputeOp) or self._copies(op):
            super().op(op)

    def _copies(self, op: Operation) -> bool:
        return any(copy in self._all_copies() for copy in op.walk())

    def _all_copies(self) -> set[Operation]:
        return {copy for pipe in self.shared.pipes for copy in pipe.copies}

    def leaf(self, op: ComputeOp) -> None:
        pipe = next((pipe for pipe in self.shared.pipes if op in pipe.copies), None)
        if pipe is None:
            return
        builder, shared, cursor = self.builder, self.shared, self.cursors[pipe]
        stage, full = cursor.stage(), cursor.stage() + pipe.barrier
        shared.wait(full + pipe.stages, cursor.parity())
        number = builder.index(full)
        size = builder.number(pipe.stage_bytes, IndexType())
        builder.add(BarrierExpectOp(shared.barriers, number, size))
        symbols = [self.kernel.ivs[iv] for iv in op.ivs]
        for offset, place in pipe.boxes(op, symbols):
            tile = shared.view(pipe, stage, Index((), offset), pipe.tensor_map().tensor)
            coordinates = [builder.index(each) for each in place]
            load = TensorLoadOp(shared.maps[pipe], coordinates, shared.barriers, number, tile)
            builder.add(load)
        cursor.advance()


def _grid(body: Block) -> list[ForOp]:
    """The chain of grid loops; the innermost one holds the tile's ops."""
    found: list[ForOp] = []
    while loop := next((op for op in body.ops if _is_grid(op)), None):
        assert isinstance(loop, ForOp)
        found.append(loop)
        body = loop.body.block
    return found


def _is_grid(op: Operation) -> bool:
    return isinstance(op, ForOp) and op.level.data == "grid"
