"""From scheduled nests to kernels: ``tile`` → ``scf``, ``memref``, ``arith``, ``math`` and ``gpu``.

::

    func.func @nest(%x: memref<1000xf32>, …)          func.func @nest(…) attributes {gpu.kernel, …}
      tile.for %i0 in 1000 step 256 @grid               %b = gpu.block_id x
        tile.for %i1 in 256 step 1 @thread      →       %t = gpu.thread_id x
          tile.compute map … bounds i0 + i1 < 1000      %i = %b * 256 + %t
                                                        scf.if %i < 1000 { load, body, store }

The rules. Nested ``grid`` loops become one linear block index, nested ``thread`` loops one linear
thread index (``warp`` loops: of 32 threads each), the innermost loop running fastest. A leaf at
level ``block`` or ``warp`` is dealt out to its threads point by point; a ``thread`` leaf outside
thread loops is run by all threads and written by the first. Register buffers are stack slots with
constant indices, which LLVM makes registers; shared buffers are allocated once a kernel. Barriers
are placed by ``barriers``. The host function stays, for the launch plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, cast

from xdsl.dialects import func, gpu, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from wia_compiler.backends.gpu.architecture import MAX_GRID_X, WARP_SIZE
from wia_compiler.backends.gpu.async_loop import async_loop, lower_async_loop
from wia_compiler.backends.gpu.barriers import leaves_behind_barrier
from wia_compiler.backends.gpu.builder import Builder, element_type, shape_of
from wia_compiler.backends.gpu.distribute import distributed_buffers
from wia_compiler.backends.gpu.hopper_attention import is_warpgroup_attention
from wia_compiler.backends.gpu.hopper_attention_lower import lower_hopper_attention
from wia_compiler.backends.gpu.hopper_lower import lower_hopper
from wia_compiler.backends.gpu.hopper_schedule import WARP_SPECIALISED
from wia_compiler.backends.gpu.index import Index, of_value
from wia_compiler.backends.gpu.launch import BLOCK_SIZE, GRID_SIZE
from wia_compiler.backends.gpu.leaf import Kernel, Leaf
from wia_compiler.backends.gpu.leaf_chunks import (
    CHUNKS,
    copies_asynchronously,
    lower_chunks,
    wait_for_copies,
)
from wia_compiler.backends.gpu.leaf_fragment import lower_fragment_leaf, touches_fragment
from wia_compiler.backends.gpu.leaf_group import Group, lower_group_leaf
from wia_compiler.backends.gpu.leaf_mma import is_mma, lower_mma_leaf
from wia_compiler.backends.gpu.leaf_scan import lower_scan, scan_width
from wia_compiler.backends.gpu.leaf_thread import lower_thread_leaf
from wia_compiler.backends.gpu.lower_points import lower_point
from wia_compiler.backends.gpu.matrix_results import accumulators_of, lower_results
from wia_compiler.backends.gpu.memory_spaces import name_memory_spaces
from wia_compiler.backends.gpu.pipelined_loop import STAGES, lower_pipelined, pipelined
from wia_compiler.backends.gpu.shared_memory import place_shared_buffers
from wia_compiler.backends.gpu.swizzle import swizzle_of
from wia_compiler.backends.gpu.turned_bytes import pair_turned_bytes
from wia_compiler.backends.gpu.unread import remove_unread
from wia_compiler.backends.gpu.written_boxes import note_written_boxes
from wia_compiler.base.record import Level
from wia_compiler.dialects.gpu_ids import BlockIdOp, ThreadIdOp
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.dialects.tile_places import PositionsOp
from wia_compiler.passes.expand_math import ExpandOptions, expand_math
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.status_checks import lower_checks
from wia_compiler.passes.tile_rewrites import scope_of

BUFFER_ALIGNMENT = 16


@dataclass(frozen=True)
class LowerPass:
    """Every nest becomes a kernel.

    ``max_blocks`` is the largest grid: more is folded. ``expands_math`` replaces functions that PTX
    has no accurate instruction for by arithmetic.
    """

    max_blocks: int = MAX_GRID_X
    expands_math: bool = True

    name: ClassVar[str] = "lower"
    level: ClassVar[Level] = "low"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Rewrite each ``wia.nest`` function in place."""
        host = next(op for op in module.body.block.ops if "wia.host" in op.attributes)
        assert isinstance(host, func.FuncOp)
        for op in module.body.block.ops:
            if isinstance(op, func.FuncOp) and "wia.nest" in op.attributes:
                note_written_boxes(op)
                if is_warpgroup_attention(op):
                    lower_hopper_attention(op, host)
                elif WARP_SPECIALISED in op.attributes:
                    lower_hopper(op, host)
                else:
                    lower_nest(op, max_blocks=self.max_blocks)
        lower_checks(module, is_shared=True)
        dense = dense_arguments(module)
        for op in module.body.block.ops:
            if isinstance(op, func.FuncOp) and "gpu.kernel" in op.attributes:
                _declare_alignment(op, dense.get(op.sym_name.data, ()))
                pair_turned_bytes(op)
        if self.expands_math:
            expand_math(module, ExpandOptions(branches=True, remainders=True, approximates=True))


