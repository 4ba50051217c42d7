"""The role that multiplies: products started by a warpgroup, and the arithmetic of fragments.

A product is waited for where its sums, or the tile it reads, are needed next::

    contract scores      wgmma …, commit              started
    contract sums        wgmma …, commit              started
    map scores           wait 1                       the first is done; its tile is given back
    map sums             wait 0
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import takewhile

from xdsl.dialects import memref, scf, vector
from xdsl.dialects.builtin import (
    StringAttr,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from wia_compiler.backends.gpu.architecture import WARP_SIZE
from wia_compiler.backends.gpu.builder import element_type, shape_of
from wia_compiler.backends.gpu.hopper_pipes import Pipe
from wia_compiler.backends.gpu.hopper_product import is_zero_fill
from wia_compiler.backends.gpu.hopper_results import lower_hopper_results
from wia_compiler.backends.gpu.hopper_roles import Role
from wia_compiler.backends.gpu.hopper_schedule import WARPGROUP_THREADS
from wia_compiler.backends.gpu.index import Index
from wia_compiler.backends.gpu.layouts import accumulator_layout
from wia_compiler.backends.gpu.leaf import Leaf
from wia_compiler.backends.gpu.leaf_fragment import lower_fragment_leaf
from wia_compiler.dialects.nvgpu import fragment_type
from wia_compiler.dialects.nvgpu_hopper import (
    BarrierArriveOp,
)
from wia_compiler.dialects.nvgpu_warpgroup import (
    LEFT_REGISTERS,
    GenerateDescriptorOp,
    InitAccumulatorOp,
    LoadAccumulatorOp,
    StoreAccumulatorOp,
    WarpgroupMmaOp,
    WarpgroupMmaRegistersOp,
)
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.dialects.vector_elements import FromElementsOp
from wia_compiler.passes.tile_rewrites import scope_of

STEP_SLOTS = 8
"""Weights of a thread that one step of a product takes: of 16 rows and 16 keys a warp."""
_WORDS = VectorType(i32, [LEFT_REGISTERS, 1])
"""What a thread has of a step of a left operand."""


@dataclass(frozen=True)
class _Started:
    """A product on its way to ``buffer``, which reads ``tiles`` and ``held`` registers.

    ``empties`` are barriers to arrive at once it is done: those of stages that it was the last to
    read.
    """

    buffer: SSAValue
    accumulator: SSAValue
    tiles: tuple[SSAValue, ...]
    held: tuple[SSAValue, ...]
    empties: list[SSAValue] = field(default_factory=list[SSAValue])


class Consumer(Role):
    """Products and all that is worked out of them, 64 rows in each warpgroup."""

    parity = False

    def run(self) -> None:
        builder, kernel = self.builder, self.kernel
        self.begin()
        self.started: list[_Started] = []
        self.slots: list[SSAValue] = []
        self.fragments: dict[SSAValue, SSAValue] = {}
        for op in self.nest.walk():
            if isinstance(op, memref.AllocOp) and scope_of(op.memref) == "register":
                self._allocate(op)
        self.waits: dict[Operation, list[Pipe]] = {}
        self.releases: dict[Operation, list[Pipe]] = {}
        for pipe in self.shared.pipes:
            for copy in pipe.copies:
                users = _users(copy, pipe)
                self.waits.setdefault(users[0], []).append(pipe)
                self.releases.setdefault(users[-1], []).append(pipe)
        self.warpgroup = kernel.thread.floor_divide(WARPGROUP_THREADS)
        self.announces = builder.within(kernel.thread.modulo(WARP_SIZE), 1)
        self.each_tile()

    def _allocate(self, op: memref.AllocOp) -> None:
        """Slots of a buffer that lies across the consumers' threads."""
        layout = accumulator_layout(op)
        assert layout is not None
        fragment = layout.of(shape_of(op.memref))
        slots = memref.AllocaOp.get(
            element_type(op.memref), None, [fragment.slots], memory_space=StringAttr("register")
        )
        slots.memref.name_hint = op.memref.name_hint
        self.kernel.distributed[op.memref] = fragment
        self.kernel.values[op.memref] = self.builder.at_entry(slots).memref
        self.slots.append(slots.memref)
        if any(_is_left(use.operation, op.memref) for use in op.memref.uses):
            steps = fragment.slots // STEP_SLOTS
            packed = memref.AllocaOp.get(_WORDS, None, [steps], memory_space=StringAttr("register"))
            packed.memref.name_hint = f"{op.memref.name_hint}_words"
            self.fragments[op.memref] = self.builder.at_entry(packed).memref
            self.slots.append(packed.memref)

    def written(self) -> Collection[SSAValue]:
        return [*super().written(), *self.slots]

    def body(self, block: Block) -> None:
        """A block's ops; what it started is done at its end, what runs beside it may go on."""
        running = len(self.started)
        for op in block.ops:
            if isinstance(op, scf.YieldOp) and len(self.started) > running:
                self._finish(len(self.started))
            self.op(op)
        if len(self.started) > running:
            self._finish(len(self.started))

    def op(self, op: Operation) -> None:
        if op.regions and not isinstance(op, ComputeOp):
            # Products inside would have to be waited for together with those outside.
            self._finish_touched(op)
            if any(
                isinstance(each, ComputeOp) and each.kind.data == "contract" for each in op.walk()
            ):
                self._finish(len(self.started))
        for pipe in self.waits.get(op, ()):
            cursor = self.cursors[pipe]
            self.shared.wait(cursor.stage() + pipe.barrier, cursor.parity())
        super().op(op)
        for pipe in self.releases.get(op, ()):
            self._release(pipe)

    def _release(self, pipe: Pipe) -> None:
        """Its stage has been read by this warp, once the products that read it are done."""
        cursor = self.cursors[pipe]
        empty = self.builder.index(cursor.stage() + (pipe.barrier + pipe.stages))
        readers = [each for each in self.started if pipe.buffer in each.tiles]
        if readers:
            readers[-1].empties.append(empty)
        else:
            self._arrive(empty)
        cursor.advance()

    def _arrive(self, barrier: SSAValue) -> None:
        def arrive() -> None:
            self.builder.add(BarrierArriveOp(self.shared.barriers, barrier))

        self.builder.when(self.announces, arrive)

    def leaf(self, op: ComputeOp) -> None:
        if any(op in pipe.copies for pipe in self.shared.pipes) or _is_start(op):
            return
        if op.kind.data == "contract":
            self._multiply(op)
            return
        self._finish_touched(op)
        leaf = Leaf(op, self.kernel)
        if not scope_of(op.outputs[0]):
            lower_hopper_results(leaf)
            return
        lower_fragment_leaf(leaf)
        if op.outputs[0] in self.fragments:
            self._pack(op.outputs[0])

    def _multiply(self, op: ComputeOp) -> None:
        """Start a product; its sums begin with 0 where they were just set to it."""
        builder, sums = self.builder, op.outputs[0]
        self._finish_touched(op)
        slots, columns = self.kernel.values[sums], shape_of(sums)[1]
        before = op.prev_op
        if isinstance(before, ComputeOp) and _is_start(before):
            total = builder.add(InitAccumulatorOp(columns, element_type(sums))).matrixC
        else:
            total = builder.add(LoadAccumulatorOp(slots, columns)).matrixC
        left, right = op.inputs
        turned = op.axis_names[1] in _last_axis(op, 1)
        b = self._descriptor(right, Index())
        held: tuple[SSAValue, ...] = ()
        if left in self.kernel.distributed:
            held = self._weights(left)
            made = WarpgroupMmaRegistersOp(held, b, total, transpose_b=turned)
            total = builder.add(made).matrixD
        else:
            a = self._descriptor(left, self.warpgroup)
            product = WarpgroupMmaOp(a, b, total, transpose_b=turned, wait_group=None)
            total = builder.add(product).matrixD
        self.started.append(_Started(sums, total, tuple(op.inputs), held))

    def _descriptor(self, tile: SSAValue, part: Index) -> SSAValue:
        (pipe,) = [pipe for pipe in self.shared.pipes if pipe.buffer is tile]
        stage, type = self.cursors[pipe].stage(), pipe.part_type()
        view = self.shared.view(pipe, stage, part * pipe.part_bytes, type)
        return self.builder.add(GenerateDescriptorOp(view, type)).descriptor

    def _pack(self, buffer: SSAValue) -> None:
        """Put a left operand that was just made into the registers that products read.

        It lies as sums do: two tiles of 8 columns are a step of it. Two elements share a register
        from here on, also where a loop passes them on.
        """
        builder, slots, fragments = self.builder, self.kernel.values[buffer], self.fragments[buffer]
        type: VectorType[Attribute] = fragment_type(element_type(buffer), LEFT_REGISTERS)
        for step in range(shape_of(fragments)[0]):
            numbers = range(step * STEP_SLOTS, (step + 1) * STEP_SLOTS)
            values = [builder.load(slots, (Index((), n),)) for n in numbers]
            made = builder.add(FromElementsOp(values, type)).dest
            words = builder.add(vector.BitcastOp(made, _WORDS)).result
            builder.store(words, fragments, (Index((), step),))

    def _weights(self, buffer: SSAValue) -> tuple[SSAValue, ...]:
        """The steps of a left operand in registers."""
        builder, fragments = self.builder, self.fragments[buffer]
        type: VectorType[Attribute] = fragment_type(element_type(buffer), LEFT_REGISTERS)
        made: list[SSAValue] = []
        for step in range(shape_of(fragments)[0]):
            words = builder.load(fragments, (Index((), step),))
            made.append(builder.add(vector.BitcastOp(words, type)).result)
        return tuple(made)

    def _finish_touched(self, op: Operation) -> None:
        """Wait for the products whose sums an op, or what stands in it, touches."""
        leaves = [each for each in op.walk() if isinstance(each, ComputeOp)]
        touched = {value for leaf in leaves for value in (*leaf.inputs, *leaf.outputs)}
        waited = [n for n, each in enumerate(self.started) if each.buffer in touched]
        self._finish(max(waited, default=-1) + 1)

    def _finish(self, count: int) -> None:
        """Wait for the ``count`` oldest products; their sums are in their slots then."""
        for _ in range(count):
            each = self.started.pop(0)
            slots = self.kernel.values[each.buffer]
            running = len(self.started)
            done = StoreAccumulatorOp(each.accumulator, slots, wait_group=running, held=each.held)
            self.builder.add(done)
            self.builder.forget(slots)
            for empty in each.empties:
                self._arrive(empty)


