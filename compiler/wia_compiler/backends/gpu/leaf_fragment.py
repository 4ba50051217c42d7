"""Leaves over register buffers that lie across the threads of a block: each does its own slots.

A map is dealt out by the layout of a buffer that it touches: each slot of a thread is one point. A
fold along an axis of such a buffer joins the thread's own slots first, then, by butterflies, those
of the lanes that hold the rest of the row: all of them get the same bits. Other operands, beside
it in registers, lie in a slice of the same layout, so that each thread has what it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.distribute import LayoutError
from wia_compiler.backends.gpu.exchange import exchange
from wia_compiler.backends.gpu.index import Index
from wia_compiler.backends.gpu.layouts import Fragment
from wia_compiler.backends.gpu.leaf import Kernel, Leaf, combine, identity_of
from wia_compiler.backends.gpu.leaf_fragment_sums import lower_fragment_sums
from wia_compiler.backends.gpu.leaf_mma import TILE_SLOTS, is_mma, lower_mma_leaf, lower_products
from wia_compiler.dialects.nvgpu import fragment_type
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.dialects.vector_elements import FromElementsOp


def touches_fragment(op: ComputeOp, kernel: Kernel) -> bool:
    """Whether a leaf works on a buffer that lies in a fragment."""
    touched = (*op.inputs, *op.outputs)
    return any(isinstance(kernel.distributed.get(value), Fragment) for value in touched)


def lower_fragment_leaf(leaf: Leaf) -> None:
    """Emit a leaf of the whole block; ``LayoutError`` where no layout holds all of its points."""
    if leaf.op.kind.data == "contract":
        _contract(leaf)
        return
    walk = _Walk.of(leaf)
    if leaf.op.folds:
        _fold(leaf, walk)
    else:
        _map(leaf, walk)


def _contract(leaf: Leaf) -> None:
    """By the units of a warp where a schedule says so, else an ``fma`` a slot."""
    if not is_mma(leaf.op):
        lower_fragment_sums(leaf)
    elif leaf.op.inputs[0] in leaf.kernel.distributed:
        lower_products(leaf, lambda row, step: _left_registers(leaf, row, step), 1)
    else:
        lower_mma_leaf(leaf)


def _left_registers(leaf: Leaf, row: int, step: int) -> SSAValue:
    """A tile of 16 × 16 of a left operand that lies as sums do: two tiles of 16 × 8 beside it.

    Lane 4 g + t has the elements (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1) of each,
    which is what it has of an operand, in this order.
    """
    layout = leaf.kernel.distributed[leaf.op.inputs[0]]
    assert isinstance(layout, Fragment)
    tiles = layout.slot_digits[-2].count
    first = TILE_SLOTS * (row * tiles + 2 * step)
    slots = range(first, first + 2 * TILE_SLOTS)
    held = [leaf.builder.load(leaf.inputs[0], (Index((), slot),)) for slot in slots]
    return leaf.builder.add(FromElementsOp(held, fragment_type(held[0].type, TILE_SLOTS))).dest


@dataclass(frozen=True)
class _Walk:
    """A fragment whose slots are the points of a leaf.

    ``dims`` has the leaf's axis that each dimension of the buffer is, ``None`` for one of a single
    element. ``slots`` has, for each operand, the slot that belongs to each slot walked; ``None``
    for one in memory.
    """

    layout: Fragment
    dims: tuple[int | None, ...]
    slots: tuple[tuple[int, ...] | None, ...]

    @staticmethod
    def of(leaf: Leaf) -> _Walk:
        """The walk along the operand that has all of the leaf's axes."""
        operands = (*leaf.op.inputs, *leaf.op.outputs)
        wide = {axis for axis, size in enumerate(leaf.sizes) if size > 1}
        for number, value in enumerate(operands):
            layout = leaf.kernel.distributed.get(value)
            if not isinstance(layout, Fragment):
                continue
            dims = _dims(leaf.op.maps.data[number].data)
            if wide <= set(dims):
                slots = [_slots_of(leaf, n, layout, dims) for n in range(len(operands))]
                return _Walk(layout, dims, tuple(slots))
        raise LayoutError(f"no fragment holds all points of a {leaf.op.kind.data} leaf")

    def axes(self, leaf: Leaf, slot: int) -> tuple[Index, ...]:
        """The point of a slot of this thread."""
        found = [Index() for _ in leaf.sizes]
        place = self.layout.place(slot, leaf.kernel.thread)
        for axis, index in zip(self.dims, place, strict=True):
            if axis is not None:
                found[axis] = index
        return tuple(found)


