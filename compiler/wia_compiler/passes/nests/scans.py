"""Plans of groups with a running fold: a loop in order along its axis, a sum that goes with it."""

from __future__ import annotations

from dataclasses import replace

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.rules import normalize_axis
from wia_compiler.passes.nests.anchored import AnchoredNest, accumulator_of, anchors_of
from wia_compiler.passes.nests.movement import kind_of
from wia_compiler.passes.nests.plan import (
    Axis,
    Group,
    NestPlan,
    Result,
    domain_index,
    fresh_name,
)
from wia_compiler.passes.nests.refusal import NotOneNest
from wia_compiler.passes.nests.rows import FOLDS, first_value, reduce_leaf

_FOLD_OF = {"cumsum": "reduce_sum", "cumprod": "reduce_prod"}


def plan_scan(group: Group) -> tuple[NestPlan, list[Result]]:
    """One nest for a group with a running fold, and the results that do not depend on it.

    ::

        for i.0 in 8:
          s = register               map s[i] = 0
          for j.0 in 100, in order:  reduce s[i] += x[i, j.0 + j]     over j, 1 point
                                     map out[i, j.0 + j] = s[i]
    """
    (op,) = anchors_of(group)
    shape = spec_of(op.arguments[0].type).shape
    scanned = normalize_axis(op.values["dim"], op.result_spec)
    axes: list[Axis] = []
    positions: dict[int, int] = {}
    for axis, size in enumerate(shape):
        if size != 1:
            positions[axis] = len(axes)
            name = fresh_name([each.name for each in axes])
            axes.append(Axis(name, size, "ordered" if axis == scanned else "kept"))
    nest = AnchoredNest(group, axes)
    index = domain_index(shape, positions)
    fold = _FOLD_OF[kind_of(op)]
    register = nest.register(op, FOLDS[fold].buffer, accumulator_of(op))
    nest.fill([register], [first_value(fold, register.dtype)])
    before = len(nest.plan.leaves)
    inner = (positions[scanned],) if scanned in positions else ()
    reading = nest.read([(op.arguments[0], index)])
    nest.plan.leaves.append(reduce_leaf(reading, [op], [FOLDS[fold]], [register], inner))
    nest.anchor(op, register, index)
    plan, others = nest.finish({})
    if len(plan.axes) > len(axes):
        raise NotOneNest("an element of a running fold is taken to several places")
    for number in range(before, len(plan.leaves)):
        plan.leaves[number] = replace(plan.leaves[number], is_ordered=bool(inner), inner=())
    return plan, others
