"""Reductions as vector code: lanes that hold parts of one result, or one result each.

::

    along a row     reduce s += x[j] over 1000   →   scf.for %j = 0 to 992 step 16 iter_args(parts)
                                                       parts + load x[j]
                                                     the last 8, masked; vector.reduction of parts
    down columns    reduce s[j] += x[i, j]       →   scf.for %j { sums of 16 columns; every row }

Partial results are combined in an order of their own (numerics contract); the lanes of columns keep
the order of the rows.
"""

from __future__ import annotations

import math
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.dialects.vector import CombiningKindFlag
from xdsl.ir import Attribute, Operation, SSAValue

from wia_compiler.backends.cpu.lane_access import LaneAccess
from wia_compiler.backends.cpu.lane_plan import LanePlan
from wia_compiler.backends.cpu.lane_walk import LaneWalk, Place, Points, Values
from wia_compiler.backends.cpu.vector_body import emit_vector_body
from wia_compiler.dialects.arith_lanes import SelectLanesOp
from wia_compiler.dialects.shared_attributes import vector_type
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.emit_index import IndexEmitter
from wia_compiler.passes.emit_leaf import fold_op, is_folded_into
from wia_compiler.passes.lane_ops import splat

_KINDS: dict[str, CombiningKindFlag] = {
    "arith.addf": CombiningKindFlag.ADD,
    "arith.addi": CombiningKindFlag.ADD,
    "arith.mulf": CombiningKindFlag.MUL,
    "arith.muli": CombiningKindFlag.MUL,
    "arith.maximumf": CombiningKindFlag.MAXIMUMF,
    "arith.minimumf": CombiningKindFlag.MINIMUMF,
    "arith.maxsi": CombiningKindFlag.MAXSI,
    "arith.minsi": CombiningKindFlag.MINSI,
    "arith.maxui": CombiningKindFlag.MAXUI,
    "arith.minui": CombiningKindFlag.MINUI,
}


def lower_reduce_to_vectors(plan: LanePlan, builder: Builder) -> None:
    """Write a fold's vector code at the builder's place."""
    emitter = IndexEmitter(builder, plan.leaf.location)
    (_Row(plan) if plan.folds_lanes else _Columns(plan)).write(emitter)


class _Fold:
    """What both directions share."""

    def __init__(self, plan: LanePlan):
        self.plan = plan
        self.walk = LaneWalk(plan)
        self.access = LaneAccess(plan)
        outputs = range(len(plan.leaf.outputs))
        self.folded = [n for n in outputs if is_folded_into(plan.leaf, n)]

    @property
    def leaf(self) -> ComputeOp:
        """The leaf."""
        return self.plan.leaf

    def step(self, place: Place, held: Values, *, masked: bool) -> Values:
        """One vector of points: folded outputs are carried, the others written.

        With ``masked``, lanes that take no part keep what is held.
        """
        emitter, lanes = place.emitter, self.plan.lanes
        inputs = self.access.inputs(place)
        carried = dict(zip(self.folded, held, strict=True))
        # What the body does not read of an output stands for it in its arguments.
        held_by_output = [carried.get(n, held[0]) for n in range(len(self.leaf.outputs))]
        results = emit_vector_body(self.leaf, emitter, [*inputs, *held_by_output], lanes)
        mask = self.access.mask(place) if masked else None
        for output, value in enumerate(results):
            if output not in carried:
                self.access.store(place, output, value)
            elif mask is not None:
                carried[output] = emitter.emit(SelectLanesOp(mask, value, carried[output]))
            else:
                carried[output] = value
        return [carried[n] for n in self.folded]