def _dims(each: AffineMap) -> tuple[int | None, ...]:
    """The axes that a map is made of; ``LayoutError`` where it is more than a choice."""
    found: list[int | None] = []
    for result in each.results:
        if isinstance(result, AffineDimExpr):
            found.append(result.position)
        elif isinstance(result, AffineConstantExpr) and result.value == 0:
            found.append(None)
        else:
            raise LayoutError(f"a fragment is walked by axes, not by {result}")
    return tuple(found)


def _slots_of(
    leaf: Leaf, number: int, whole: Fragment, dims: tuple[int | None, ...]
) -> tuple[int, ...] | None:
    """The slots of an operand beside those of the walked one; ``None`` for one in memory."""
    value = (*leaf.op.inputs, *leaf.op.outputs)[number]
    layout = leaf.kernel.distributed.get(value)
    if layout is None:
        return None
    own = _dims(leaf.op.maps.data[number].data)
    kept = [dims.index(axis) for axis in own if axis is not None and axis in dims]
    if len(kept) < len(own) or not isinstance(layout, Fragment) or layout != whole.along(kept):
        raise LayoutError(f"{value.type} does not lie beside the fragment of its leaf")
    return tuple(whole.slot_along(kept, slot) for slot in range(whole.slots))


def _read(leaf: Leaf, walk: _Walk, number: int, slot: int, axes: Sequence[Index]) -> SSAValue:
    slots = walk.slots[number]
    if slots is None:
        return leaf.read(number, axes)
    return leaf.builder.load(leaf.inputs[number], (Index((), slots[slot]),))


def _map(leaf: Leaf, walk: _Walk) -> None:
    """All reads, then all writes: neighbours are joined into wide accesses."""
    builder = leaf.builder
    points = [walk.axes(leaf, slot) for slot in range(walk.layout.slots)]
    conditions = [leaf.condition(axes) for axes in points]
    owner = _is_owner(leaf, walk)
    # Points of one condition, one after the other, stand in one branch.
    for condition, members in groupby(range(len(points)), key=lambda slot: conditions[slot]):
        slots = list(members)
        builder.when(condition, lambda slots=slots: _map_points(leaf, walk, points, slots, owner))


def _map_points(
    leaf: Leaf,
    walk: _Walk,
    points: Sequence[tuple[Index, ...]],
    slots: Sequence[int],
    owner: SSAValue | None,
) -> None:
    inputs = range(len(leaf.inputs))
    results = [
        leaf.compute([_read(leaf, walk, number, slot, points[slot]) for number in inputs])
        for slot in slots
    ]
    for number, output in enumerate(leaf.outputs):
        places = walk.slots[len(leaf.inputs) + number]

        def write(number: int = number, output: SSAValue = output) -> None:
            for slot, values in zip(slots, results, strict=True):
                place = leaf.output_place(number, points[slot])
                leaf.builder.store(values[number], output, place)

        if places is None:
            leaf.builder.when(owner, write)
            continue
        for slot, values in zip(slots, results, strict=True):
            leaf.builder.store(values[number], output, (Index((), places[slot]),))


def _is_owner(leaf: Leaf, walk: _Walk) -> SSAValue | None:
    """Whether this thread writes its elements to memory, where others hold copies of them."""
    builder, thread = leaf.builder, leaf.kernel.thread
    digits = [
        thread.floor_divide(weight).modulo(count) for weight, count in walk.layout.owner_digits()
    ]
    return builder.all_of([builder.within(digit, 1) for digit in digits])


def _fold(leaf: Leaf, walk: _Walk) -> None:
    """Own slots, then the lanes that share a row, then what the output held."""
    builder = leaf.builder
    numbers = range(len(leaf.inputs))
    folded = {
        dimension
        for dimension, axis in enumerate(walk.dims)
        if axis is not None and leaf.reductions[axis]
    }
    distances = walk.layout.lane_distances(folded)
    if distances is None:
        raise LayoutError("a row lies in several warps: its fold would leave the registers")
    for output in range(len(leaf.outputs)):
        places = walk.slots[len(leaf.inputs) + output]
        identity = identity_of(leaf.op, output)
        if places is None or identity is None or leaf.op.bounds.data.results:
            raise LayoutError("a fragment is folded into a slice of its own, without bounds")
        start = builder.number(identity, element_type(leaf.outputs[output]))
        totals: dict[int, SSAValue] = {}
        for slot in range(walk.layout.slots):
            axes = walk.axes(leaf, slot)
            elements = [_read(leaf, walk, number, slot, axes) for number in numbers]
            held = [totals.get(places[slot], start)] * len(leaf.outputs)
            totals[places[slot]] = leaf.compute([*elements, *held])[output]
        for distance in distances:
            for place, value in totals.items():
                totals[place] = combine(leaf, output, value, exchange(builder, value, distance))
        for place, value in totals.items():
            index = (Index((), place),)
            before = builder.load(leaf.outputs[output], index)
            builder.store(combine(leaf, output, before, value), leaf.outputs[output], index)
