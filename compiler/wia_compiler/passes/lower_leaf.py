"""Leaves to scalar loops, shared by the targets that lower to ``scf`` and ``memref``.

Parallel axes run outside, ``reduce`` axes inside with the sums carried as loop values. A ragged
edge is an exact upper bound where its expression grows with an axis, else an ``scf.if``.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from wia_compiler.dialects.loop_hints import axis_hints, hand_on
from wia_compiler.passes.affine import LinearForm, atoms, linear_form, range_of
from wia_compiler.passes.emit_index import INDEX, IndexEmitter
from wia_compiler.passes.emit_leaf import (
    LeafContext,
    Span,
    emit_held,
    emit_point,
    emit_store,
    is_carried,
)


def lower_leaf_to_loops(
    context: LeafContext,
    builder: Builder,
    *,
    unroll: int = 1,
    carried: Sequence[SSAValue] | None = None,
) -> list[SSAValue]:
    """Scalar loops over every point of a leaf, at the builder's place.

    Axes of at most ``unroll`` points that no bound cuts are unrolled. ``carried`` has a value for
    each output of a folding leaf that ``is_carried``; its parallel axes must then all be fixed or
    of one point. The fold starts from these, nothing is loaded from or stored to those outputs, and
    their results are given back. Without it, outputs are loaded and stored and the list is empty.
    """
    walk = _Walk(context, unroll, carried)
    emitter = IndexEmitter(builder, context.leaf.location)
    return walk.run(emitter)


class _Walk:
    """One lowering: the order of axes, and where each bound is enforced."""

    def __init__(self, context: LeafContext, unroll: int, carried: Sequence[SSAValue] | None):
        leaf = context.leaf
        self.context = context
        self.unroll = unroll
        self.given = carried
        folded = leaf.reductions
        count = len(folded)
        self.parallel = [axis for axis in range(count) if not folded[axis]]
        self.reduce = [axis for axis in range(count) if folded[axis]]
        self.order = [*self.parallel, *self.reduce]
        outputs = range(len(leaf.outputs))
        self.carried = [n for n in outputs if leaf.folds and is_carried(leaf, n)]
        self.ends: dict[int, list[tuple[LinearForm, int]]] = {}
        self.guards: dict[int, list[tuple[AffineExpr, int]]] = {}
        for expression, limit in zip(leaf.bounds.data.results, leaf.limit_values, strict=True):
            self._place(expression, limit)

    def _walks(self, axis: int) -> bool:
        """Whether an axis needs a loop: it is neither fixed nor a single point."""
        name = self.context.leaf.axis_names[axis]
        return name not in self.context.points and (
            self.context.leaf.sizes[axis] != 1 or name in self.context.spans
        )

    def _place(self, expression: AffineExpr, limit: int) -> None:
        if self.context.is_within(expression, limit):
            return
        form = linear_form(expression)
        read = atoms(expression)
        inner = [n for n, a in enumerate(self.order) if AffineDimExpr(a) in read and self._walks(a)]
        if not inner:
            self.guards.setdefault(-1, []).append((expression, limit))
            return
        axis = self.order[inner[-1]]
        span = range_of(expression, self.context.dim_ranges, self.context.symbol_ranges)
        grows = form.is_linear and form.terms.get(AffineDimExpr(axis), 0) > 0
        if grows and span is not None and span[0] >= 0:
            self.ends.setdefault(axis, []).append((form, limit))
        else:
            self.guards.setdefault(inner[-1], []).append((expression, limit))

    def run(self, emitter: IndexEmitter) -> list[SSAValue]:
        """Emit everything; the results of a fold that starts from given values."""
        context = self.context
        zero = emitter.constant(0)
        points = [context.points.get(name, zero) for name in context.leaf.axis_names]
        return self._guarded(emitter, -1, points, list(self.given or ()))

    def _guarded(
        self, emitter: IndexEmitter, level: int, points: list[SSAValue], held: list[SSAValue]
    ) -> list[SSAValue]:
        """The levels inside ``level``, where the conditions that are known there hold."""
        guards = self.guards.get(level, ())
        if not guards:
            return self._enter(emitter, level + 1, points, held)
        tests = [
            emitter.below(emitter.affine(expression, points, self.context.ivs), limit)
            for expression, limit in guards
        ]
        taken, skipped = Block(), Block()
        results = self._enter(emitter.nested(taken), level + 1, points, held)
        emitter.close(taken, *results)
        emitter.close(skipped, *held)
        otherwise = Region(skipped) if results else None
        types = [value.type for value in results]
        branch = scf.IfOp(emitter.both(tests), types, Region(taken), otherwise)
        return list(emitter.put(branch).results)

    def _enter(
        self, emitter: IndexEmitter, level: int, points: list[SSAValue], held: list[SSAValue]
    ) -> list[SSAValue]:
        """From ``level`` on; where parallel axes end, sums are loaded before and stored after."""
        if level != len(self.parallel) or self.given is not None:
            return self._axis(emitter, level, points, held)
        held = [emit_held(self.context, emitter, n, points) for n in self.carried]
        results = self._axis(emitter, level, points, held)
        for output, value in zip(self.carried, results, strict=True):
            emit_store(self.context, emitter, output, points, value)
        return []

    def _axis(
        self, emitter: IndexEmitter, level: int, points: list[SSAValue], held: list[SSAValue]
    ) -> list[SSAValue]:
        if level == len(self.order):
            return self._point(emitter, points, held)
        axis = self.order[level]
        if not self._walks(axis):
            return self._guarded(emitter, level, points, held)
        leaf = self.context.leaf
        size = leaf.sizes[axis]
        span = self.context.spans.get(leaf.axis_names[axis])
        hinted = bool(axis_hints(leaf, leaf.axis_names[axis]))
        if span is None and axis not in self.ends and size <= self.unroll and not hinted:
            for position in range(size):
                at = _with(points, axis, emitter.constant(position))
                held = self._guarded(emitter, level, at, held)
            return held
        return self._loop(emitter, level, points, held, span)

    def _loop(
        self,
        emitter: IndexEmitter,
        level: int,
        points: list[SSAValue],
        held: list[SSAValue],
        span: Span | None,
    ) -> list[SSAValue]:
        axis = self.order[level]
        start = span.start if span is not None else emitter.constant(0)
        step = span.step if span is not None else 1
        step = emitter.constant(step) if isinstance(step, int) else step
        end = self._end(emitter, axis, points)
        body = Block(arg_types=[INDEX, *(value.type for value in held)])
        body.args[0].name_hint = self.context.leaf.axis_names[axis]
        # Nothing is held yet in the loops over kept axes.
        for output, argument in zip(self.carried if held else (), body.args[1:], strict=True):
            argument.name_hint = self.context.leaf.outputs[output].name_hint
        at = _with(points, axis, body.args[0])
        results = self._guarded(emitter.nested(body), level, at, list(body.args[1:]))
        emitter.close(body, *results)
        loop = scf.ForOp(start, end, step, held, Region(body))
        hand_on(self.context.leaf, self.context.leaf.axis_names[axis], loop)
        return list(emitter.put(loop).results)

    def _end(self, emitter: IndexEmitter, axis: int, points: list[SSAValue]) -> SSAValue:
        """Where an axis ends: at its extent, or where a bound that grows with it is reached."""
        end = emitter.constant(self.context.leaf.sizes[axis])
        for form, limit in self.ends.get(axis, ()):
            terms = dict(form.terms)
            factor = terms.pop(AffineDimExpr(axis))
            rest = LinearForm(terms, form.constant + 1 - factor).expression()
            room = emitter.subtract(
                emitter.constant(limit), emitter.affine(rest, points, self.context.ivs)
            )
            if factor > 1:
                room = emitter.binary(arith.DivSIOp, room, emitter.constant(factor))
            end = emitter.minimum(end, room)
        return end

    def _point(
        self, emitter: IndexEmitter, points: list[SSAValue], held: list[SSAValue]
    ) -> list[SSAValue]:
        context = self.context
        outputs = range(len(context.leaf.outputs))
        carried = dict(zip(self.carried, held, strict=True))
        all_held = [
            carried[n] if n in carried else emit_held(context, emitter, n, points)
            for n in outputs
            if context.leaf.folds
        ]
        values = emit_point(context, emitter, points, all_held)
        for output in outputs:
            if output not in carried:
                emit_store(context, emitter, output, points, values[output])
        return [values[n] for n in self.carried]


def _with(points: list[SSAValue], axis: int, value: SSAValue) -> list[SSAValue]:
    return [*points[:axis], value, *points[axis + 1 :]]