def lower_nest(nest: func.FuncOp, *, max_blocks: int = MAX_GRID_X) -> None:
    """Replace the body of a scheduled nest by that of a kernel.

    The attributes ``wia.block_size`` (set by the schedule, 1 where it is absent) and
    ``wia.grid_size`` (set here) say how to launch it.
    """
    _Lowering(nest, max_blocks).run()
    name_memory_spaces(nest)


class _Lowering:
    def __init__(self, nest: func.FuncOp, max_blocks: int):
        self.nest = nest
        self.max_blocks = max_blocks
        size = nest.attributes.get(BLOCK_SIZE)
        self.threads = size.value.data if isinstance(size, IntegerAttr) else 1
        self.leaves = [op for op in nest.walk() if isinstance(op, ComputeOp)]
        self.waiting = leaves_behind_barrier(nest.body.block)
        loops = [op for op in nest.walk() if isinstance(op, ForOp)]
        self.asynchronous = {loop: parts for loop in loops if (parts := async_loop(loop))}
        for parts in self.asynchronous.values():
            self.waiting -= {*parts.copies, *parts.rest}
        loops = [loop for loop in loops if loop not in self.asynchronous]
        self.pipelined = {loop: parts for loop in loops if (parts := pipelined(loop)) is not None}
        for parts in self.pipelined.values():
            self.waiting -= {*parts.copies, *parts.rest}
        self.staged = {value for parts in self.pipelined.values() for value in parts.buffers}

    def run(self) -> None:
        old = self.nest.body.block
        new = Block(arg_types=old.arg_types)
        for before, after in zip(old.args, new.args, strict=True):
            after.name_hint = before.name_hint
        builder = Builder(new, self.nest.location)
        thread = builder.add(ThreadIdOp(_X)).result
        thread.name_hint = "thread"
        self.kernel = Kernel(builder, self.threads, of_value(thread, self.threads))
        self.kernel.values.update(zip(old.args, new.args, strict=True))
        groups = {leaf: self._group(leaf).size for leaf in self.leaves}
        self.kernel.distributed = distributed_buffers(self.leaves, groups)
        blocks = self._grid(old, builder)
        builder.add(func.ReturnOp())
        remove_unread(new)
        self.nest.body.detach_block(old)
        old.drop_all_references()
        self.nest.body.add_block(new)
        place_shared_buffers(self.nest)
        self.nest.attributes["gpu.kernel"] = UnitAttr()
        self.nest.attributes[BLOCK_SIZE] = IntegerAttr(self.threads, i64)
        self.nest.attributes[GRID_SIZE] = IntegerAttr(blocks, i64)

    def _grid(self, body: Block, builder: Builder) -> int:
        """Emit the whole nest under its grid loops; the number of blocks to launch."""
        loops = _nested(body, "grid")
        total = prod(loop.trip_count for loop in loops)
        if total == 0:
            return 0
        launched = min(total, self.max_blocks)
        block = builder.add(BlockIdOp(_X)).result if launched > 1 else None
        if block is not None:
            block.name_hint = "block"

        def one(index: Index) -> None:
            self._place(loops, index)
            self._body(body)

        if block is None:
            one(Index())
        elif launched == total:
            one(of_value(block, total))
        else:
            # More blocks than a grid holds: each does every launched-th one in turn.
            builder.loop(
                total,
                lambda position, _: (one(of_value(position, total)), ())[1],
                step=launched,
                first=block,
            )
        return launched

    def _place(self, loops: list[ForOp], index: Index) -> None:
        """Induction variables of nested loops from one linear index, the last running fastest."""
        for loop in reversed(loops):
            count = loop.trip_count
            outermost = loop is loops[0]
            position = index if outermost else index.modulo(count)
            index = index if outermost else index.floor_divide(count)
            self.kernel.ivs[loop.induction_variable] = position * loop.step.value.data

    def _body(self, body: Block) -> None:
        for op in body.ops:
            match op:
                case memref.AllocOp():
                    self._allocate(op)
                case PositionsOp():
                    self.kernel.values[op.memref] = op.memref
                case ForOp():
                    self._loop(op)
                case ComputeOp():
                    self._leaf(op)
                case func.ReturnOp():
                    pass
                case _:
                    lower_point(op, self.kernel, self._body)

    def _allocate(self, op: memref.AllocOp) -> None:
        builder, buffer = self.kernel.builder, op.memref
        element, scope = element_type(buffer), scope_of(buffer)
        shape = list(shape_of(buffer))
        space = StringAttr(scope)
        if buffer in self.staged:
            shape[0] *= STAGES
        swizzle = swizzle_of(op, shape, size_bytes(element))
        if swizzle is not None:
            self.kernel.swizzles[buffer] = swizzle
            loops = [parts for parts in self.asynchronous.values() if buffer in parts.buffers]
            shape[0] *= max((parts.stages for parts in loops), default=1)
        if scope == "shared":
            made: memref.AllocOp | memref.AllocaOp = memref.AllocOp(
                [], [], MemRefType(element, shape, memory_space=space)
            )
        else:
            layout = self.kernel.distributed.get(buffer)
            shape = shape if layout is None else [layout.slots]
            made = memref.AllocaOp.get(element, None, shape, memory_space=space)
        made.memref.name_hint = buffer.name_hint
        self.kernel.values[buffer] = builder.at_entry(made).memref

    def _loop(self, loop: ForOp) -> None:
        match loop.level.data:
            case "grid":
                self._body(loop.body.block)
            case "warp" | "thread":
                self._parallel(loop)
            case _:
                width = scan_width(loop)
                if width is None:
                    self._serial(loop)
                else:
                    lower_scan(loop, self.kernel, width)

    def _serial(self, loop: ForOp) -> None:
        step, count = loop.step.value.data, loop.trip_count
        builder, ivs = self.kernel.builder, self.kernel.ivs
        builder.location = loop.location
        if loop in self.asynchronous:
            tiles = self.asynchronous[loop]
            for buffer in tiles.allocations:
                self._allocate(buffer)
            lower_async_loop(tiles, self.kernel, self._leaf, changing=self._written_in(loop))
            return
        if loop in self.pipelined:
            parts = self.pipelined[loop]
            lower_pipelined(parts, self.kernel, self._leaf, changing=self._written_in(loop))
            return
        if count <= 1:
            ivs[loop.induction_variable] = Index()
            if count:
                self._body(loop.body.block)
            return

        def turn(position: SSAValue) -> None:
            position.name_hint = loop.induction_variable.name_hint
            ivs[loop.induction_variable] = of_value(position, count) * step
            self._body(loop.body.block)

        builder.repeat(count, turn, changing=self._written_in(loop))

    def _written_in(self, loop: ForOp) -> list[SSAValue]:
        """Register buffers made outside a loop that leaves inside it write."""
        leaves = [op for op in loop.walk() if isinstance(op, ComputeOp)]
        values = {value: None for leaf in leaves for value in leaf.outputs}
        known = [value for value in values if scope_of(value) == "register"]
        return [self.kernel.values[value] for value in known if value in self.kernel.values]

    def _parallel(self, loop: ForOp) -> None:
        """A loop that the threads of a block are: its index comes from the thread's."""
        level = loop.level.data
        inner = _inner_count(loop, level)
        within_warp = level == "thread" and _is_inside(loop, "warp")
        if level == "warp":
            index, available = self.kernel.thread.floor_divide(WARP_SIZE), self.threads // WARP_SIZE
        elif within_warp:
            index, available = self.kernel.thread.modulo(WARP_SIZE), WARP_SIZE
        else:
            index, available = self.kernel.thread, self.threads
        index = index.floor_divide(inner)
        if _is_inside(loop, level):
            index = index.modulo(loop.trip_count)
        elif inner * loop.trip_count != available:
            raise AssertionError(
                f"{inner * loop.trip_count} {level} iterations for {available} of a block"
            )
        self.kernel.ivs[loop.induction_variable] = index * loop.step.value.data
        self._body(loop.body.block)

    def _group(self, leaf: ComputeOp) -> Group:
        thread = self.kernel.thread
        match leaf.level.data:
            case "block":
                return Group(self.threads, thread, True)
            case "warp":
                return Group(WARP_SIZE, thread.modulo(WARP_SIZE), False)
            case _:
                return Group(1, Index(), False)

    def _wait_for_copies(self) -> None:
        """Before a barrier: tiles that are on their way are there behind it."""
        if any(map(copies_asynchronously, self.leaves)):
            wait_for_copies(self.kernel.builder)

    def _leaf(self, op: ComputeOp) -> None:
        builder = self.kernel.builder
        builder.location = op.location
        if op in self.waiting:
            self._wait_for_copies()
            builder.add(gpu.BarrierOp())
        leaf = Leaf(op, self.kernel)
        if CHUNKS in op.attributes:
            lower_chunks(op, self.kernel)
            return
        if is_mma(op) and not any(value in self.kernel.distributed for value in op.inputs):
            lower_mma_leaf(leaf)
            return
        accumulators = accumulators_of(op, self.kernel)
        if accumulators is not None:
            self._wait_for_copies()
            lower_results(leaf, accumulators)
            return
        if touches_fragment(op, self.kernel):
            lower_fragment_leaf(leaf)
            return
        if op.level.data != "thread":
            lower_group_leaf(leaf, self._group(op))
            return
        alone = None
        if not _is_inside(op, "thread"):
            in_warp = _is_inside(op, "warp")
            member = self.kernel.thread.modulo(WARP_SIZE) if in_warp else self.kernel.thread
            alone = builder.within(member, 1)
        lower_thread_leaf(leaf, stores_if=alone)


