"""A fold of several columns by one block: neighbouring threads read neighbouring columns.

::

    threads of a block:   row 0: columns 0 … 127    thread t takes 4 neighbours (``neighbours_of``
                          row 1: columns 0 … 127    the leaf) of rows t / 32, t / 32 + 8, …; the 8
                          …                         partial results of a column meet in shared
                          row 7: columns 0 … 127    memory, and are folded in the order of rows

Kept axes before the last one (the few rows of a small matrix that is multiplied by a large one) are
each thread's alone: what it reads of a column serves the results of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, StringAttr, i64
from xdsl.dialects.gpu import BarrierOp
from xdsl.ir import Attribute, SSAValue

from wia_compiler.backends.gpu.architecture import WARP_SIZE
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.exchange import exchange
from wia_compiler.backends.gpu.index import Index, delinearize, of_value
from wia_compiler.backends.gpu.leaf import Leaf, combine, identity_of
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import scope_of

BYTES_IN_FLIGHT = 32
"""What a thread has under way at a time: with 2048 threads on an SM, 64 KiB, twice what an H100
needs for its bandwidth at a latency of 600 ns."""
PRODUCT_BYTES = 64
"""The same for the matrix of a product, of which fewer threads are at work."""
MAX_UNROLL = 16
BANKS_BYTES = 128
"""What the banks of shared memory hold side by side."""
NEIGHBOURS = "wia.columns"

Values = Sequence[SSAValue]


def take_columns(leaf: ComputeOp, neighbours: int) -> None:
    """Let each thread of a fold of columns take so many that lie side by side."""
    leaf.attributes[NEIGHBOURS] = IntegerAttr(neighbours, i64)


def neighbours_of(leaf: ComputeOp) -> int:
    """Neighbouring columns that a thread folds."""
    noted = leaf.attributes.get(NEIGHBOURS)
    return noted.value.data if isinstance(noted, IntegerAttr) else 1


def fold_columns(leaf: Leaf, threads: int, member: Index) -> None:
    """Emit a fold with kept points of its own at level ``block``.

    The last kept axis is dealt out in runs of neighbours: run ``c`` of ``n`` is folded by the
    threads ``c + r * n``. Result ``p`` (kept axes linearised, the last fastest) lies with thread
    ``p % threads`` of a cyclic register buffer, in its slot ``p // threads``.
    """
    _Columns(leaf, threads, member).run()


class _Columns:
    """One such fold: ``groups`` threads stand side by side along the columns, in ``rows`` rows.

    Rows of one warp fold theirs by shuffles before the ``meeting`` ones go through shared memory.
    """

    def __init__(self, leaf: Leaf, threads: int, member: Index):
        self.leaf, self.builder = leaf, leaf.builder
        self.threads, self.member = threads, member
        self.width = neighbours_of(leaf.op)
        axes = list(zip(leaf.sizes, leaf.reductions, strict=True))
        self.kept = [size for size, folded in axes if not folded]
        self.folded = [size for size, folded in axes if folded]
        self.place = max(n for n, size in enumerate(self.kept) if size > 1)
        self.beside = prod(self.kept[: self.place])
        columns = self.kept[self.place]
        self.groups = columns // self.width
        self.rows = threads // self.groups
        if self.rows == 0 or columns % self.width:
            raise AssertionError(f"{columns} columns by {self.width} for {threads} threads")
        self.folds_warps = (
            self.groups & (self.groups - 1) == 0 and self.groups * self.rows == threads
        )
        self.folds_warps &= self.groups < WARP_SIZE <= threads
        self.meeting = threads // WARP_SIZE if self.folds_warps else self.rows
        self.row = member.floor_divide(self.groups)
        self.column = member.modulo(self.groups) * self.width
        self.inputs, self.outputs = range(len(leaf.inputs)), range(len(leaf.outputs))
        self.sums = list(product(*map(range, self.kept[: self.place]), range(self.width)))
        """Results of a thread, of each output: places along the axes beside, and the neighbour."""
        self.unroll = _unroll(leaf, self.width)
        # A product reads its other operand along the fold: neighbours of that, too, are one access.
        self.steps = (self.unroll, 1) if leaf.op.kind.data == "contract" else (1, self.rows)

    def run(self) -> None:
        """Emit it: each thread its rows, then what the threads of a column have."""
        active = self.builder.within(self.member, self.rows * self.groups)
        start = [self._identity(number) for number in self.outputs for _ in self.sums]

        def share() -> Values:
            return self._share(start)

        own = share() if active is None else self.builder.either(active, share, lambda: start)
        if self.rows == self.beside == self.width == 1:
            self._add(self.member, Index(), own)
            return
        if self.folds_warps:
            own = [self._of_warp(number // len(self.sums), each) for number, each in enumerate(own)]
            lane = self.member.modulo(WARP_SIZE)
            active = self.builder.within(lane, self.groups)
        scratch = self._leave(own, active)
        for slot in range(-(-prod(self.kept) // self.threads)):
            self._add(self.member + slot * self.threads, Index((), slot), scratch)

    def _identity(self, number: int) -> SSAValue:
        identity = identity_of(self.leaf.op, number)
        assert identity is not None, "a schedule shares only folds that have an identity"
        return self.builder.number(identity, element_type(self.leaf.outputs[number]))

    def _axes(self, result: Sequence[int], folded: Sequence[Index]) -> list[Index]:
        """A point of the leaf: one of the thread's results, at a point of the folded axes."""
        *beside, neighbour = result
        kept = [Index((), each) for each in beside] + [self.column + neighbour]
        return self._along(kept, folded)

    def _along(self, kept: Sequence[Index], folded: Sequence[Index]) -> list[Index]:
        left, inner = iter(kept), iter(folded)
        return [
            next(inner, Index()) if is_folded else next(left, Index())
            for is_folded in self.leaf.reductions
        ]

    def _share(self, start: Values) -> Values:
        """What a thread's rows of its columns fold to.

        Bounds are asked once for all rows: only a block at an edge asks for each. The neighbours of
        a run are inside or outside as one.
        """
        ends = [Index((), max(size - 1, 0)) for size in self.folded]
        everywhere = self.builder.all_of(
            [
                self.builder.within(*bound)
                for at in (ends, [Index()] * len(self.folded))
                for bound in self.leaf.bounds(self._axes(self.sums[0], at))
            ]
        )
        if everywhere is None:
            return self._all_turns(start, False)
        return self.builder.either(
            everywhere,
            lambda: self._all_turns(start, False),
            lambda: self._all_turns(start, True),
        )

    def _all_turns(self, start: Values, asks: bool) -> Values:
        total, unroll = prod(self.folded), self.unroll
        whole = total // (self.rows * unroll) * unroll
        own, step = self.steps

        def points(first: Index) -> list[Index]:
            base = self.row * own + first * self.rows
            return [base + position * step for position in range(unroll)]

        def body(base: SSAValue, carried: Values) -> Values:
            return self._turn(points(of_value(base, whole - unroll + 1)), carried, asks)

        values: Values = start
        if whole:
            values = self.builder.loop(whole, body, step=unroll, carried=start)
        for point in points(Index((), whole)) if whole * self.rows < total else ():
            inside = self.builder.within(point, total)
            if point.range[0] < total:
                values = self._where(
                    inside, lambda p=point, v=values: self._turn([p], v, asks), values
                )
        return values

    def _turn(self, points: Sequence[Index], values: Values, asks: bool) -> Values:
        """Fold some rows, one after the other where each is asked for, else all read at first."""
        places = [delinearize(point, self.folded) for point in points]
        if not asks:
            return self._fold(places, values)
        for place in places:
            inside = self.leaf.condition(self._axes(self.sums[0], place))
            values = self._where(inside, lambda p=place, v=values: self._fold([p], v), values)
        return values

    def _where(
        self, inside: SSAValue | None, make: Callable[[], Values], otherwise: Values
    ) -> Values:
        return make() if inside is None else self.builder.either(inside, make, lambda: otherwise)

    def _fold(self, places: Sequence[Sequence[Index]], values: Values) -> Values:
        leaf, count = self.leaf, len(self.sums)
        read = [
            [[leaf.read(n, self._axes(each, place)) for n in self.inputs] for each in self.sums]
            for place in places
        ]
        held = list(values)
        for elements in read:
            for result, arguments in enumerate(elements):
                slots = [number * count + result for number in self.outputs]
                folded = leaf.compute([*arguments, *(held[slot] for slot in slots)])
                for slot, value in zip(slots, folded, strict=True):
                    held[slot] = value
        return held

    def _of_warp(self, number: int, value: SSAValue) -> SSAValue:
        """What the threads of a warp that share a column fold to."""
        distance = WARP_SIZE // 2
        while distance >= self.groups:
            other = exchange(self.builder, value, distance)
            value = combine(self.leaf, number, value, other)
            distance //= 2
        return value

    def _leave(self, own: Values, active: SSAValue | None) -> list[SSAValue]:
        """Write each thread's partial results to shared memory, where all of the block see them."""
        builder, count = self.builder, len(self.sums)
        scratch: list[SSAValue] = []
        for number in self.outputs:
            type = own[number * count].type
            size = (count - 1) * self._stride(type) + self.meeting * self.groups
            space = MemRefType(type, [size], memory_space=StringAttr("shared"))
            scratch.append(builder.at_entry(memref.AllocOp([], [], space)).memref)

        place = self.member
        if self.folds_warps:
            warp, lane = place.floor_divide(WARP_SIZE), place.modulo(WARP_SIZE)
            place = warp * self.groups + lane

        def leave() -> None:
            for number, buffer in enumerate(scratch):
                for result in range(count):
                    value = own[number * count + result]
                    builder.store(value, buffer, [place + result * self._stride(value.type)])

        builder.when(active, leave)
        builder.add(BarrierOp())
        return scratch

    def _stride(self, type: Attribute) -> int:
        """Elements from one result of all threads to the next in shared memory.

        Neighbouring threads write neighbours. They read neighbouring columns, which are results
        of one thread: what is between them puts these in banks of their own.
        """
        banks = BANKS_BYTES // size_bytes(type)
        return -(-self.meeting * self.groups // banks) * banks + min(
            self.groups, banks // self.width
        )

    def _add(self, result: Index, slot: Index, values: Sequence[SSAValue]) -> None:
        """Add what a result came to, to what its thread holds.

        ``values`` are the buffers in shared memory, or the thread's own where no other has a part.
        """
        leaf, builder = self.leaf, self.builder
        place = delinearize(result, self.kept)

        def add() -> None:
            for number, value in enumerate(values):
                total = value
                if isinstance(value.type, MemRefType):
                    total = self._total(number, value, result)
                at = leaf.output_place(number, self._along(place, ()))
                if leaf.op.outputs[number] in leaf.kernel.distributed:
                    at = (slot,)
                held = builder.load(leaf.outputs[number], at)
                builder.store(combine(leaf, number, held, total), leaf.outputs[number], at)

        builder.when(builder.within(result, prod(self.kept)), add)

    def _total(self, number: int, buffer: SSAValue, result: Index) -> SSAValue:
        """The partial results of one column, folded row by row."""
        column = result.modulo(self.kept[self.place])
        beside = result.floor_divide(self.kept[self.place]) * self.width
        stride = self._stride(element_type(buffer))
        first = (beside + column.modulo(self.width)) * stride + column.floor_divide(self.width)
        total = self.builder.load(buffer, [first])
        for row in range(1, self.meeting):
            other = self.builder.load(buffer, [first + row * self.groups])
            total = combine(self.leaf, number, total, other)
        return total


def _unroll(leaf: Leaf, width: int) -> int:
    """Rows that a thread has under way: of what moves along the columns, so many bytes."""
    read = [value for value in leaf.op.inputs if scope_of(value) == ""]
    sizes = [size_bytes(element_type(value)) for value in read] or [BYTES_IN_FLIGHT]
    if leaf.op.kind.data == "contract":
        return min(MAX_UNROLL, max(1, PRODUCT_BYTES // (max(sizes) * width)))
    return min(MAX_UNROLL, max(1, BYTES_IN_FLIGHT // (sum(sizes) * width)))
