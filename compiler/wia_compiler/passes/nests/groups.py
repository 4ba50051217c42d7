"""Which plan serves a group: elementwise, rows (reductions) or contraction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.nests.anchored import anchors_of
from wia_compiler.passes.nests.contraction import plan_contraction
from wia_compiler.passes.nests.elementwise import plan_elementwise
from wia_compiler.passes.nests.merge import merge_axes
from wia_compiler.passes.nests.movement import kind_of
from wia_compiler.passes.nests.plan import Group, NestPlan, Result, fresh_name
from wia_compiler.passes.nests.refusal import NotOneNest
from wia_compiler.passes.nests.rows import EXTREMES, plan_rows
from wia_compiler.passes.nests.scans import plan_scan
from wia_compiler.passes.nests.windows import plan_windows


def plan_group(group: Group, *, masks_edges: bool = False) -> list[NestPlan]:
    """The nests that write a group's results; results without elements need none.

    Usually one; results of other shapes that do not depend on the group's reduction or
    contraction get their own. ``masks_edges`` is a fact of the target. Raises ``NotOneNest`` where
    the ops cannot share a nest.
    """
    results = [result for result in group.results if result.target.num_elements]
    if not results:
        return []
    anchors = anchors_of(group)
    if not anchors:
        return _elementwise_plans(group, results)
    live = Group(group.name, group.ops, group.arrays, group.numbers, results)
    plans, others = _anchored_plans(live, anchors, masks_edges=masks_edges)
    return [*plans, *_elementwise_plans(group, others)]


def _anchored_plans(
    group: Group, anchors: Sequence[TensorOp], *, masks_edges: bool
) -> tuple[list[NestPlan], list[Result]]:
    """The nests of a group with reductions or contractions, and the results without either."""
    if all(op.declaration.access == "rows" or kind_of(op) in EXTREMES for op in anchors):
        plan, others = plan_rows(group)
        return [_renamed(merge_axes(plan))], others
    if len(anchors) > 1:
        raise NotOneNest("one nest holds reductions or one contraction, not both")
    if anchors[0].declaration.family == "contraction":
        plan, others = plan_contraction(group)
        return [merge_axes(plan)], others
    if kind_of(anchors[0]) == "reduce_window":
        plans, others = plan_windows(group, masks_edges=masks_edges)
        return [merge_axes(plan) for plan in plans], others
    plan, others = plan_scan(group)
    return [_renamed(merge_axes(plan))], others


def _elementwise_plans(group: Group, results: Sequence[Result]) -> list[NestPlan]:
    by_shape: dict[tuple[int, ...], list[Result]] = {}
    for result in results:
        by_shape.setdefault(result.target.shape, []).append(result)
    return [
        _renamed(merge_axes(plan))
        for alike in by_shape.values()
        for plan in plan_elementwise(group, alike)
    ]


def _renamed(plan: NestPlan) -> NestPlan:
    """The nest with its axes named i, j, k … in order, whatever was joined."""
    names: list[str] = []
    for _ in plan.axes:
        names.append(fresh_name(names))
    plan.axes = [replace(axis, name=name) for axis, name in zip(plan.axes, names, strict=True)]
    return plan