def dense_arguments(module: ModuleOp) -> dict[str, tuple[bool, ...]]:
    """For each nest, whether what every call passes lies in a dense buffer from its start on.

    Views of a dense buffer begin where it begins, whatever their strides are.
    """
    found: dict[str, tuple[bool, ...]] = {}
    hosts = [op for op in module.body.block.ops if "wia.host" in op.attributes]
    for call in [op for host in hosts for op in host.walk() if isinstance(op, func.CallOp)]:
        name, dense = call.callee.string_value(), tuple(map(_is_dense, call.arguments))
        before = found.get(name, dense)
        found[name] = tuple(old and new for old, new in zip(before, dense, strict=True))
    return found


def _is_dense(value: SSAValue) -> bool:
    while isinstance(value.owner, memref.ReinterpretCastOp):
        value = value.owner.source
    type = value.type
    if not isinstance(type, MemRefType):
        return False
    return isinstance(cast("MemRefType[Attribute]", type).layout, NoneAttr)


def _declare_alignment(kernel: func.FuncOp, dense: Sequence[bool]) -> None:
    """Dense buffers begin at 16 bytes (the launcher sees to it), so neighbours can be joined."""
    aligned = DictionaryAttr({"llvm.align": IntegerAttr(BUFFER_ALIGNMENT, i64)})
    attributes = [aligned if each else DictionaryAttr({}) for each in dense]
    attributes += [DictionaryAttr({})] * (len(kernel.args) - len(attributes))
    kernel.arg_attrs = ArrayAttr(attributes)


_X = gpu.DimensionAttr(gpu.DimensionEnum.X)


def _nested(body: Block, level: str) -> list[ForOp]:
    """The chain of loops of one level, from the outermost in."""
    found: list[ForOp] = []
    while True:
        loops = [op for op in body.ops if isinstance(op, ForOp) and op.level.data == level]
        if not loops:
            return found
        if len(loops) > 1:
            raise AssertionError(f"{len(loops)} {level} loops stand side by side")
        found.append(loops[0])
        body = loops[0].body.block


def _inner_count(loop: ForOp, level: str) -> int:
    """Iterations of the loops of one level nested inside a loop."""
    return prod(inner.trip_count for inner in _nested(loop.body.block, level))


def _is_inside(op: Operation, level: str) -> bool:
    """Whether a loop of that level stands around an op."""
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, ForOp) and parent.level.data == level:
            return True
        parent = parent.parent_op()
    return False
