"""A leaf that is turned: vectors along one axis in, vectors along another out, in registers.

::

    map y[f, x] = relu(acc[x, f])        f = 32, x = 8
      8 × 2 vectors of 16 f  →  body  →  turns of 8 × 8  →  32 vectors of 8 x, stored row by row
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import MemRefType, VectorType, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr

from wia_compiler.backends.cpu.flat import emit_form, flat_view
from wia_compiler.backends.cpu.turn_plan import TurnAxis, TurnPlan, condition_step
from wia_compiler.backends.cpu.turn_square import shuffle, turn_square
from wia_compiler.backends.cpu.vector_body import emit_vector_body
from wia_compiler.backends.cpu.vector_plan import Condition
from wia_compiler.backends.cpu.vector_versions import write_versions
from wia_compiler.dialects.shared_attributes import vector_type
from wia_compiler.passes.affine import LinearForm, linear_form
from wia_compiler.passes.emit_index import INDEX, IndexEmitter
from wia_compiler.passes.lane_ops import splat

_WRITTEN_OUT = 1
"""So many blocks of points stand without a loop. A block is some hundred instructions: written
twice it runs as fast as in a loop, and takes twice as long to compile.
"""

Places = dict[int, SSAValue]
"""Where each axis of the leaf stands; the others at 0."""


def lower_turn(plan: TurnPlan, builder: Builder) -> None:
    """Write the leaf's vector code at the builder's place."""
    emitter = IndexEmitter(builder, plan.leaf.location)
    views = [flat_view(emitter, plan.context.array(value)) for value in _operands(plan)]
    tested = plan.tests.every
    write_versions(
        plan.leaf,
        plan.context.ivs,
        emitter,
        tested,
        lambda inside, masked: _Version(plan, views, masked=masked).write(inside),
    )


def _operands(plan: TurnPlan) -> list[SSAValue]:
    return [*plan.leaf.inputs, *plan.leaf.outputs]


class _Version:
    """One version of the code: for whole tiles, or ``masked`` for those at an edge."""

    def __init__(self, plan: TurnPlan, views: Sequence[SSAValue], *, masked: bool):
        self.plan, self.views, self.masked = plan, views, masked

    def write(self, emitter: IndexEmitter) -> None:
        """The whole leaf."""
        self._walk(emitter, list(self.plan.others), {})

    def _walk(self, emitter: IndexEmitter, axes: list[TurnAxis], at: Places) -> None:
        """Every point of the axes that are not turned, then the blocks of those that are."""
        if axes:
            axis, *rest = axes
            self._each(emitter, axis, 1, lambda e, value, _: self._walk(e, rest, {**at, **value}))
            return
        plan = self.plan

        def rows(inner: IndexEmitter, along: Places, count: int) -> None:
            def block(deep: IndexEmitter, across: Places, width: int) -> None:
                self._block(deep, {**at, **along, **across}, count, width)

            self._each(inner, plan.across, plan.lanes, block)

        self._each(emitter, plan.along, plan.side, rows)

    def _each(
        self,
        emitter: IndexEmitter,
        axis: TurnAxis,
        step: int,
        write: Callable[[IndexEmitter, Places, int], None],
    ) -> None:
        """``step`` points of an axis at a time, and what is left over at the end."""
        whole = axis.size // step
        if whole > _WRITTEN_OUT:
            body = Block(arg_types=[INDEX])
            body.args[0].name_hint = self.plan.leaf.axis_names[axis.dims[-1]]
            write(emitter.nested(body), {axis.dims[-1]: body.args[0]}, step)
            emitter.close(body)
            start, end, by = (emitter.constant(each) for each in (0, whole * step, step))
            emitter.put(scf.ForOp(start, end, by, [], Region(body)))
        else:
            for number in range(whole):
                write(emitter, {axis.dims[-1]: emitter.constant(number * step)}, step)
        if axis.size % step:
            last = {axis.dims[-1]: emitter.constant(whole * step)}
            write(emitter, last, axis.size % step)

    def _block(self, emitter: IndexEmitter, at: Places, rows: int, width: int) -> None:
        """``rows`` points along the result's axis by ``width`` across."""
        plan, leaf = self.plan, self.plan.leaf
        points = [self._moved(emitter, at, plan.along, row) for row in range(rows)]
        known: dict[object, SSAValue] = {}
        if plan.body_first:
            computed: list[SSAValue] = []
            for point in points:
                values = [
                    self._load(emitter, number, plan.across, plan.lanes, point, width, known)
                    for number in range(len(leaf.inputs))
                ]
                computed += emit_vector_body(leaf, emitter, values, plan.lanes, known)
            results = self._turn(emitter, computed)
            for number in range(width):
                self._store(
                    emitter, self._moved(emitter, at, plan.across, number), rows, results[number]
                )
            return
        turned: dict[int, list[SSAValue]] = {}
        for number, flag in enumerate(plan.turned):
            if flag:
                loaded = [
                    self._load(emitter, number, plan.across, plan.lanes, point, width, known)
                    for point in points
                ]
                turned[number] = self._turn(emitter, loaded)
        for column in range(width):
            point = self._moved(emitter, at, plan.across, column)
            values = [
                turned[number][column]
                if number in turned
                else self._load(emitter, number, plan.along, plan.side, point, rows, known)
                for number in range(len(leaf.inputs))
            ]
            (result,) = emit_vector_body(leaf, emitter, values, plan.side, known)
            self._store(emitter, point, rows, result)

    def _moved(self, emitter: IndexEmitter, at: Places, axis: TurnAxis, by: int) -> Places:
        place = at.get(axis.dims[-1], emitter.constant(0))
        return {**at, axis.dims[-1]: emitter.add(place, emitter.constant(by))}

    def _place(self, emitter: IndexEmitter, operand: int, at: Places) -> SSAValue:
        """Where an operand's element lies, in elements from its first."""
        return self._form(emitter, self.plan.places[operand], at)

    def _value(self, emitter: IndexEmitter, expression: AffineExpr, at: Places) -> SSAValue:
        return self._form(emitter, linear_form(expression), at)

    def _form(self, emitter: IndexEmitter, form: LinearForm, at: Places) -> SSAValue:
        zero = emitter.constant(0)
        dims = [at.get(number, zero) for number in range(len(self.plan.leaf.sizes))]
        return emit_form(emitter, form, dims, self.plan.context.ivs)

    def _load(
        self,
        emitter: IndexEmitter,
        operand: int,
        axis: TurnAxis,
        lanes: int,
        at: Places,
        count: int,
        known: dict[object, SSAValue],
    ) -> SSAValue:
        """``count`` of ``lanes`` points of an input along an axis; 0 where it may not be read."""
        conditions = (
            [*self.plan.tests.bounds, *self.plan.tests.padding[operand]] if self.masked else []
        )
        place = self._place(emitter, operand, at)
        tests = tuple(self._value(emitter, each.expression, at) for each in conditions)
        key = (operand, axis, place, tests)
        if key not in known:
            known[key] = self._read(emitter, operand, axis, lanes, at, count, conditions)
        return known[key]

    def _read(
        self,
        emitter: IndexEmitter,
        operand: int,
        axis: TurnAxis,
        lanes: int,
        at: Places,
        count: int,
        conditions: Sequence[Condition],
    ) -> SSAValue:
        view, place = self.views[operand], self._place(emitter, operand, at)
        type_ = vector_type(cast("MemRefType[Attribute]", view.type).element_type, lanes)
        zero = splat(0, type_)
        if self.plan.step(operand, axis) == 1:
            mask = self._mask(emitter, axis, lanes, at, count, conditions)
            if mask is None:
                return emitter.emit(vector.LoadOp(view, [place], type_))
            return emitter.emit(vector.MaskedLoadOp(view, [place], mask, emitter.emit(zero), type_))
        # One element for all lanes: those lanes that may not read it are not stored either.
        still = [each for each in conditions if not condition_step(each, axis)]
        tests = [
            emitter.below(self._value(emitter, each.expression, at), each.limit) for each in still
        ]
        if tests:
            allowed = emitter.both(list(dict.fromkeys(tests)))
            place = emitter.emit(arith.SelectOp(allowed, place, emitter.constant(0)))
        scalar = emitter.emit(memref.LoadOp.get(view, [place]))
        value = emitter.emit(vector.BroadcastOp(scalar, type_))
        if not tests or not self.plan.tests.padding[operand]:
            return value
        return emitter.emit(arith.SelectOp(emitter.both(tests), value, emitter.emit(zero)))

    def _store(self, emitter: IndexEmitter, at: Places, count: int, value: SSAValue) -> None:
        plan = self.plan
        conditions = plan.tests.bounds if self.masked else ()
        mask = self._mask(emitter, plan.along, plan.side, at, count, conditions)
        view, place = self.views[-1], self._place(emitter, len(plan.leaf.inputs), at)
        store: Operation
        if mask is None:
            store = vector.StoreOp(value, view, [place])
        else:
            store = vector.MaskedStoreOp.build(operands=[view, [place], mask, value])
        emitter.put(store)

    def _mask(
        self,
        emitter: IndexEmitter,
        axis: TurnAxis,
        lanes: int,
        at: Places,
        count: int,
        conditions: Sequence[Condition],
    ) -> SSAValue | None:
        """Which lanes from ``at`` on take part; ``None`` where all do."""
        if count == lanes and not conditions:
            return None
        shape = vector_type(i1, lanes)
        room, below = emitter.constant(count), list[SSAValue]()
        tests: list[SSAValue] = []
        for each in conditions:
            first = self._value(emitter, each.expression, at)
            if not condition_step(each, axis):
                tests.append(emitter.below(first, each.limit))
                continue
            room = emitter.minimum(room, emitter.subtract(emitter.constant(each.limit), first))
            below.append(emitter.subtract(emitter.constant(0), first))
        if tests:
            allowed = emitter.both(list(dict.fromkeys(tests)))
            room = emitter.emit(arith.SelectOp(allowed, room, emitter.constant(0)))
        mask = emitter.emit(_create_mask(room, shape))
        for each in below:
            outside = emitter.emit(_create_mask(each, shape))
            inside = emitter.emit(arith.XOrIOp(outside, emitter.emit(splat(True, shape))))
            mask = emitter.emit(arith.AndIOp(mask, inside))
        return mask

    def _turn(self, emitter: IndexEmitter, rows: Sequence[SSAValue]) -> list[SSAValue]:
        """The columns of up to ``side`` rows: a vector of ``side`` points for each lane."""
        plan = self.plan
        type_ = cast("VectorType[Attribute]", rows[0].type)
        missing = plan.side - len(rows)
        rows = [*rows, *([emitter.emit(splat(0, type_))] * missing if missing else [])]
        columns: list[SSAValue] = []
        for first in range(0, plan.lanes, plan.side):
            lanes = range(first, first + plan.side)
            square = [
                row if plan.side == plan.lanes else shuffle(emitter, row, row, lanes)
                for row in rows
            ]
            columns += turn_square(emitter, square)
        return columns


def _create_mask(count: SSAValue, shape: VectorType[Attribute]) -> Operation:
    return vector.CreateMaskOp.build(operands=[[count]], result_types=[shape])
