"""A fold of several columns by one block: neighbouring threads read neighbouring columns.

::

    threads of a block:   row 0: columns 0 … 31     thread t folds rows t / 32, t / 32 + 8, … of
                          row 1: columns 0 … 31     column t % 32; the 8 partial results of a
                          …                         column meet in shared memory, where they are
                          row 7: columns 0 … 31     folded in the order of their rows
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.dialects.gpu import BarrierOp
from xdsl.ir import SSAValue

from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.index import Index, delinearize, of_value
from wia_compiler.backends.gpu.leaf import Leaf, combine, identity_of
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import scope_of

BYTES_IN_FLIGHT = 32
"""What a thread has under way at a time: with 2048 threads on an SM, 64 KiB, twice what an H100
needs for its bandwidth at a latency of 600 ns."""
MAX_UNROLL = 16


def fold_columns(leaf: Leaf, threads: int, member: Index) -> None:
    """Emit a fold with kept points of its own at level ``block``.

    Column ``c`` (kept axes linearised, the last fastest) is folded by the threads ``c + r *
    columns``; its result lies with thread ``c``, in the one slot of a cyclic register buffer.
    """
    builder = leaf.builder
    axes = list(zip(leaf.sizes, leaf.reductions, strict=True))
    kept = [size for size, folded in axes if not folded]
    columns = prod(kept)
    rows = threads // columns
    if rows == 0:
        raise AssertionError(f"{columns} columns for {threads} threads")
    row = member.floor_divide(columns)
    place = delinearize(member.modulo(columns), kept)
    active = builder.within(member, rows * columns)
    start = [_identity(leaf, number) for number in range(len(leaf.outputs))]

    def share() -> Sequence[SSAValue]:
        return _share(leaf, row, rows, place, start)

    own = share() if active is None else builder.either(active, share, lambda: start)
    if rows > 1:
        own = _meet(leaf, own, (rows, columns), member, active)

    def add() -> None:
        for number, total in enumerate(own):
            at = _result_place(leaf, number, place)
            held = builder.load(leaf.outputs[number], at)
            builder.store(combine(leaf, number, held, total), leaf.outputs[number], at)

    # In memory, and in registers that lie across the block, a result is its own thread's alone.
    own_alone = any(
        scope_of(value) != "register" or value in leaf.kernel.distributed
        for value in leaf.op.outputs
    )
    builder.when(builder.within(member, columns) if own_alone else None, add)


def _identity(leaf: Leaf, number: int) -> SSAValue:
    identity = identity_of(leaf.op, number)
    assert identity is not None, "a schedule shares only folds that have an identity"
    return leaf.builder.number(identity, element_type(leaf.outputs[number]))


def _result_place(leaf: Leaf, number: int, kept: Sequence[Index]) -> tuple[Index, ...]:
    if leaf.op.outputs[number] in leaf.kernel.distributed:
        return (Index(),)
    return leaf.output_place(number, _axes(leaf, kept, ()))


def _axes(leaf: Leaf, kept: Sequence[Index], folded: Sequence[Index]) -> list[Index]:
    left, inner = iter(kept), iter(folded)
    return [next(inner, Index()) if is_folded else next(left) for is_folded in leaf.reductions]


def _share(
    leaf: Leaf, row: Index, rows: int, kept: Sequence[Index], start: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """What a thread's rows of its column fold to.

    Bounds are asked once for all rows: only a block at an edge asks for each.
    """
    builder = leaf.builder
    folded = [
        size for size, is_folded in zip(leaf.sizes, leaf.reductions, strict=True) if is_folded
    ]
    total = prod(folded)
    ends = [Index((), max(size - 1, 0)) for size in folded]
    everywhere = builder.all_of(
        [
            builder.within(*bound)
            for ends_or_starts in (ends, [Index()] * len(folded))
            for bound in leaf.bounds(_axes(leaf, kept, ends_or_starts))
        ]
    )

    def turn(point: Index, values: Sequence[SSAValue], asks: bool) -> Sequence[SSAValue]:
        axes = _axes(leaf, kept, delinearize(point, folded))
        own = builder.within(point, total)
        condition = builder.all_of([own, leaf.condition(axes)]) if asks else own

        def fold() -> Sequence[SSAValue]:
            elements = [leaf.read(number, axes) for number in range(len(leaf.inputs))]
            return leaf.compute([*elements, *values])

        return fold() if condition is None else builder.either(condition, fold, lambda: values)

    def all_turns(asks: bool) -> Sequence[SSAValue]:
        count = -(-total // rows)
        unroll = _unroll(leaf)
        whole = total // rows // unroll * unroll

        def body(base: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            first = of_value(base, whole - unroll + 1)
            for position in range(unroll):
                carried = turn(row + (first + position) * rows, carried, asks)
            return carried

        values: Sequence[SSAValue] = start
        if whole:
            values = builder.loop(whole, body, step=unroll, carried=start)
        for slot in range(whole, count):
            values = turn(row + slot * rows, values, asks)
        return values

    if everywhere is None:
        return all_turns(False)
    return builder.either(everywhere, lambda: all_turns(False), lambda: all_turns(True))


def _unroll(leaf: Leaf) -> int:
    read = [value for value in leaf.op.inputs if scope_of(value) == ""]
    size = sum(size_bytes(element_type(value)) for value in read) or BYTES_IN_FLIGHT
    return min(MAX_UNROLL, max(1, BYTES_IN_FLIGHT // size))


def _meet(
    leaf: Leaf,
    own: Sequence[SSAValue],
    box: tuple[int, int],
    member: Index,
    active: SSAValue | None,
) -> list[SSAValue]:
    """The partial results of each column, folded row by row by the thread of the first row."""
    builder = leaf.builder
    rows, columns = box
    scratch: list[SSAValue] = []
    for value in own:
        space = MemRefType(value.type, [rows * columns], memory_space=StringAttr("shared"))
        scratch.append(builder.at_entry(memref.AllocOp([], [], space)).memref)

    def leave() -> None:
        for value, buffer in zip(own, scratch, strict=True):
            builder.store(value, buffer, [member])

    builder.when(active, leave)
    builder.add(BarrierOp())

    def take() -> Sequence[SSAValue]:
        totals: list[SSAValue] = []
        for number, buffer in enumerate(scratch):
            total = builder.load(buffer, [member])
            for row in range(1, rows):
                other = builder.load(buffer, [member + row * columns])
                total = combine(leaf, number, total, other)
            totals.append(total)
        return totals

    first = builder.within(member, columns)
    assert first is not None
    return list(builder.either(first, take, lambda: own))
