"""Which leaves a CPU turns as it moves them, and how: inputs dense along one axis, the result
along another, as in a transpose or where sums that lie channel by channel are written row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir.affine import AffineDimExpr

from wia_compiler.backends.cpu.flat import Tests, places_of, tests_of
from wia_compiler.backends.cpu.lane_plan import has_vector_body
from wia_compiler.backends.cpu.vector_plan import Condition, element_bytes
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import LinearForm, atoms, linear_form
from wia_compiler.passes.emit_leaf import LeafContext

_FEWEST = 4
"""Fewer points along one of the two axes are not worth turning: scalars move them."""


@dataclass(frozen=True)
class TurnAxis:
    """Axes of a leaf that are walked as one, outermost first: all operands lie alike along them."""

    dims: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class TurnPlan:
    """How a leaf is turned.

    Inputs are read ``lanes`` points along ``across`` at a time, squares of ``side`` points are
    turned, and results written along ``along``; ``others`` are walked by loops. ``places`` has the
    place of each operand's element, counted from its first. The body is computed before the turn
    (``body_first``) or after it; ``turned`` are the inputs that are turned in the latter case.
    """

    context: LeafContext
    across: TurnAxis
    along: TurnAxis
    others: tuple[TurnAxis, ...]
    lanes: int
    side: int
    places: tuple[LinearForm, ...]
    body_first: bool
    turned: tuple[bool, ...]
    tests: Tests

    @property
    def leaf(self) -> ComputeOp:
        """The leaf."""
        return self.context.leaf

    def step(self, operand: int, axis: TurnAxis) -> int:
        """Elements from one point of an axis to the next, of an input or (-1) the output."""
        return _step(self.places[operand], axis)


def plan_turn(context: LeafContext, vector_bytes: int) -> TurnPlan | None:
    """How to turn a leaf with vectors of ``vector_bytes``; ``None`` where nothing is turned."""
    leaf = context.leaf
    if leaf.kind.data not in ("map", "copy") or len(leaf.outputs) != 1 or not leaf.inputs:
        return None
    places, tests = places_of(leaf), tests_of(context)
    if not has_vector_body(leaf) or places is None or tests is None:
        return None
    axes = _joined_axes(leaf, places, tests.every)
    along = _largest(axes, [axis for axis in axes if _step(places[-1], axis) == 1])
    if along is None:
        return None
    turned = _largest(axes, [a for a in axes if a is not along and _turns(places, a, along)])
    if turned is None:
        return None
    if not all(_is_testable(each, turned, along) for each in tests.every):
        return None
    steps = [(_step(place, turned), _step(place, along)) for place in places[:-1]]
    body_first = all(across in (0, 1) for across, _ in steps)
    flags = tuple(across == 1 and own not in (0, 1) for across, own in steps)
    if not body_first and any(
        own not in (0, 1) and not flag for (_, own), flag in zip(steps, flags, strict=True)
    ):
        return None
    whole = vector_bytes // element_bytes(leaf)
    lanes = min(whole, 1 << (turned.size - 1).bit_length())
    side = min(lanes, 1 << (along.size - 1).bit_length())
    others = tuple(axis for axis in axes if axis is not along and axis is not turned)
    return TurnPlan(context, turned, along, others, lanes, side, places, body_first, flags, tests)


def _joined_axes(
    leaf: ComputeOp, places: Sequence[LinearForm], conditions: Sequence[Condition]
) -> list[TurnAxis]:
    """The leaf's axes of more than one point; neighbours that all operands walk on are one."""
    tested = {atom for each in conditions for atom in atoms(each.expression)}
    made: list[TurnAxis] = []
    for number, size in enumerate(leaf.sizes):
        if size == 1:
            continue
        axis = TurnAxis((number,), size)
        if made and not {AffineDimExpr(n) for n in (*made[-1].dims, number)} & tested:
            before = made[-1]
            if all(_step(p, before) == size * _step(p, axis) for p in places):
                made[-1] = TurnAxis((*before.dims, number), before.size * size)
                continue
        made.append(axis)
    return made


def _step(place: LinearForm, axis: TurnAxis) -> int:
    return place.terms.get(AffineDimExpr(axis.dims[-1]), 0)


def _largest(axes: Sequence[TurnAxis], found: Sequence[TurnAxis]) -> TurnAxis | None:
    large = [axis for axis in found if axis.size >= _FEWEST]
    return max(large, key=lambda axis: axis.size, default=None)


def _turns(places: Sequence[LinearForm], across: TurnAxis, along: TurnAxis) -> bool:
    """Whether an input is dense across while it jumps along the axis of the result."""
    return any(
        _step(place, across) == 1 and _step(place, along) not in (0, 1) for place in places[:-1]
    )


def _is_testable(condition: Condition, across: TurnAxis, along: TurnAxis) -> bool:
    """Whether a condition is about lanes one way at most, and counts them up one by one."""
    form = linear_form(condition.expression)
    steps = [_step(form, axis) for axis in (across, along)]
    return all(step in (0, 1) for step in steps) and sum(steps) <= 1


def condition_step(condition: Condition, axis: TurnAxis) -> int:
    """How a condition's expression grows along an axis."""
    return _step(linear_form(condition.expression), axis)
