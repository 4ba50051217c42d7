"""A leaf whose points a warp or a block shares: consecutive threads take consecutive points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from xdsl.ir import SSAValue

from wia_compiler.backends.gpu.architecture import WARP_SIZE
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.distribute import folds_columns, width_of
from wia_compiler.backends.gpu.exchange import BlockFold, fold_warp
from wia_compiler.backends.gpu.index import Index, delinearize, of_value
from wia_compiler.backends.gpu.leaf import Leaf, combine, identity_of
from wia_compiler.backends.gpu.leaf_columns import fold_columns
from wia_compiler.backends.gpu.stage_rows import REGISTER_BYTES, REGISTERS_FOR_ROWS
from wia_compiler.passes.llvm.types import size_bytes

MAX_STRAIGHT_SLOTS = 16
LOOP_UNROLL = 4


@dataclass(frozen=True)
class Group:
    """The threads that share a leaf: ``size`` of them; ``member`` is which of them this one is."""

    size: int
    member: Index
    is_block: bool


def lower_group_leaf(leaf: Leaf, group: Group) -> None:
    """Emit a leaf at level ``warp`` or ``block``.

    Point ``p`` (axes linearised, the last running fastest) is run by thread ``p % size`` in turn
    ``p // size``. A leaf of one point is run by all of them where it writes registers, which all
    then hold, and by the first one where it writes memory.
    """
    if folds_columns(leaf.op):
        fold_columns(leaf, group.size, group.member)
    elif leaf.op.folds:
        _fold(leaf, group)
    elif prod(leaf.sizes) == 1:
        _single(leaf, group)
    else:
        _map(leaf, group)


def _single(leaf: Leaf, group: Group) -> None:
    builder = leaf.builder
    axes = [Index()] * len(leaf.sizes)
    first = None
    if not all(leaf.is_register(output) for output in leaf.op.outputs):
        first = builder.within(group.member, 1)

    def point() -> None:
        arguments = [leaf.read(number, axes) for number in range(len(leaf.inputs))]
        for number, value in enumerate(leaf.compute(arguments)):
            alone = None if leaf.is_register(leaf.op.outputs[number]) else first
            place = leaf.output_place(number, axes)
            builder.when(
                alone,
                lambda n=number, v=value, p=place: builder.store(v, leaf.outputs[n], p),
            )

    builder.when(leaf.condition(axes), point)


def _map(leaf: Leaf, group: Group) -> None:
    total = prod(leaf.sizes)
    width = width_of(leaf.op)

    def turn(number: Index) -> None:
        run = _run(group, number, width)
        points = [(slot, delinearize(point, leaf.sizes)) for slot, point in run]
        builder = leaf.builder
        asked = [_is_point(leaf, run[0][1], total), leaf.condition(points[0][1])]
        builder.when(builder.all_of(asked), lambda: _map_points(leaf, points))

    touched = (*leaf.op.inputs, *leaf.op.outputs)
    straight = any(value in leaf.kernel.distributed for value in touched)
    _turns(leaf, -(-total // (group.size * width)), straight, turn)


def _run(group: Group, turn: Index, width: int) -> list[tuple[Index, Index]]:
    """The slots and points of a thread's neighbours in one turn."""
    first = (group.member + turn * group.size) * width
    return [(turn * width + number, first + number) for number in range(width)]


def _map_points(leaf: Leaf, points: Sequence[tuple[Index, Sequence[Index]]]) -> None:
    """All reads, then all writes, where the leaf writes nothing that it reads."""
    batches = [points] if all(leaf.constant_inputs) else [[point] for point in points]
    for batch in batches:
        read = [
            [_read(leaf, number, axes, slot) for number in range(len(leaf.inputs))]
            for slot, axes in batch
        ]
        results = [leaf.compute(arguments) for arguments in read]
        for (slot, axes), values in zip(batch, results, strict=True):
            for number, value in enumerate(values):
                spread = leaf.op.outputs[number] in leaf.kernel.distributed
                place = (slot,) if spread else leaf.output_place(number, axes)
                leaf.builder.store(value, leaf.outputs[number], place)


def _read(leaf: Leaf, number: int, axes: Sequence[Index], slot: Index) -> SSAValue:
    if leaf.op.inputs[number] in leaf.kernel.distributed:
        return leaf.builder.load(leaf.inputs[number], (slot,))
    return leaf.read(number, axes)


def _is_point(leaf: Leaf, point: Index, total: int) -> SSAValue | None:
    return leaf.builder.within(point, total)


