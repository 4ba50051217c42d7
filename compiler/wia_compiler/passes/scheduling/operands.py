"""Which leaves read an array, and where a copy of what they read belongs."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from wia_compiler.base.schedule import Entry
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.scheduling.nest import ScheduledNest, arrays_of
from wia_compiler.passes.tile_rewrites import IllegalRewrite, axis_of, loops_around, scope_of
from wia_compiler.passes.tile_rewrites.nest import walking_loops
from wia_compiler.passes.tile_rewrites.staging import reading_order


def readers_of(nest: ScheduledNest, entry: Entry, array: SSAValue) -> list[tuple[ComputeOp, int]]:
    """The leaves that read an array, each with the number of the operand.

    Folds are meant where there are any: they read an element often. ``A.1`` means the second place
    at which such a leaf reads ``A``. ``IllegalRewrite`` where nothing reads it, or the nest writes
    it too.
    """
    leaves = nest.leaves()
    if any(array in leaf.outputs for leaf in leaves):
        raise IllegalRewrite(
            f"the nest writes {entry.name}: a copy of it would go stale",
            hint="copy what is only read; sums stay in registers without it",
            span=entry.span,
        )
    found = [(leaf, n) for leaf in leaves for n, each in enumerate(leaf.inputs) if each is array]
    folds = [(leaf, n) for leaf, n in found if leaf.folds]
    if found and all(_is_copied(leaf) for leaf, _ in found):
        raise IllegalRewrite(
            f"{entry.name} is copied already", hint="copy it once", span=entry.span
        )
    found = folds or found
    _, dot, number = (entry.name or "").partition(".")
    if dot:
        places = [place for place in found if place[0] is found[0][0]]
        if not number.isdigit() or int(number) >= len(places):
            raise IllegalRewrite(
                f"{entry.name}: the leaf reads the array at {len(places)} places",
                hint="count them from .0",
                span=entry.span,
            )
        return [places[int(number)]]
    if not found:
        raise IllegalRewrite(f"no leaf reads {entry.name}", span=entry.span)
    return found


def _is_copied(leaf: ComputeOp) -> bool:
    """Whether a leaf only copies to a buffer of the nest."""
    return leaf.kind.data == "copy" and all(scope_of(value) for value in leaf.outputs)


def copy_place(nest: ScheduledNest, entry: Entry, leaf: ComputeOp, operand: int) -> ForOp | None:
    """The loop in which a copy of an operand stands, before all loops within.

    That which the entry names, else the innermost one around loops that use the same tile again.
    ``None`` where axes have one point for these arguments, so that there is nothing to copy.
    """
    around = loops_around(leaf)
    place = _named(nest, entry, around) if entry.at is not None else _reused(leaf, operand, around)
    if place is None:
        if nest.unit_axes():
            return None
        raise IllegalRewrite(
            f"no loop of the nest would use a copy of {entry.name} again",
            hint=f"name the loop: {entry.name} at LOOP",
            span=entry.span,
        )
    if not reading_order(leaf, operand, place):
        if nest.unit_axes():
            return None
        raise IllegalRewrite(
            f"one element of {entry.name} is read inside {place.axis.data}",
            hint="choose a loop further out",
            span=entry.span,
        )
    return place


def _named(nest: ScheduledNest, entry: Entry, around: Sequence[ForOp]) -> ForOp | None:
    named = [each for each in around if entry.at in (each.axis.data, axis_of(each))]
    if named:
        return named[-1]
    loop = nest.loop(entry, entry.at)
    raise IllegalRewrite(
        f"{loop.axis.data} is not around the leaf that reads {entry.name}",
        hint=f"choose one of {', '.join(each.axis.data for each in around)}",
        span=entry.span,
    )


def _reused(leaf: ComputeOp, operand: int, around: Sequence[ForOp]) -> ForOp | None:
    walking = walking_loops(leaf, operand)
    place = len(around)
    while place and around[place - 1] in walking:
        place -= 1  # loops inside of which nothing is used twice: the copy holds all they walk
    while place and around[place - 1] not in walking:
        place -= 1
    return around[place - 1] if place else None


def operand_name(nest: FuncOp, leaf: ComputeOp, operand: int) -> str:
    """How a directive names an input of a leaf: ``A``, or ``A.1`` where the leaf reads it twice."""
    array = leaf.inputs[operand]
    (name,) = (name for name, value in arrays_of(nest).items() if value is array)
    places = [number for number, each in enumerate(leaf.inputs) if each is array]
    return name if len(places) == 1 else f"{name}.{places.index(operand)}"
