"""A leaf that one thread runs alone: loops where they must be, straight code where it pays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, product
from math import prod

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from wia_compiler.backends.gpu.index import Index, of_value
from wia_compiler.backends.gpu.leaf import Leaf

MAX_STRAIGHT_POINTS = 256
MAX_STRAIGHT_PRODUCTS = 1024
"""Of a product whose sums are in registers: loads of shared memory then overlap across the fold."""
LOOP_UNROLL = 4
"""Copies of a short loop body in one turn: enough independent loads to overlap."""
SHORT_BODY = 8
"""Points up to which a body is short."""


def lower_thread_leaf(leaf: Leaf, *, stores_if: SSAValue | None = None) -> None:
    """Emit all points of a leaf.

    Axes that pick an element of a register buffer are unrolled, so that the element has a name
    instead of an address. Others are unrolled from the innermost outwards while straight code stays
    under 256 points; what is left becomes loops, the innermost of them in steps of four points
    where its body is short.
    ``stores_if`` is asked before writing to memory that other threads share.
    """
    straight = _straight_axes(leaf)
    looped = [axis for axis in range(len(leaf.sizes)) if not straight[axis]]
    axes: list[Index] = [Index()] * len(leaf.sizes)
    points = prod(size for size, used in zip(leaf.sizes, straight, strict=True) if used)

    def nest(depth: int) -> None:
        if depth == len(looped):
            _points(leaf, tuple(axes), straight, stores_if)
            return
        axis = looped[depth]

        def body(position: Index) -> None:
            axes[axis] = position
            nest(depth + 1)

        unrolled = depth == len(looped) - 1 and points <= SHORT_BODY
        each_position(leaf, leaf.sizes[axis], LOOP_UNROLL if unrolled else 1, body)

    nest(0)


def each_position(leaf: Leaf, count: int, unroll: int, body: Callable[[Index], None]) -> None:
    """Run ``body`` at 0 … count - 1: a loop of ``unroll`` copies a turn, then what is left over."""
    builder = leaf.builder
    if count <= unroll:
        for position in range(count):
            body(Index((), position))
        return
    whole = count - count % unroll

    def turn(base: SSAValue) -> None:
        start = of_value(base, whole - unroll + 1)
        for position in range(unroll):
            body(start + position)

    builder.repeat(whole, turn, step=unroll, changing=leaf.outputs)
    for position in range(whole, count):
        body(Index((), position))


def _straight_axes(leaf: Leaf) -> tuple[bool, ...]:
    straight = [
        used or size == 1 for used, size in zip(leaf.register_axes, leaf.sizes, strict=True)
    ]
    is_product = leaf.op.kind.data == "contract" and any(leaf.register_axes)
    most = MAX_STRAIGHT_PRODUCTS if is_product else MAX_STRAIGHT_POINTS
    points = 1
    for used, size in zip(straight, leaf.sizes, strict=True):
        points *= size if used else 1
    for axis in reversed(range(len(leaf.sizes))):
        if straight[axis]:
            continue
        if points * leaf.sizes[axis] > most:
            break
        straight[axis] = True
        points *= leaf.sizes[axis]
    return tuple(straight)


def _points(
    leaf: Leaf, axes: tuple[Index, ...], straight: Sequence[bool], stores_if: SSAValue | None
) -> None:
    """Emit the unrolled points: unguarded where all take part, else one by one."""
    points = list(_unrolled(leaf, axes, straight))
    asked = {leaf.condition(point) for point in points}
    if len(asked) == 1:
        leaf.builder.when(asked.pop(), lambda: _straight_code(leaf, points, stores_if))
        return
    everywhere = _whole_condition(leaf, points)
    if everywhere is None:
        _straight_code(leaf, points, stores_if)
        return

    if leaf.op.folds and all(leaf.is_register(output) for output in leaf.op.outputs):
        _fold_masked(leaf, points)
        return

    def inside() -> Sequence[SSAValue]:
        _straight_code(leaf, points, stores_if)
        return ()

    def at_edge() -> Sequence[SSAValue]:
        for point in points:
            leaf.builder.when(
                leaf.condition(point), lambda each=point: _straight_code(leaf, [each], stores_if)
            )
        return ()

    leaf.builder.either(everywhere, inside, at_edge)


def _unrolled(
    leaf: Leaf, axes: tuple[Index, ...], straight: Sequence[bool]
) -> Iterator[tuple[Index, ...]]:
    """Points in an order in which neighbours are independent: folded axes run slowest."""
    order = sorted(
        (axis for axis in range(len(axes)) if straight[axis]),
        key=lambda axis: not leaf.reductions[axis],
    )
    for positions in product(*(range(leaf.sizes[axis]) for axis in order)):
        point = list(axes)
        for axis, position in zip(order, positions, strict=True):
            point[axis] = Index((), position)
        yield tuple(point)


def _whole_condition(leaf: Leaf, points: Sequence[tuple[Index, ...]]) -> SSAValue | None:
    """Whether every point takes part: each bound at its smallest and largest offset."""
    ends: dict[tuple[object, int], list[int]] = {}
    sums: dict[tuple[object, int], Index] = {}
    for point in points:
        for index, limit in leaf.bounds(point):
            key = (index.terms, limit)
            sums[key] = index.without_constant
            ends.setdefault(key, []).append(index.constant)
    conditions: list[SSAValue | None] = []
    for (terms, limit), constants in ends.items():
        for constant in sorted({min(constants), max(constants)}):
            conditions.append(leaf.builder.within(sums[(terms, limit)] + constant, limit))
    return leaf.builder.all_of(conditions)


def _straight_code(
    leaf: Leaf, points: Sequence[tuple[Index, ...]], stores_if: SSAValue | None
) -> None:
    if leaf.op.folds:
        _fold_points(leaf, points, stores_if)
        return
    # All reads, then all writes: independent loads are in flight together, and neighbours can be
    # joined into one wide access. Only where the leaf writes what it reads must points stay whole.
    batches = [points] if all(leaf.constant_inputs) else [[point] for point in points]
    for batch in batches:
        elements = [[leaf.read(n, point) for n in range(len(leaf.inputs))] for point in batch]
        results = [leaf.compute(each) for each in elements]
        for point, values in zip(batch, results, strict=True):
            for number, value in enumerate(values):
                _store(leaf, number, leaf.output_place(number, point), value, stores_if)


def _fold_points(
    leaf: Leaf, points: Sequence[tuple[Index, ...]], stores_if: SSAValue | None
) -> None:
    """Fold point after point; what an output holds is loaded once and stored once."""
    builder = leaf.builder
    outputs = range(len(leaf.outputs))
    held: dict[tuple[int, tuple[Index, ...]], SSAValue] = {}
    folded = [axis for axis, is_folded in enumerate(leaf.reductions) if is_folded]
    for _, step in groupby(points, key=lambda point: [point[axis] for axis in folded]):
        batch = list(step)
        if leaf.op.kind.data == "contract":
            _read_ahead(leaf, batch)
        for point in batch:
            arguments = [leaf.read(number, point) for number in range(len(leaf.inputs))]
            keys = [(number, leaf.output_place(number, point)) for number in outputs]
            for number, place in keys:
                if (number, place) not in held:
                    held[number, place] = builder.load(leaf.outputs[number], place)
            values = leaf.compute([*arguments, *(held[key] for key in keys)])
            held.update(zip(keys, values, strict=True))
    for (number, place), value in held.items():
        _store(leaf, number, place, value, stores_if)


def _fold_masked(leaf: Leaf, points: Sequence[tuple[Index, ...]]) -> None:
    """Fold into registers without a branch: a point outside leaves what they held.

    Threads at an edge stay together with those inside; several points may share what they read.
    """
    builder = leaf.builder
    outputs = range(len(leaf.outputs))
    for point in points:
        inside = leaf.condition(point)
        arguments = [leaf.read_inside(number, point, inside) for number in range(len(leaf.inputs))]
        places = [leaf.output_place(number, point) for number in outputs]
        held = [builder.load(leaf.outputs[number], places[number]) for number in outputs]
        for number, value in enumerate(leaf.compute([*arguments, *held])):
            kept = value
            if inside is not None:
                kept = builder.add(arith.SelectOp(inside, value, held[number])).result
            builder.store(kept, leaf.outputs[number], places[number])


def _read_ahead(leaf: Leaf, points: Sequence[tuple[Index, ...]]) -> None:
    """Read what points of a product share: all of one operand, then all of the other.

    Neighbours whose loads stand together in the code are joined into vectors.
    """
    for number in range(len(leaf.inputs)):
        for point in points:
            leaf.read(number, point)


def _store(
    leaf: Leaf,
    number: int,
    place: tuple[Index, ...],
    value: SSAValue,
    stores_if: SSAValue | None,
) -> None:
    private = leaf.is_register(leaf.op.outputs[number])
    leaf.builder.when(
        None if private else stores_if,
        lambda: leaf.builder.store(value, leaf.outputs[number], place),
    )
