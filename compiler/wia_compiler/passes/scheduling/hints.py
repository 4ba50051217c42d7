"""Where a hint of a directive belongs: on a loop, or on an axis that a leaf walks.

``unroll``, ``pipeline`` and their like change neither what is computed nor where it is kept. They
are checked here and noted (``dialects.loop_hints``); lowering writes them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from xdsl.dialects import scf
from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from wia_compiler.base.schedule import Entry
from wia_compiler.dialects.loop_hints import (
    LoopHints,
    axis_hints,
    hints_of,
    note_axis_hints,
    note_hints,
)
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.dialects.tile_points import AXIS
from wia_compiler.passes.scf_rewrites.loops import trip_count
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite, axis_of, loops_around
from wia_compiler.passes.tile_rewrites.levels import PARALLEL_LEVELS, is_folded

Loop: TypeAlias = "ForOp | scf.ForOp"
LONGEST_TILE = 64
"""Kept points of a leaf that are a register tile: they are written out and have no loop."""
SHORTEST_FOLD = 16
"""Folded points of a leaf below which the loop around it is meant."""
MOST_OPS = 1 << 14
"""Ops that a loop may be written out to: some seconds of compiling."""


@dataclass(frozen=True)
class Place:
    """A loop, or an axis of a leaf that becomes one (``leaf`` is given)."""

    name: str
    loop: Loop | None = None
    leaf: ComputeOp | None = None

    @property
    def hints(self) -> LoopHints:
        """What is noted there."""
        if self.leaf is not None:
            return axis_hints(self.leaf, self.name)
        assert self.loop is not None
        return hints_of(self.loop)

    @property
    def independent(self) -> bool:
        """Whether iterations may run in any order."""
        if self.leaf is not None:
            return self.name not in {each.data for each in self.leaf.reduce_axes}
        if isinstance(self.loop, ForOp):
            return not is_folded(self.loop)
        return self.hints.independent

    @property
    def trips(self) -> int | None:
        """How many iterations there are, where that is known."""
        if self.leaf is not None:
            return size_of(self.leaf, self.name)
        if isinstance(self.loop, ForOp):
            return self.loop.trip_count
        assert self.loop is not None
        return trip_count(self.loop)

    @property
    def ops(self) -> int:
        """How many ops one iteration has, roughly."""
        body = self.leaf if self.leaf is not None else self.loop
        assert body is not None
        return max(1, sum(1 for op in body.walk() if not op.regions))

    def note(self, **hints: object) -> None:
        """Add to what is noted there; a loop that processors share is not written out."""
        if isinstance(self.loop, ForOp) and self.loop.level.data in PARALLEL_LEVELS:
            raise IllegalRewrite(
                f"the iterations of {self.name} are shared: none follows another",
                hint="name a loop inside of it",
            )
        made = replace(self.hints, independent=self.independent, **hints)  # pyright: ignore[reportArgumentType]
        if self.leaf is not None:
            note_axis_hints(self.leaf, self.name, made)
        elif self.loop is not None:
            note_hints(self.loop, made)


def places_of(nest: ScheduledNest, entry: Entry) -> list[Place]:
    """What an entry's axis or loop is: the first of what it may mean (``meanings_of``)."""
    meanings = meanings_of(nest, entry)
    return meanings[0] if meanings else []


def meanings_of(nest: ScheduledNest, entry: Entry) -> list[list[Place]]:
    """What an entry's axis or loop may mean, the likeliest first.

    ``k.0`` names a loop; the axis of a leaf counts on from the loops around it. A bare ``k`` is the
    axis as leaves walk it, where that becomes a loop worth a hint, else the innermost loops of it,
    else the axis of leaves that have few points. There is nothing where the axis has one point, or
    the nest computes nothing: sizes come with the call, and a schedule is for all of them.
    """
    if entry.name is None:
        listed = ", ".join(dict.fromkeys(loop_name(loop) for loop in all_loops(nest)))
        raise IllegalRewrite(
            f"{entry.number} belongs to no loop",
            hint=f"name one: {listed or ', '.join(nest.axes())}",
            span=entry.span,
        )
    name = entry.name
    axis, dot, number = name.partition(".")
    every = all_loops(nest)
    loops = [loop for loop in every if loop_name(loop).partition(".")[0] == axis]
    around = {
        leaf: [each for each in loops_around(leaf) if axis_of(each) == axis]
        for leaf in nest.leaves()
    }
    if dot:
        named = [loop for loop in loops if loop_name(loop) == name]
        walked = [leaf for leaf, outer in around.items() if number == str(len(outer))]
        found = [_of_loops(named), _of_leaves(walked, axis)]
    else:
        walked = [leaf for leaf, outer in around.items() if is_walked(leaf, axis, outer)]
        inner = [each for each in loops if not _holds(each, loops)]
        found = [_of_leaves(walked, axis), _of_loops(inner), _of_leaves(nest.leaves(), axis)]
    if not any(found) and not loops and axis not in nest.axes() and (every or around):
        nest.loop(entry)  # tells what there is
        raise IllegalRewrite(f"no loop {name!r}", span=entry.span)
    return [places for places in found if places]