class _Row(_Fold):
    """Lanes along a folded axis."""

    def write(self, emitter: IndexEmitter) -> None:
        self.access.prepare(emitter)
        kept = tuple(axis for axis in self.plan.outer if not self.leaf.reductions[axis])
        self.walk.loops(emitter, kept, self.walk.start(emitter), [], self._one_result)

    def _one_result(self, emitter: IndexEmitter, points: Points, held: Values) -> Values:
        folds = [fold_op(self.leaf, output) for output in self.folded]
        starts = [
            emitter.emit(splat(neutral(fold), vector_type(fold.results[0].type, self.plan.lanes)))
            for fold in folds
        ]
        for output, start in zip(self.folded, starts, strict=True):
            start.name_hint = self.leaf.outputs[output].name_hint
        rows = tuple(axis for axis in self.plan.outer if self.leaf.reductions[axis])
        parts = self.walk.loops(emitter, rows, points, starts, self._along)
        for output, fold, part in zip(self.folded, folds, parts, strict=True):
            value, each = self.leaf.outputs[output], self.leaf.output_maps[output]
            before = self.access.scalar(emitter, value, each, points)
            total = emitter.emit(
                type(fold).create(
                    operands=[before, emitter.emit(_combined(fold, part))],
                    result_types=[before.type],
                    properties=dict(fold.properties),
                )
            )
            array = self.plan.context.array(value)
            indices = [emitter.affine(e, points, self.plan.context.ivs) for e in each.results]
            store = memref.StoreOp.get(total, array, indices)
            store.location = emitter.location
            emitter.builder.insert(store)
        return held

    def _along(self, emitter: IndexEmitter, points: Points, held: Values) -> Values:
        self.access.load_fixed(emitter, points)
        return self.walk.lanes(emitter, points, held, self._vector)

    def _vector(self, place: Place, held: Values) -> Values:
        return self.step(place, held, masked=place.room is not None)


class _Columns(_Fold):
    """Lanes along a kept axis: each lane folds its own result, in the order of the axis."""

    def write(self, emitter: IndexEmitter) -> None:
        self.access.prepare(emitter)
        start = self.walk.start(emitter)
        self.walk.loops(emitter, self.plan.outer, start, [], self._all_columns)

    def _all_columns(self, emitter: IndexEmitter, points: Points, held: Values) -> Values:
        self.access.load_fixed(emitter, points)
        return self.walk.lanes(emitter, points, held, self._some_columns)

    def _some_columns(self, place: Place, held: Values) -> Values:
        """Every point of the folded axes for one vector of results."""
        before = [self.access.held(place, output) for output in self.folded]

        def fold(emitter: IndexEmitter, points: Points, held: Values) -> Values:
            return self.step(Place(emitter, points, place.room), held, masked=False)

        after = self.walk.loops(place.emitter, self.plan.inner, place.points, before, fold)
        for output, value in zip(self.folded, after, strict=True):
            self.access.store(place, output, value)
        return held


def neutral(fold: Operation) -> float | int:
    """What a fold leaves as it is: -0 for a sum of floats, since 0 + -0 is 0."""
    match fold:
        case arith.AddfOp():
            return -0.0
        case arith.MulfOp():
            return 1.0
        case arith.MaximumfOp():
            return -math.inf
        case arith.MinimumfOp():
            return math.inf
        case _:
            pass
    width = cast("IntegerType", fold.results[0].type).width.data
    lowest, highest = -(1 << (width - 1)), (1 << (width - 1)) - 1
    match fold:
        case arith.MuliOp():
            return 1
        case arith.MaxSIOp():
            return lowest
        case arith.MinSIOp():
            return highest
        case arith.MinUIOp():
            return -1  # every bit
        case _:
            return 0


def _combined(fold: Operation, parts: SSAValue) -> Operation:
    """All lanes folded into one."""
    element: Attribute = cast("VectorType[Attribute]", parts.type).element_type
    properties: dict[str, Attribute] = {"kind": vector.CombiningKindAttr(_KINDS[fold.name])}
    if isinstance(fold, arith.AddfOp | arith.MulfOp):
        properties["fastmath"] = arith.FastMathFlagsAttr([FastMathFlag.REASSOC])
    elif "fastmath" in fold.properties:
        properties["fastmath"] = fold.properties["fastmath"]
    return vector.ReductionOp.create(
        operands=[parts], result_types=[element], properties=properties
    )
