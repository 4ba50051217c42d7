"""Products of tiles in shared memory, summed in the fragments of threads: one ``fma`` a slot."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from wia_compiler.backends.gpu.distribute import LayoutError
from wia_compiler.backends.gpu.index import Index, of_value
from wia_compiler.backends.gpu.layouts import Fragment
from wia_compiler.backends.gpu.leaf import Leaf

TOGETHER = 4
"""Points of the folded axis in a turn: neighbours, which one access of 16 bytes reads."""


def lower_fragment_sums(leaf: Leaf) -> None:
    """Emit a contraction of a whole block into a fragment.

    Each thread walks the folded axis and reads, of both tiles, what its own slots need: neighbours
    of a row share what they read of one operand, those of a column of the other.
    """
    layout = leaf.kernel.distributed.get(leaf.op.outputs[0])
    folded = [axis for axis, is_folded in enumerate(leaf.reductions) if is_folded]
    if not isinstance(layout, Fragment) or len(folded) != 1:
        raise LayoutError("a contraction of a block sums along one axis into a fragment")
    if any(value in leaf.kernel.distributed for value in leaf.op.inputs):
        raise LayoutError(
            "threads sum over tiles in shared memory: registers of others are not read"
        )
    (axis,) = folded
    points = [_point(leaf, layout, slot) for slot in range(layout.slots)]
    size, builder = leaf.sizes[axis], leaf.builder
    whole = size - size % TOGETHER

    def turn(position: SSAValue) -> None:
        first = of_value(position, whole - TOGETHER + 1)
        _add(leaf, points, axis, [first + step for step in range(TOGETHER)])

    if whole > TOGETHER:
        builder.repeat(whole, turn, step=TOGETHER, changing=leaf.outputs)
    rest = range(0 if whole <= TOGETHER else whole, size)
    _add(leaf, points, axis, [Index((), position) for position in rest])


def _point(leaf: Leaf, layout: Fragment, slot: int) -> tuple[Index, ...]:
    """The point of a slot, 0 along the folded axis."""
    found = [Index() for _ in leaf.sizes]
    place = layout.place(slot, leaf.kernel.thread)
    for result, index in zip(leaf.op.output_maps[0].results, place, strict=True):
        (axis,) = result.used_dims() or (None,)
        if axis is not None:
            found[axis] = index
    return tuple(found)


def _add(
    leaf: Leaf, points: Sequence[tuple[Index, ...]], axis: int, positions: Sequence[Index]
) -> None:
    """Add to every slot the products at some positions of the folded axis."""
    inputs = range(len(leaf.inputs))
    for position in positions:
        for slot, point in enumerate(points):
            axes = [position if n == axis else index for n, index in enumerate(point)]
            place = (Index((), slot),)
            held = leaf.builder.load(leaf.outputs[0], place)
            elements = [leaf.read(number, axes) for number in inputs]
            (total,) = leaf.compute([*elements, held])
            leaf.builder.store(total, leaf.outputs[0], place)
