"""Loops that walk a leaf in vectors: around the lanes, along them, and the masked rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr

from wia_compiler.backends.cpu.lane_plan import LanePlan
from wia_compiler.dialects.loop_hints import hand_on
from wia_compiler.passes.affine import LinearForm, linear_form
from wia_compiler.passes.emit_index import INDEX, IndexEmitter

Points = list[SSAValue]
"""A place for each axis of a leaf."""
Values = list[SSAValue]
"""What loops carry."""

_STRAIGHT = 4
"""So many points or vectors are written out rather than looped over."""


@dataclass(frozen=True)
class Place:
    """Where code for one vector is written.

    ``room`` is how many lanes take part (``None``: all). ``aligned`` says that the first streamed
    output is at a multiple of a vector's size.
    """

    emitter: IndexEmitter
    points: Points
    room: SSAValue | None = None
    aligned: bool = False


Inside = Callable[[IndexEmitter, Points, Values], Values]
OnLanes = Callable[[Place, Values], Values]


@dataclass(frozen=True)
class LaneWalk:
    """The loops of one leaf."""

    plan: LanePlan

    def start(self, emitter: IndexEmitter) -> Points:
        """Every axis at its first point."""
        return [emitter.constant(0) for _ in self.plan.leaf.sizes]

    def loops(
        self,
        emitter: IndexEmitter,
        axes: tuple[int, ...],
        points: Points,
        held: Values,
        inside: Inside,
    ) -> Values:
        """Loops over ``axes``, outermost first, one point at a time; what they carry to the end."""
        if not axes:
            return inside(emitter, points, held)
        axis, *rest = axes
        size = self.plan.leaf.sizes[axis]

        def step(emitter: IndexEmitter, points: Points, held: Values) -> Values:
            return self.loops(emitter, tuple(rest), points, held, inside)

        if size == 1 and axis not in self.plan.ends:
            return step(emitter, points, held)
        if size <= _STRAIGHT and axis not in self.plan.ends:
            for number in range(size):
                held = step(emitter, _with(points, axis, emitter.constant(number)), held)
            return held
        return self._loop(emitter, axis, points, held, self.end(emitter, axis, points), step)

    def lanes(
        self, emitter: IndexEmitter, points: Points, held: Values, on_lanes: OnLanes
    ) -> Values:
        """Whole vectors along the lanes, then one with the lanes that are left."""
        plan, axis = self.plan, self.plan.axis
        end = self.end(emitter, axis, points)
        count = emitter.constant_of(end)
        if count is not None:
            whole = count - count % plan.lanes
            held = self._whole(emitter, points, held, on_lanes, 0, whole)
            if whole == count:
                return held
            at = _with(points, axis, emitter.constant(whole))
            return on_lanes(Place(emitter, at, emitter.constant(count - whole)), held)
        zero = emitter.constant(0)
        end = emitter.binary(arith.MaxSIOp, end, zero)
        rest = emitter.binary(arith.RemUIOp, end, emitter.constant(plan.lanes))
        whole_end = emitter.subtract(end, rest)
        held = self._vectors(emitter, points, held, on_lanes, (zero, whole_end), aligned=False)
        return self._rest(emitter, points, held, on_lanes, whole_end, rest)

    def aligned_lanes(
        self, emitter: IndexEmitter, points: Points, head: SSAValue, on_lanes: OnLanes
    ) -> None:
        """As ``lanes``, with nothing carried, and ``head`` points before the first whole vector."""
        axis = self.plan.axis
        zero = emitter.constant(0)
        end = emitter.binary(arith.MaxSIOp, self.end(emitter, axis, points), zero)
        head = emitter.minimum(head, end)
        self._rest(emitter, points, [], on_lanes, zero, head)
        left = emitter.subtract(end, head)
        rest = emitter.binary(arith.RemUIOp, left, emitter.constant(self.plan.lanes))
        whole_end = emitter.subtract(end, rest)
        self._vectors(emitter, points, [], on_lanes, (head, whole_end), aligned=True)
        self._rest(emitter, points, [], on_lanes, whole_end, rest)

    def end(self, emitter: IndexEmitter, axis: int, points: Points) -> SSAValue:
        """Where an axis ends: at its extent, or where a bound is reached."""
        end = emitter.constant(self.plan.leaf.sizes[axis])
        for condition in self.plan.ends.get(axis, ()):
            form = linear_form(condition.expression)
            terms = {atom: c for atom, c in form.terms.items() if atom != AffineDimExpr(axis)}
            rest = LinearForm(terms, form.constant).expression()
            used = emitter.affine(rest, points, self.plan.context.ivs)
            end = emitter.minimum(end, emitter.subtract(emitter.constant(condition.limit), used))
        return end

    def _whole(
        self,
        emitter: IndexEmitter,
        points: Points,
        held: Values,
        on_lanes: OnLanes,
        start: int,
        end: int,
    ) -> Values:
        """Whole vectors between constant places."""
        lanes = self.plan.lanes
        if end - start > _STRAIGHT * lanes:
            ends = emitter.constant(start), emitter.constant(end)
            return self._vectors(emitter, points, held, on_lanes, ends, aligned=False)
        for first in range(start, end, lanes):
            at = _with(points, self.plan.axis, emitter.constant(first))
            held = on_lanes(Place(emitter, at), held)
        return held

    def _vectors(
        self,
        emitter: IndexEmitter,
        points: Points,
        held: Values,
        on_lanes: OnLanes,
        ends: tuple[SSAValue, SSAValue],
        *,
        aligned: bool,
    ) -> Values:
        """A loop over whole vectors; it takes the hints of its axis."""
        axis = self.plan.axis

        def step(emitter: IndexEmitter, points: Points, held: Values) -> Values:
            return on_lanes(Place(emitter, points, aligned=aligned), held)

        return self._loop(
            emitter, axis, points, held, ends[1], step, start=ends[0], step=self.plan.lanes
        )

    def _rest(
        self,
        emitter: IndexEmitter,
        points: Points,
        held: Values,
        on_lanes: OnLanes,
        first: SSAValue,
        room: SSAValue,
    ) -> Values:
        """One vector of ``room`` lanes from ``first``, where there are any."""
        some = emitter.emit(arith.CmpiOp(room, emitter.constant(0), "ne"))
        taken, skipped = Block(), Block()
        inside = emitter.nested(taken)
        at = _with(points, self.plan.axis, first)
        results = on_lanes(Place(inside, at, room), held)
        emitter.close(taken, *results)
        emitter.close(skipped, *held)
        otherwise = Region(skipped) if results else None
        types = [value.type for value in results]
        branch = scf.IfOp(some, types, Region(taken), otherwise)
        emitter.put(branch)
        return list(branch.results)

    def _loop(
        self,
        emitter: IndexEmitter,
        axis: int,
        points: Points,
        held: Values,
        end: SSAValue,
        inside: Inside,
        *,
        start: SSAValue | None = None,
        step: int = 1,
    ) -> Values:
        leaf = self.plan.leaf
        name = leaf.axis_names[axis]
        body = Block(arg_types=[INDEX, *(value.type for value in held)])
        body.args[0].name_hint = name
        for argument, value in zip(body.args[1:], held, strict=True):
            argument.name_hint = value.name_hint
        at = _with(points, axis, body.args[0])
        results = inside(emitter.nested(body), at, list(body.args[1:]))
        emitter.close(body, *results)
        first = emitter.constant(0) if start is None else start
        loop = scf.ForOp(first, end, emitter.constant(step), held, Region(body))
        hand_on(leaf, name, loop)
        emitter.put(loop)
        return list(loop.results)


def _with(points: Points, axis: int, value: SSAValue) -> Points:
    return [*points[:axis], value, *points[axis + 1 :]]