def _of_loops(loops: Sequence[Loop]) -> list[Place]:
    places = [Place(loop_name(each), loop=each) for each in loops]
    return [place for place in places if place.trips != 1]


def _of_leaves(leaves: Sequence[ComputeOp], axis: str) -> list[Place]:
    return [Place(axis, leaf=leaf) for leaf in leaves if size_of(leaf, axis) > 1]


def all_loops(nest: ScheduledNest) -> list[Loop]:
    """The loops of a nest, those of point code too, outer ones first."""
    return [op for op in nest.function.walk() if isinstance(op, ForOp | scf.ForOp)]


def has_empty_array(nest: ScheduledNest) -> bool:
    """Whether an array of the kernel has no elements, so that some of its loops are not there."""
    module = nest.function.parent_op()
    functions = [op for op in module.walk() if isinstance(op, FuncOp)] if module else []
    arguments = (value for each in functions for value in each.body.blocks[0].args)
    return any(0 in cast("MemRefType[Attribute]", each.type).get_shape() for each in arguments)


def loop_name(loop: Loop) -> str:
    """How a directive names a loop: its axis, and how many loops of that axis are around it."""
    if isinstance(loop, ForOp):
        return loop.axis.data
    name = loop.attributes.get(AXIS)
    axis = name.data if isinstance(name, StringAttr) else "loop"
    depth, parent = 0, loop.parent_op()
    while parent is not None:
        if isinstance(parent, ForOp | scf.ForOp):
            depth += loop_name(parent).partition(".")[0] == axis
        parent = parent.parent_op()
    return f"{axis}.{depth}"


def check_count(place: Place, entry: Entry, count: int, what: str) -> None:
    """Refuse to write out more than can be compiled in reasonable time."""
    most = MOST_OPS // place.ops
    if count > max(most, 1):
        raise IllegalRewrite(
            f"{count} {what} of {place.ops} ops are more than {MOST_OPS} ops",
            hint=f"choose at most {most}" if most > 1 else f"{what} of this size stay a loop",
            span=entry.span,
        )


def find_places(
    nest: ScheduledNest, entry: Entry, why_not: Callable[[Place], str | None], hint: str
) -> list[Place]:
    """The places of an entry where a directive fits; the first reason where it fits nowhere."""
    reasons: list[str] = []
    for places in meanings_of(nest, entry):
        told = {place: why_not(place) for place in places}
        fitting = [place for place in places if told[place] is None]
        if fitting:
            return fitting
        reasons += [reason for reason in told.values() if reason is not None]
    if reasons:
        raise IllegalRewrite(reasons[0], hint=hint, span=entry.span)
    return []


def is_walked(leaf: ComputeOp, axis: str, around: Sequence[ForOp]) -> bool:
    """Whether a bare name means an axis as a leaf walks it, and not one of the loops ``around``."""
    size = size_of(leaf, axis)
    if size == 1 or all(loop.trip_count == 1 for loop in around):
        return size > 1
    folded = axis in {each.data for each in leaf.reduce_axes}
    return size >= SHORTEST_FOLD if folded else size > LONGEST_TILE


def size_of(leaf: ComputeOp, axis: str) -> int:
    """Points of an axis of a leaf; 1 where it has none of that name."""
    return dict(zip(leaf.axis_names, leaf.sizes, strict=True)).get(axis, 1)


def _holds(loop: Operation, others: list[Loop]) -> bool:
    return any(other is not loop and loop.is_ancestor(other) for other in others)
