"""Products by warpgroups with roles: one brings tiles by tensor maps, the others multiply them.

::

    if warpgroup is the last:                           producer: gives registers away
      one thread, for each tile of this block, for each step of the fold:
        wait empty[stage]                               until its last readers are done
        expect full[stage], copy A and B to the stage
    else:                                               consumers: 64 rows each
      for each tile of this block:
        for each step of the fold:
          wait full[stage]
          sums += A B                                   started; the step before it is done now
          arrive empty[stage before]                    one thread of each warp
        wait for the last product, arrive, and write what the maps of the nest make of the sums

Stages go round, and the parity of a barrier's phase is that of the round. A block takes every n-th
tile where there are more tiles than SMs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, func, gpu, memref
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    UnitAttr,
    UnrankedMemRefType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, SSAValue

from wia_compiler.backends.gpu.architecture import WARP_SIZE
from wia_compiler.backends.gpu.builder import Builder, element_type
from wia_compiler.backends.gpu.hopper_nest import TileOperand, read_nest, register_type
from wia_compiler.backends.gpu.hopper_order import tile_places
from wia_compiler.backends.gpu.hopper_results import lower_hopper_results
from wia_compiler.backends.gpu.hopper_schedule import WARPGROUP_ROWS, WARPGROUP_THREADS
from wia_compiler.backends.gpu.index import Index, evaluate, of_value
from wia_compiler.backends.gpu.launch import BLOCK_SIZE, GRID_SIZE
from wia_compiler.backends.gpu.leaf import Kernel, Leaf
from wia_compiler.backends.gpu.memory_spaces import name_memory_spaces
from wia_compiler.dialects.gpu_dynamic_shared import DYNAMIC_SHARED_BYTES, DynamicSharedMemoryOp
from wia_compiler.dialects.gpu_ids import BlockIdOp, ThreadIdOp
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
    TensorMapCreateOp,
    TensorMapPrefetchOp,
)
from wia_compiler.dialects.nvgpu_hopper_types import TensorMapType
from wia_compiler.dialects.nvgpu_warpgroup import (
    GenerateDescriptorOp,
    InitAccumulatorOp,
    StoreAccumulatorOp,
    WarpgroupMmaOp,
)
from wia_compiler.passes.llvm.types import size_bytes

PRODUCER_REGISTERS = 40
CONSUMER_REGISTERS = {1: 240, 2: 232}
"""With so many consumers: 128 (40 + 2 · 232) are within an SM's 65536."""
WAIT_TICKS = 10_000_000
"""Nanoseconds after which a waiting thread looks again, at most."""
_X = gpu.DimensionAttr(gpu.DimensionEnum.X)
State = Sequence[SSAValue]
"""What a role keeps from one step to the next: the stage and the parity of its round, and more."""


def lower_hopper(nest: func.FuncOp, host: func.FuncOp) -> None:
    """Replace the body of a warp-specialised nest by a kernel's.

    The kernel takes the tensor maps of A and B behind the arrays of the nest; the host makes them
    before each call.
    """
    lowering = _Lowering(nest)
    maps = [(lowering.argument_of(each), each.tensor_map()) for each in lowering.operands]
    lowering.run()
    name_memory_spaces(nest)
    for call in [op for op in host.walk() if isinstance(op, func.CallOp)]:
        if call.callee.string_value() == nest.sym_name.data:
            pass_maps(call, maps)


def become_kernel(nest: func.FuncOp, new: Block, *, threads: int, shared_bytes: int) -> None:
    """Put the body of a kernel in the place of a nest's; ``shared_bytes`` are those of a block."""
    old = nest.body.block
    nest.body.detach_block(old)
    old.drop_all_references()
    nest.body.add_block(new)
    nest.update_function_type()
    nest.attributes["gpu.kernel"] = UnitAttr()
    nest.attributes[BLOCK_SIZE] = IntegerAttr(threads, i64)
    nest.attributes[DYNAMIC_SHARED_BYTES] = IntegerAttr(shared_bytes, i64)


