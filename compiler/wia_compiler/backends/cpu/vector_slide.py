"""Windows that slide over an input as vector code: one window a lane, all taps written out.

::

    reduce m[j] = max(m[j], x[2 * j + r])   over r = 3
      even = lanes 0, 2, … of two vectors from x[2 * j]     odd = lanes 1, 3, … of the same two
      next = lanes 0, 2, … of two vectors from x[2 * j + 2]
      m = max(max(max(m, even), odd), next)

Taps outside of the input, and windows past the end of the axis, are lanes that are off. Which ones
is mostly known here; where it depends on a loop, whole tiles have code without tests.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineSymExpr

from wia_compiler.backends.cpu.flat import flat_view
from wia_compiler.backends.cpu.slide_lanes import (
    ceiling,
    extreme,
    mask_of,
    picked_lanes,
    place_of,
    shifted,
)
from wia_compiler.backends.cpu.slide_plan import SlidePlan
from wia_compiler.backends.cpu.vector_body import emit_vector_body
from wia_compiler.backends.cpu.vector_plan import Condition
from wia_compiler.backends.cpu.vector_versions import write_versions
from wia_compiler.dialects.arith_lanes import SelectLanesOp
from wia_compiler.passes.affine import LinearForm, linear_form, range_of
from wia_compiler.passes.emit_index import INDEX, IndexEmitter
from wia_compiler.passes.lane_ops import splat
from wia_compiler.passes.llvm.types import num_elements

Numbers = Mapping[int, int]
"""Axes whose place is a number here."""
Sum = tuple[int, tuple[int, ...], int]
"""A vector of sums: its output, the points of the row axes, the chunk along the lanes."""


def lower_slide(plan: SlidePlan, builder: Builder) -> None:
    """Write the leaf's vector code at the builder's place."""
    emitter = IndexEmitter(builder, plan.leaf.location)
    operands = [*plan.leaf.inputs, *plan.leaf.outputs]
    views = [flat_view(emitter, plan.context.array(value)) for value in operands]
    tested = [each for each in plan.tests.every if _varies(plan, each)]
    write_versions(
        plan.leaf,
        plan.context.ivs,
        emitter,
        tested,
        lambda inside, masked: _Version(plan, views, masked=masked).write(inside),
    )


def _varies(plan: SlidePlan, condition: Condition) -> bool:
    """Whether a condition depends on loops around the leaf, or on one of its own."""
    terms = linear_form(condition.expression).terms
    own = {AffineDimExpr(axis) for axis in plan.loops}
    return any(isinstance(atom, AffineSymExpr) or atom in own for atom in terms)


@dataclass(frozen=True)
class _Lanes:
    """Which lanes take part: those from ``first`` to before ``end``, values or numbers."""

    first: SSAValue | int
    end: SSAValue | int


@dataclass
class _Point:
    """One point of the folded axes for a row and a chunk."""

    emitter: IndexEmitter
    numbers: Numbers
    loops: Mapping[int, SSAValue]
    known: dict[object, SSAValue] = field(default_factory=dict[object, SSAValue])


class _Version:
    """One version of the code: with the tests that depend on loops (``masked``), or without."""

    def __init__(self, plan: SlidePlan, views: Sequence[SSAValue], *, masked: bool):
        self.plan, self.views, self.masked = plan, views, masked

    def write(self, emitter: IndexEmitter) -> None:
        """The whole leaf."""
        plan, leaf = self.plan, self.plan.leaf
        rows = list(itertools.product(*(range(leaf.sizes[axis]) for axis in plan.rows)))
        sums: list[Sum] = [
            (output, row, chunk)
            for output in range(len(leaf.outputs))
            for row in rows
            for chunk in range(plan.chunks)
        ]
        held = [self._held(emitter, each) for each in sums]
        results = self._loop(emitter, list(plan.loops), {}, sums, held)
        for each, value in zip(sums, results, strict=True):
            self._store(emitter, each, value)

    def _loop(
        self,
        emitter: IndexEmitter,
        axes: list[int],
        at: Mapping[int, SSAValue],
        sums: list[Sum],
        held: list[SSAValue],
    ) -> list[SSAValue]:
        """Loops over the folded axes that are not written out, the sums carried along."""
        if not axes:
            return self._taps(emitter, at, sums, held)
        axis, *rest = axes
        start, end, step = (emitter.constant(n) for n in (0, self.plan.leaf.sizes[axis], 1))
        body = Block(arg_types=[INDEX, *(value.type for value in held)])
        body.args[0].name_hint = self.plan.leaf.axis_names[axis]
        inner = {**at, axis: body.args[0]}
        results = self._loop(emitter.nested(body), rest, inner, sums, list(body.args[1:]))
        emitter.close(body, *results)
        loop = scf.ForOp(start, end, step, held, Region(body))
        emitter.put(loop)
        return list(loop.results)

    def _taps(
        self,
        emitter: IndexEmitter,
        at: Mapping[int, SSAValue],
        sums: list[Sum],
        held: list[SSAValue],
    ) -> list[SSAValue]:
        """Every tap of every window, in the order of the leaf."""
        plan, leaf = self.plan, self.plan.leaf
        current = dict(zip(sums, held, strict=True))
        known: dict[object, SSAValue] = {}
        places = list(dict.fromkeys((row, chunk) for _, row, chunk in sums))
        for taps in itertools.product(*(range(leaf.sizes[axis]) for axis in plan.taps)):
            for row, chunk in places:
                numbers = {
                    **dict(zip(plan.taps, taps, strict=True)),
                    **dict(zip(plan.rows, row, strict=True)),
                    plan.axis: chunk * plan.lanes,
                }
                point = _Point(emitter, numbers, at, known)
                lanes = self._lanes(point, plan.tests.bounds)
                if lanes == _Lanes(0, 0):
                    continue  # these windows have no such tap
                inputs = [self._input(point, n, lanes) for n in range(len(leaf.inputs))]
                before = [current[(n, row, chunk)] for n in range(len(leaf.outputs))]
                after = emit_vector_body(leaf, emitter, [*inputs, *before], plan.lanes)
                mask = self._mask(point, lanes)
                for output, value in enumerate(after):
                    if mask is not None:
                        value = emitter.emit(SelectLanesOp(mask, value, before[output]))
                    current[(output, row, chunk)] = value
        return [current[each] for each in sums]

    def _lanes(self, point: _Point, conditions: Sequence[Condition]) -> _Lanes:
        """The lanes in which all conditions hold, and that lie before the end of the axis."""
        plan, emitter = self.plan, point.emitter
        size = plan.leaf.sizes[plan.axis] - point.numbers[plan.axis]
        first: list[SSAValue | int] = [0]
        end: list[SSAValue | int] = [min(plan.lanes, size)]
        tests: list[SSAValue] = []
        for condition in conditions:
            form = linear_form(condition.expression)
            low, high = self._extremes(point, form)
            if (low >= 0 and high < condition.limit) or (
                not self.masked and _varies(plan, condition)
            ):
                continue
            step = form.terms.get(AffineDimExpr(plan.axis), 0)
            rest, number = self._value(point, form)
            if step == 0:
                if rest is None:
                    return _Lanes(0, 0)
                value = emitter.add(rest, emitter.constant(number))
                tests.append(emitter.below(value, condition.limit))
            elif rest is None:
                first.append(-(number // step))
                end.append(-((number - condition.limit) // step))
            else:
                first.append(ceiling(emitter, rest, -number, step))
                end.append(ceiling(emitter, rest, condition.limit - number, step))
        lanes = _Lanes(extreme(emitter, first, largest=True), extreme(emitter, end, largest=False))
        if isinstance(lanes.first, int) and isinstance(lanes.end, int) and lanes.first >= lanes.end:
            return _Lanes(0, 0)
        if not tests:
            return lanes
        last = lanes.end if isinstance(lanes.end, SSAValue) else emitter.constant(lanes.end)
        allowed = emitter.both(list(dict.fromkeys(tests)))
        return _Lanes(lanes.first, emitter.emit(arith.SelectOp(allowed, last, emitter.constant(0))))

    def _extremes(self, point: _Point, form: LinearForm) -> tuple[int, int]:
        """The smallest and largest value of a condition in the lanes of a chunk."""
        plan, sizes = self.plan, self.plan.leaf.sizes
        dims = [(0, size - 1) for size in sizes]
        for axis, number in point.numbers.items():
            dims[axis] = (number, number)
        start = point.numbers[plan.axis]
        dims[plan.axis] = (start, min(start + plan.lanes, sizes[plan.axis]) - 1)
        found = range_of(form.expression(), dims, plan.context.symbol_ranges)
        return found if found is not None else (-(1 << 62), 1 << 62)

    def _value(self, point: _Point, form: LinearForm) -> tuple[SSAValue | None, int]:
        """A sum as what is computed and a number: all that is known here is in the latter."""
        emitter, number = point.emitter, form.constant
        total: SSAValue | None = None
        for atom, factor in form.terms.items():
            if isinstance(atom, AffineDimExpr) and atom.position not in point.loops:
                number += factor * point.numbers.get(atom.position, 0)
                continue
            dims = [
                point.loops.get(n, emitter.constant(0)) for n in range(len(self.plan.leaf.sizes))
            ]
            value = emitter.affine(atom, dims, self.plan.context.ivs)
            term = emitter.scale(value, factor)
            total = term if total is None else emitter.add(total, term)
        return total, number

    def _input(self, point: _Point, operand: int, lanes: _Lanes) -> SSAValue:
        """An input in each lane: 0 where it is off, or where a padded input has no element."""
        plan = self.plan
        padding = plan.tests.padding[operand]
        if padding:
            lanes = self._lanes(point, [*plan.tests.bounds, *padding])
        rest, number = self._value(point, plan.places[operand])
        key = (operand, rest, number, lanes)
        if key not in point.known:
            step = plan.step(operand)
            load = self._strided if step else self._same
            point.known[key] = load(point, operand, lanes, rest, number)
        return point.known[key]

    def _type(self, operand: int, lanes: int) -> VectorType[Attribute]:
        element = cast("MemRefType[Attribute]", self.views[operand].type).element_type
        return VectorType(element, [lanes])

    def _same(
        self, point: _Point, operand: int, lanes: _Lanes, rest: SSAValue | None, number: int
    ) -> SSAValue:
        """One element for all lanes."""
        emitter, type_ = point.emitter, self._type(operand, self.plan.lanes)
        if lanes == _Lanes(0, 0):
            return emitter.emit(splat(0, type_))
        place = place_of(emitter, rest, number)
        inside: SSAValue | None = None
        if isinstance(lanes.end, SSAValue):
            # Where no lane takes part, the element may not exist: another one is read.
            inside = emitter.emit(arith.CmpiOp(lanes.end, emitter.constant(0), "sgt"))
            place = emitter.emit(arith.SelectOp(inside, place, emitter.constant(0)))
        scalar = emitter.emit(memref.LoadOp.get(self.views[operand], [place]))
        value = emitter.emit(vector.BroadcastOp(scalar, type_))
        if inside is None or not self.plan.tests.padding[operand]:
            return value
        return emitter.emit(arith.SelectOp(inside, value, emitter.emit(splat(0, type_))))

    def _strided(
        self, point: _Point, operand: int, lanes: _Lanes, rest: SSAValue | None, number: int
    ) -> SSAValue:
        """Every ``step``-th element: whole vectors are loaded, their lanes picked."""
        plan, emitter, step = self.plan, point.emitter, self.plan.step(operand)
        if lanes == _Lanes(0, 0):
            return emitter.emit(splat(0, self._type(operand, plan.lanes)))
        # Taps beside one another pick from the same vectors: these start at a multiple of the step.
        phase = number % step
        vectors = [
            self._vector(point, operand, lanes, rest, number - phase, phase, part)
            for part in range(step)
        ]
        return picked_lanes(emitter, vectors, phase, step, plan.lanes)

    def _vector(
        self,
        point: _Point,
        operand: int,
        lanes: _Lanes,
        rest: SSAValue | None,
        number: int,
        phase: int,
        part: int,
    ) -> SSAValue:
        """The ``part``-th vector from a place on, only the elements that ``lanes`` pick."""
        emitter, step, count = point.emitter, self.plan.step(operand), self.plan.lanes
        skipped = part * count
        first = shifted(emitter, lanes.first, step, phase - skipped)
        end = shifted(emitter, lanes.end, step, phase - step + 1 - skipped)
        if self._has_neighbours(operand, point, lanes, number):
            # Elements between the picked ones exist: they may be loaded too, and be shared.
            first = shifted(emitter, lanes.first, step, -skipped)
            end = shifted(emitter, lanes.end, step, -skipped)
        place, type_ = place_of(emitter, rest, number + skipped), self._type(operand, count)
        if isinstance(first, int) and isinstance(end, int):
            first, end = max(first, 0), min(end, count)
            if first >= end:
                return emitter.emit(splat(0, type_))
        key = ("vector", operand, place, first, end)
        if key in point.known:
            return point.known[key]
        if (first, end) == (0, count):
            made = emitter.emit(vector.LoadOp(self.views[operand], [place], type_))
        else:
            mask = mask_of(emitter, first, end, count)
            zero = emitter.emit(splat(0, type_))
            made = emitter.emit(
                vector.MaskedLoadOp(self.views[operand], [place], mask, zero, type_)
            )
        point.known[key] = made
        return made

    def _has_neighbours(self, operand: int, point: _Point, lanes: _Lanes, number: int) -> bool:
        """Whether all elements up to the last picked one's ``step`` are known to exist."""
        if not isinstance(lanes.first, int) or not isinstance(lanes.end, int):
            return False
        plan, step = self.plan, self.plan.step(operand)
        form = plan.places[operand]
        varying = {
            atom: factor
            for atom, factor in form.terms.items()
            if not isinstance(atom, AffineDimExpr) or atom.position in point.loops
        }
        dims = [(0, size - 1) for size in plan.leaf.sizes]
        expression = LinearForm(varying, number).expression()
        found = range_of(expression, dims, plan.context.symbol_ranges)
        size = num_elements(cast("MemRefType[Attribute]", self.views[operand].type))
        if found is None:
            return False
        return found[0] + lanes.first * step >= 0 and found[1] + lanes.end * step <= size

    def _mask(self, point: _Point, lanes: _Lanes) -> SSAValue | None:
        """The lanes that change; ``None`` where all do, or nobody sees those that should not."""
        if lanes.first == 0 and isinstance(lanes.end, int):
            size = self.plan.leaf.sizes[self.plan.axis] - point.numbers[self.plan.axis]
            if lanes.end >= min(self.plan.lanes, size):
                return None
        key = ("mask", lanes)
        if key not in point.known:
            made = mask_of(point.emitter, lanes.first, lanes.end, self.plan.lanes)
            point.known[key] = made
        return point.known[key]

    def _held(self, emitter: IndexEmitter, each: Sum) -> SSAValue:
        """What an output holds."""
        output, _, chunk = each
        operand = len(self.plan.leaf.inputs) + output
        place, count = self._output_place(emitter, each), self._count(chunk)
        type_ = self._type(operand, self.plan.lanes)
        if count == self.plan.lanes:
            return emitter.emit(vector.LoadOp(self.views[operand], [place], type_))
        mask, zero = mask_of(emitter, 0, count, self.plan.lanes), emitter.emit(splat(0, type_))
        return emitter.emit(vector.MaskedLoadOp(self.views[operand], [place], mask, zero, type_))

    def _store(self, emitter: IndexEmitter, each: Sum, value: SSAValue) -> None:
        output, _, chunk = each
        operand = len(self.plan.leaf.inputs) + output
        place, count = self._output_place(emitter, each), self._count(chunk)
        store: Operation = vector.StoreOp(value, self.views[operand], [place])
        if count < self.plan.lanes:
            mask = mask_of(emitter, 0, count, self.plan.lanes)
            store = vector.MaskedStoreOp.build(operands=[self.views[operand], [place], mask, value])
        emitter.put(store)

    def _count(self, chunk: int) -> int:
        """Lanes of a chunk that lie before the end of the axis."""
        return min(self.plan.lanes, self.plan.leaf.sizes[self.plan.axis] - chunk * self.plan.lanes)

    def _output_place(self, emitter: IndexEmitter, each: Sum) -> SSAValue:
        output, row, chunk = each
        numbers = {
            **dict(zip(self.plan.rows, row, strict=True)),
            self.plan.axis: chunk * self.plan.lanes,
        }
        point = _Point(emitter, numbers, {})
        form = self.plan.places[len(self.plan.leaf.inputs) + output]
        return place_of(emitter, *self._value(point, form))