def _turns(leaf: Leaf, count: int, straight: bool, turn: Callable[[Index], None]) -> None:
    """All turns of a group; the last one may be partial, so it stands apart from a loop."""
    if straight or _is_short(leaf, count):
        for slot in range(count):
            turn(Index((), slot))
        return
    whole = (count - 1) // LOOP_UNROLL * LOOP_UNROLL

    def body(base: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        start = of_value(base, whole - LOOP_UNROLL + 1)
        for position in range(LOOP_UNROLL):
            turn(start + position)
        return ()

    leaf.builder.loop(whole, body, step=LOOP_UNROLL, changing=leaf.outputs)
    for slot in range(whole, count):
        turn(Index((), slot))


def _is_short(leaf: Leaf, count: int) -> bool:
    """Whether so many turns are written out.

    Leaves in straight code that read the same row again would be read by LLVM once, into more
    registers than there are where the row is too long to be kept (``stage_rows``).
    """
    sizes = [size_bytes(element_type(value)) for value in leaf.inputs]
    registers = max((-(-size // REGISTER_BYTES) for size in sizes), default=1)
    held = count * width_of(leaf.op) * registers
    return count <= MAX_STRAIGHT_SLOTS and held <= REGISTERS_FOR_ROWS


def _fold(leaf: Leaf, group: Group) -> None:
    """Each thread folds its points, then the group folds what its threads have."""
    builder = leaf.builder
    kept = [range(1 if folded else size) for folded, size in _axes(leaf)]
    block = BlockFold(builder, leaf.kernel.thread, group.size) if group.is_block else None
    outputs = range(len(leaf.outputs))
    results = [tuple(Index((), each) for each in positions) for positions in product(*kept)]
    partials = list(zip(results, _own_share(leaf, group, results), strict=True))

    def joined(number: int) -> Callable[[SSAValue, SSAValue], SSAValue]:
        return lambda left, right: combine(leaf, number, left, right)

    if block is not None:
        for _, values in partials:
            for number in outputs:
                block.put(values[number], joined(number))
        block.barrier()
    taken = 0
    for point, values in partials:
        for number in outputs:
            if block is not None:
                total = block.take(taken, joined(number))
                taken += 1
            else:
                total = fold_warp(builder, values[number], joined(number), WARP_SIZE)
            _add_to_output(leaf, group, number, point, total)


def _add_to_output(
    leaf: Leaf, group: Group, number: int, point: Sequence[Index], total: SSAValue
) -> None:
    builder = leaf.builder
    private = leaf.is_register(leaf.op.outputs[number])
    place = leaf.output_place(number, point)

    def update() -> None:
        held = builder.load(leaf.outputs[number], place)
        builder.store(combine(leaf, number, held, total), leaf.outputs[number], place)

    builder.when(None if private else builder.within(group.member, 1), update)


def _axes(leaf: Leaf) -> list[tuple[bool, int]]:
    return list(zip(leaf.reductions, leaf.sizes, strict=True))


def _fold_axes(
    leaf: Leaf, kept: Sequence[Index], point: Index, folded: Sequence[int]
) -> list[Index]:
    along = iter(delinearize(point, folded))
    return [
        next(along) if is_folded else kept[number]
        for number, (is_folded, _) in enumerate(_axes(leaf))
    ]


def _own_share(
    leaf: Leaf, group: Group, results: Sequence[Sequence[Index]]
) -> list[list[SSAValue]]:
    """What this thread's points fold to for each result, from the combiner's identity on."""
    builder = leaf.builder
    folded = [size for is_folded, size in _axes(leaf) if is_folded]
    total = prod(folded)
    start: list[SSAValue] = []
    for number, output in enumerate(leaf.outputs):
        identity = identity_of(leaf.op, number)
        assert identity is not None, "a schedule shares only folds that have an identity"
        start.append(builder.number(identity, element_type(output)))
    each, start = len(start), start * len(results)
    width = width_of(leaf.op)

    def turn(number: Index, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        run = _run(group, number, width)
        points = [
            [(slot, _fold_axes(leaf, kept, point, folded)) for kept in results]
            for slot, point in run
        ]
        asked = [_is_point(leaf, run[0][1], total), leaf.condition(points[0][0][1])]
        condition = builder.all_of(asked)

        def fold() -> Sequence[SSAValue]:
            numbers = range(len(leaf.inputs))
            read = [
                [[_read(leaf, n, axes, slot) for n in numbers] for slot, axes in point]
                for point in points
            ]
            held = list(values)
            for elements in read:
                for result, arguments in enumerate(elements):
                    own = slice(result * each, (result + 1) * each)
                    held[own] = leaf.compute([*arguments, *held[own]])
            return held

        if condition is None:
            return fold()
        return builder.either(condition, fold, lambda: values)

    values = _fold_turns(leaf, -(-total // (group.size * width)), start, turn)
    return [values[first : first + each] for first in range(0, len(values), each)]


def _fold_turns(
    leaf: Leaf,
    count: int,
    start: Sequence[SSAValue],
    turn: Callable[[Index, Sequence[SSAValue]], Sequence[SSAValue]],
) -> list[SSAValue]:
    """All turns of a fold, one after the other; the last may be partial, so it stands apart."""
    straight = any(value in leaf.kernel.distributed for value in leaf.op.inputs)
    values: Sequence[SSAValue] = start
    if straight or _is_short(leaf, count):
        for slot in range(count):
            values = turn(Index((), slot), values)
        return list(values)
    whole = (count - 1) // LOOP_UNROLL * LOOP_UNROLL

    def body(base: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        first = of_value(base, whole - LOOP_UNROLL + 1)
        for position in range(LOOP_UNROLL):
            carried = turn(first + position, carried)
        return carried

    values = leaf.builder.loop(whole, body, step=LOOP_UNROLL, carried=start)
    for slot in range(whole, count):
        values = turn(Index((), slot), values)
    return list(values)