def pass_maps(call: func.CallOp, maps: Sequence[tuple[int, TensorMapType]]) -> None:
    """Make tensor maps of some of a call's arrays, and pass them behind all of them.

    Each has the number of its array and the type of the map.
    """
    block = call.parent_block()
    assert block is not None
    made: list[SSAValue] = []
    for source, type in maps:
        array = call.arguments[source]
        element = type.tensor.element_type
        unranked = memref.CastOp.get(array, UnrankedMemRefType(element, NoneAttr()))
        sizes = [arith.ConstantOp(IntegerAttr(side, IndexType())) for side in type.box]
        box = [each.result for each in sizes]
        create = TensorMapCreateOp(unranked.dest, box, type)
        create.tensorMap.name_hint = _map_name(array)
        made.append(create.tensorMap)
        for op in (unranked, *sizes, create):
            op.location = call.location
            block.insert_op_before(op, call)
    new = func.CallOp(call.callee, [*call.arguments, *made], [])
    new.location = call.location
    block.insert_op_before(new, call)
    call.detach()
    call.erase()


def _map_name(array: SSAValue) -> str:
    return f"{array.name_hint or 'x'}_map"


class _Lowering:
    def __init__(self, nest: func.FuncOp):
        self.nest = nest
        self.parts = read_nest(nest)
        self.operands = (self.parts.a, self.parts.b)
        self.old = nest.body.block
        launched = nest.attributes[GRID_SIZE]
        assert isinstance(launched, IntegerAttr)
        self.blocks = launched.value.data
        self.threads = self.parts.consumer_threads + WARPGROUP_THREADS

    def argument_of(self, operand: TileOperand) -> int:
        """Which parameter of the nest an operand is a tile of."""
        source = operand.copy.inputs[0]
        assert isinstance(source, BlockArgument)
        return source.index

    def run(self) -> None:
        old = self.old
        new = Block(arg_types=[*old.arg_types, *(each.tensor_map() for each in self.operands)])
        for before, after in zip(old.args, new.args, strict=False):
            after.name_hint = before.name_hint
        self.maps = new.args[-2:]
        for operand, argument in zip(self.operands, self.maps, strict=True):
            argument.name_hint = _map_name(operand.copy.inputs[0])
        builder = self.builder = Builder(new, self.nest.location)
        self.thread = builder.add(ThreadIdOp(_X)).result
        self.thread.name_hint = "thread"
        self.kernel = Kernel(
            builder, self.parts.consumer_threads, of_value(self.thread, self.parts.consumer_threads)
        )
        self.kernel.values.update(zip(old.args, new.args, strict=False))
        self.barriers = builder.add(BarrierCreateOp(2 * self.parts.stages)).barriers
        self.memory = builder.add(DynamicSharedMemoryOp()).memory
        self._initialise_barriers()
        thread = of_value(self.thread, self.threads)
        is_consumer = builder.within(thread, self.parts.consumer_threads)
        assert is_consumer is not None
        builder.either(is_consumer, self._consume, self._produce)
        builder.add(func.ReturnOp())
        self._replace(new)

    def _replace(self, new: Block) -> None:
        shared = self.parts.stages * self.parts.stage_bytes
        become_kernel(self.nest, new, threads=self.threads, shared_bytes=shared)

    def _initialise_barriers(self) -> None:
        """Full stages are announced by one thread, empty ones by one of each consumer's warps."""
        builder, stages = self.builder, self.parts.stages
        warps = self.parts.consumer_threads // WARP_SIZE

        def initialise() -> None:
            for stage in range(stages):
                for first, arrivals in ((0, 1), (stages, warps)):
                    index, count = self._number(first + stage), self._number(arrivals)
                    builder.add(BarrierInitOp(self.barriers, index, count))
            builder.add(FenceBarrierInitOp())

        builder.when(builder.within(of_value(self.thread, self.threads), 1), initialise)
        builder.add(gpu.BarrierOp())

    def _number(self, value: int) -> SSAValue:
        return self.builder.number(value, IndexType())

    def _each_tile(self, state: State, body: Callable[[State], State]) -> None:
        """The tiles of this block, with the places of the loops over tiles set."""
        builder, parts = self.builder, self.parts
        total = parts.rows.trip_count * parts.columns.trip_count
        for loop in parts.batches:
            total *= loop.trip_count

        def one(tile: Index, state: State) -> State:
            self.kernel.ivs.update(tile_places(builder, parts, tile))
            return body(state)

        if self.blocks == 1 and total == 1:
            one(Index(), state)
            return
        block = builder.add(BlockIdOp(_X)).result if self.blocks > 1 else None
        if block is not None:
            block.name_hint = "block"
        if total == self.blocks:
            assert block is not None
            one(of_value(block, total), state)
            return
        builder.loop(
            total,
            lambda tile, carried: one(of_value(tile, total), carried),
            step=self.blocks,
            first=block,
            carried=state,
        )

    def _each_step(self, state: State, body: Callable[[Index, State], State]) -> State:
        """The steps of the fold, with the place of their loop set."""
        steps = self.parts.steps
        count, size = steps.trip_count, steps.step.value.data

        def one(position: Index, state: State) -> State:
            self.kernel.ivs[steps.induction_variable] = position * size
            return body(position, state)

        if count == 1:
            return one(Index(), state)
        return self.builder.loop(
            count, lambda position, carried: one(of_value(position, count), carried), carried=state
        )

    def _first(self, *, parity: bool) -> State:
        return [self._number(0), self.builder.number(int(parity), i1)]

    def _next(self, stage: SSAValue, parity: SSAValue) -> State:
        """The stage after this one; the parity changes where they begin again."""
        builder = self.builder
        more = builder.add(arith.AddiOp(stage, self._number(1))).result
        last = self._number(self.parts.stages)
        wraps = builder.add(arith.CmpiOp(more, last, "eq")).result
        following = builder.add(arith.SelectOp(wraps, self._number(0), more)).result
        following.name_hint = "stage"
        return [following, builder.add(arith.XOrIOp(parity, wraps)).result]

    def _view(self, stage: SSAValue, offset: Index, type: MemRefType[Attribute]) -> SSAValue:
        """A tile at an offset of a stage, in bytes."""
        place = of_value(stage, self.parts.stages) * self.parts.stage_bytes + offset
        shift = self.builder.index(place)
        view = memref.ViewOp.build(operands=[self.memory, shift, []], result_types=[type])
        return self.builder.add(view).result

    def _empty(self, stage: SSAValue) -> SSAValue:
        return self.builder.index(of_value(stage, self.parts.stages) + self.parts.stages)

    def _produce(self) -> Sequence[SSAValue]:
        """The last warpgroup: its first warp elects a thread that starts all copies."""
        builder = self.builder
        builder.add(SetMaxRegisterOp(PRODUCER_REGISTERS, decrease=True))
        member = of_value(self.thread, self.threads) + -self.parts.consumer_threads

        def elect() -> None:
            builder.when(builder.add(ElectOp()).pred, self._copy_tiles)

        builder.when(builder.within(member, WARP_SIZE), elect)
        return ()

    def _copy_tiles(self) -> None:
        for each in self.maps:
            self.builder.add(TensorMapPrefetchOp(each))
        self._each_tile(
            self._first(parity=True), lambda state: self._each_step(state, self._copy_step)
        )

    def _copy_step(self, position: Index, state: State) -> State:
        builder = self.builder
        stage, parity = state
        builder.location = self.parts.a.copy.location
        builder.add(
            BarrierWaitOp(self.barriers, self._empty(stage), parity, self._number(WAIT_TICKS))
        )
        expected = self._number(self.parts.stage_bytes)
        builder.add(BarrierExpectOp(self.barriers, stage, expected))
        for operand, tensor_map in zip(self.operands, self.maps, strict=True):
            self._copy(operand, tensor_map, stage)
        return self._next(stage, parity)

    def _copy(self, operand: TileOperand, tensor_map: SSAValue, stage: SSAValue) -> None:
        builder, copy = self.builder, operand.copy
        builder.location = copy.location
        symbols = [self.kernel.ivs[iv] for iv in copy.ivs]
        origin = [Index()] * len(copy.sizes)
        *outer, dense = (evaluate(e, origin, symbols) for e in copy.input_maps[0].results)
        type = operand.panel_type()
        panel_bytes = operand.size_bytes // operand.panels
        for panel in range(operand.panels):
            place = Index((), operand.offset + panel * panel_bytes)
            tile = self._view(stage, place, type)
            coordinates = [builder.index(e) for e in (*outer, dense + panel * operand.panel_rows)]
            builder.add(TensorLoadOp(tensor_map, coordinates, self.barriers, stage, tile))

    def _consume(self) -> Sequence[SSAValue]:
        builder, parts, kernel = self.builder, self.parts, self.kernel
        builder.add(SetMaxRegisterOp(CONSUMER_REGISTERS[parts.consumers]))
        layout = parts.layout()
        sums, element = parts.sums.memref, element_type(parts.sums.memref)
        kernel.distributed[sums] = layout
        slots = memref.AllocaOp.get(
            element, None, [layout.slots], memory_space=register_type(element, 1).memory_space
        )
        slots.memref.name_hint = sums.name_hint
        kernel.values[sums] = builder.at_entry(slots).memref
        self.warpgroup = kernel.thread.floor_divide(WARPGROUP_THREADS)
        self.announces = builder.within(kernel.thread.modulo(WARP_SIZE), 1)
        self._each_tile(self._first(parity=False), self._multiply_tile)
        return ()

    def _multiply_tile(self, state: State) -> State:
        builder, parts = self.builder, self.parts
        sums = parts.sums.memref
        zero = builder.add(InitAccumulatorOp(parts.b.rows, element_type(sums))).matrixC
        stage, parity, last, total = self._each_step([*state, state[0], zero], self._multiply_step)
        builder.add(StoreAccumulatorOp(total, self.kernel.values[sums]))
        self._release(last, self.announces)
        for leaf in parts.epilogue:
            builder.location = leaf.location
            lower_hopper_results(Leaf(leaf, self.kernel))
        return [stage, parity]

    def _multiply_step(self, position: Index, state: State) -> State:
        builder, parts = self.builder, self.parts
        stage, parity, before, total = state
        builder.location = parts.sums.location
        builder.add(BarrierWaitOp(self.barriers, stage, parity, self._number(WAIT_TICKS)))
        part = WARPGROUP_ROWS * parts.a.depth * size_bytes(parts.a.element)
        own = self.warpgroup * part + parts.a.offset
        a = self._descriptor(stage, own, parts.a.part_type(WARPGROUP_ROWS))
        b = self._descriptor(stage, Index((), parts.b.offset), parts.b.part_type(parts.b.rows))
        product = WarpgroupMmaOp(
            a, b, total, transpose_a=parts.a.transposed, transpose_b=parts.b.transposed
        )
        total = builder.add(product).matrixD
        # The product of the step before is done: its stage may be filled again.
        if not position.is_constant:
            zero = self._number(0)
            later = builder.add(arith.CmpiOp(builder.index(position), zero, "ne")).result
            self._release(before, builder.all_of([later, self.announces]))
        return [*self._next(stage, parity), stage, total]

    def _descriptor(self, stage: SSAValue, offset: Index, type: MemRefType[Attribute]) -> SSAValue:
        tile = self._view(stage, offset, type)
        return self.builder.add(GenerateDescriptorOp(tile, type)).descriptor

    def _release(self, stage: SSAValue, condition: SSAValue | None) -> None:
        """A stage has been read by this warp."""

        def arrive() -> None:
            self.builder.add(BarrierArriveOp(self.barriers, self._empty(stage)))

        self.builder.when(condition, arrive)
