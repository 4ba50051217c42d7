"""A running fold that the threads of a block share: a loop in order as a block scan.

::

    chunk of threads × width elements
      thread   folds its own neighbours:   x0  x0+x1  x0+x1+x2  …
      warp     scans the totals of its lanes by shuffles upwards
      block    folds the totals of the warps before, from shared memory
      carry    what all chunks before came to

Each element is the carry, joined with the warps, lanes and neighbours before it, in this order
whatever the run: results are the same bits every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, StringAttr, i64
from xdsl.dialects.gpu import BarrierOp
from xdsl.ir import SSAValue

from wia_compiler.backends.gpu.architecture import WARP_SIZE
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.exchange import lane_before
from wia_compiler.backends.gpu.index import Index, of_value
from wia_compiler.backends.gpu.leaf import Kernel, Leaf, combine, identity_of
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.tile_rewrites import leaves_of

SCAN = "wia.scan"
"""Attribute of a serial loop that a block runs as a scan: neighbours that a thread takes."""


def scan_width(loop: ForOp) -> int | None:
    """Neighbours that a thread takes of a loop that is run as a scan; ``None`` for another."""
    noted = loop.attributes.get(SCAN)
    return noted.value.data if isinstance(noted, IntegerAttr) else None


def mark_scan(loop: ForOp, width: int) -> None:
    """Let the block run a loop as a scan."""
    loop.attributes[SCAN] = IntegerAttr(width, i64)


def scan_leaves(loop: ForOp) -> tuple[ComputeOp, list[ComputeOp]] | None:
    """The fold of a scan and what it does with each result, where a loop is one.

    That is a loop in order whose first leaf folds one point into a register, and whose others are
    maps over the same point.
    """
    ops = list(loop.body.block.ops)
    leaves = [op for op in ops if isinstance(op, ComputeOp)]
    if len(leaves) != len(ops) or len(leaves_of(loop)) != len(leaves) or len(leaves) < 2:
        return None
    fold, *maps = leaves
    one_point = all(size == 1 for leaf in leaves for size in leaf.sizes)
    if not one_point or not fold.folds or fold.is_ordered or any(leaf.folds for leaf in maps):
        return None
    if len(fold.outputs) != 1 or identity_of(fold, 0) is None:
        return None
    if fold.outputs[0] in fold.inputs or any(fold.outputs[0] in leaf.outputs for leaf in maps):
        return None
    return fold, maps


def lower_scan(loop: ForOp, kernel: Kernel, width: int) -> None:
    """Emit a marked loop: whole chunks in a loop, then a last one whose elements are asked for."""
    found = scan_leaves(loop)
    assert found is not None, "a schedule marks only loops that are scans"
    _Scan(loop, found[0], found[1], kernel, width).run()


class _Scan:
    """One scan in the making; ``step`` is the number of elements of a chunk."""

    def __init__(
        self, loop: ForOp, fold: ComputeOp, maps: Sequence[ComputeOp], kernel: Kernel, width: int
    ):
        self.loop, self.fold, self.maps = loop, fold, maps
        self.kernel, self.builder = kernel, kernel.builder
        self.width = width
        self.step = kernel.threads * width
        self.warps = kernel.threads // WARP_SIZE
        buffer = kernel.values[fold.outputs[0]]
        self.type = element_type(buffer)
        identity = identity_of(fold, 0)
        assert identity is not None and kernel.threads % WARP_SIZE == 0
        self.identity = self.builder.number(identity, self.type)
        space = MemRefType(self.type, [self.warps], memory_space=StringAttr("shared"))
        self.scratch = self.builder.at_entry(memref.AllocOp([], [], space)).memref

    def run(self) -> None:
        builder = self.builder
        count = self.loop.trip_count
        whole = count // self.step * self.step
        carry: SSAValue = self._held()

        def body(base: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            first = of_value(base, whole - self.step + 1)
            return [self._chunk(first, carried[0], None)]

        if whole:
            (carry,) = builder.loop(whole, body, step=self.step, carried=[carry])
        if whole < count:
            carry = self._chunk(Index((), whole), carry, count)
        self._hold(carry)

    def _held(self) -> SSAValue:
        leaf = self._leaf(self.fold, Index())
        return self.builder.load(leaf.outputs[0], self._place(leaf))

    def _place(self, leaf: Leaf) -> tuple[Index, ...]:
        return leaf.output_place(0, [Index()] * len(leaf.sizes))

    def _leaf(self, op: ComputeOp, position: Index) -> Leaf:
        """A leaf at one element of the loop."""
        self.kernel.ivs[self.loop.induction_variable] = position * self.loop.step.value.data
        return Leaf(op, self.kernel)

    def _chunk(self, first: Index, carry: SSAValue, count: int | None) -> SSAValue:
        """One chunk; the carry behind it. ``count`` ends a partial one."""
        own_first = first + self.kernel.thread * self.width
        positions = [own_first + number for number in range(self.width)]
        running = self._own(positions, count)
        before, total = self._of_block(running[-1])
        start = self._join(carry, before)
        results = [self._join(start, each) for each in running]
        self._write(positions, results, count)
        return self._join(carry, total)

    def _join(self, left: SSAValue, right: SSAValue) -> SSAValue:
        return combine(self._leaf(self.fold, Index()), 0, left, right)

    def _own(self, positions: Sequence[Index], count: int | None) -> list[SSAValue]:
        """What the elements of a thread come to, from the first to each of them."""
        inputs = range(len(self.fold.inputs))
        axes = [Index()] * len(self.fold.sizes)

        def together() -> Sequence[SSAValue]:
            leaves = [self._leaf(self.fold, position) for position in positions]
            elements = [[leaf.read(number, axes) for number in inputs] for leaf in leaves]
            return [
                leaf.compute([*each, self.identity])[0]
                for leaf, each in zip(leaves, elements, strict=True)
            ]

        def apart() -> Sequence[SSAValue]:
            values: list[SSAValue] = []
            for position in positions:
                leaf = self._leaf(self.fold, position)
                asked = self.builder.all_of([self._inside(position, count), leaf.condition(axes)])

                def one(leaf: Leaf = leaf) -> Sequence[SSAValue]:
                    read = [leaf.read(number, axes) for number in inputs]
                    return leaf.compute([*read, self.identity])

                if asked is None:
                    values += one()
                else:
                    values += self.builder.either(asked, one, lambda: [self.identity])
            return values

        everywhere = self._everywhere(positions, count, [self.fold])
        if everywhere is None:
            values = together()
        else:
            values = self.builder.either(everywhere, together, apart)
        running = [values[0]]
        for value in values[1:]:
            running.append(self._join(running[-1], value))
        return running

    def _everywhere(
        self, positions: Sequence[Index], count: int | None, ops: Sequence[ComputeOp]
    ) -> SSAValue | None:
        """Whether all of a thread's elements take part; ``None`` where they always do.

        Bounds grow with the position: the first and the last one tell of all.
        """
        asked: list[SSAValue | None] = []
        for position in (positions[0], positions[-1]):
            asked.append(self._inside(position, count))
            for op in ops:
                leaf = self._leaf(op, position)
                asked.append(leaf.condition([Index()] * len(leaf.sizes)))
        return self.builder.all_of(asked)

    def _inside(self, position: Index, count: int | None) -> SSAValue | None:
        return None if count is None else self.builder.within(position, count)

    def _of_block(self, own: SSAValue) -> tuple[SSAValue, SSAValue]:
        """What the threads before this one come to, and what all of them do."""
        builder = self.builder
        lane = self.kernel.thread.modulo(WARP_SIZE)
        inclusive = own
        distance = 1
        while distance < WARP_SIZE:
            lower = lane_before(builder, inclusive, distance)
            there = builder.within(lane + -distance, WARP_SIZE)
            joined = self._join(lower, inclusive)
            inclusive = self._select(there, joined, inclusive)
            distance *= 2
        exclusive = self._select(
            builder.within(lane + -1, WARP_SIZE), lane_before(builder, inclusive, 1), self.identity
        )
        warp = self.kernel.thread.floor_divide(WARP_SIZE)
        builder.add(BarrierOp())
        builder.when(
            builder.within(lane + -(WARP_SIZE - 1), 1),
            lambda: builder.store(inclusive, self.scratch, [warp]),
        )
        builder.add(BarrierOp())
        total: SSAValue | None = None
        before = self.identity
        for number in range(self.warps):
            value = builder.load(self.scratch, [Index((), number)])
            total = value if total is None else self._join(total, value)
            later = builder.within(warp + -(number + 1), self.warps)
            before = self._select(later, total, before)
        assert total is not None
        return self._join(before, exclusive), total

    def _select(self, condition: SSAValue | None, yes: SSAValue, no: SSAValue) -> SSAValue:
        if condition is None:
            return yes
        return self.builder.add(arith.SelectOp(condition, yes, no)).result

    def _write(
        self, positions: Sequence[Index], results: Sequence[SSAValue], count: int | None
    ) -> None:
        """All results first, then all stores: neighbours are joined into one wide access."""
        builder = self.builder

        def together() -> Sequence[SSAValue]:
            made = [
                (leaf, leaf.compute(read))
                for position, result in zip(positions, results, strict=True)
                for leaf, read in self._read_with(position, result)
            ]
            for leaf, values in made:
                _store(leaf, values)
            return ()

        def apart() -> Sequence[SSAValue]:
            for position, result in zip(positions, results, strict=True):
                for op in self.maps:
                    leaf = self._leaf(op, position)
                    axes = [Index()] * len(leaf.sizes)
                    asked = builder.all_of([self._inside(position, count), leaf.condition(axes)])
                    builder.when(asked, lambda o=op, p=position, r=result: self._one_map(o, p, r))
            return ()

        everywhere = self._everywhere(positions, count, self.maps)
        if everywhere is None:
            together()
        else:
            builder.either(everywhere, together, apart)

    def _read_with(
        self, position: Index, result: SSAValue
    ) -> Iterator[tuple[Leaf, list[SSAValue]]]:
        """The maps at an element, and what each reads where the fold has come to ``result``."""
        for op in self.maps:
            leaf = self._leaf(op, position)
            yield leaf, self._read(leaf, result)

    def _read(self, leaf: Leaf, result: SSAValue) -> list[SSAValue]:
        axes = [Index()] * len(leaf.sizes)
        register = self.fold.outputs[0]
        return [
            result if value is register else leaf.read(number, axes)
            for number, value in enumerate(leaf.op.inputs)
        ]

    def _one_map(self, op: ComputeOp, position: Index, result: SSAValue) -> None:
        leaf = self._leaf(op, position)
        _store(leaf, leaf.compute(self._read(leaf, result)))

    def _hold(self, value: SSAValue) -> None:
        """Let the register of the fold hold a value, for maps that read it."""
        buffer = self.kernel.values[self.fold.outputs[0]]
        self.builder.store(value, buffer, self._place(self._leaf(self.fold, Index())))


def _store(leaf: Leaf, values: Sequence[SSAValue]) -> None:
    axes = [Index()] * len(leaf.sizes)
    for number, value in enumerate(values):
        leaf.builder.store(value, leaf.outputs[number], leaf.output_place(number, axes))