def _is_start(op: ComputeOp) -> bool:
    """Whether a leaf sets sums to 0 for the product right behind it."""
    product = op.next_op
    if not isinstance(product, ComputeOp) or product.kind.data != "contract":
        return False
    return not op.inputs and op.outputs[0] is product.outputs[0] and is_zero_fill(op)


def _users(copy: ComputeOp, pipe: Pipe) -> list[Operation]:
    """The ops behind a copy, in its block, that read its tile before it is filled again."""
    behind: list[Operation] = []
    op = copy.next_op
    while op is not None:
        behind.append(op)
        op = op.next_op
    others = set(pipe.copies)
    until = takewhile(lambda each: others.isdisjoint(each.walk()), behind)
    return [each for each in until if _reads(each, pipe.buffer)]


def _is_left(op: Operation, buffer: SSAValue) -> bool:
    """Whether an op is a product whose left operand a buffer is."""
    return isinstance(op, ComputeOp) and op.kind.data == "contract" and op.inputs[0] is buffer


def _reads(op: Operation, tile: SSAValue) -> bool:
    return any(isinstance(each, ComputeOp) and tile in each.inputs for each in op.walk())


def _last_axis(op: ComputeOp, number: int) -> set[str]:
    """The axes along which an operand is dense."""
    return {op.axis_names[axis] for axis in op.input_maps[number].results[-1].used_dims()}
