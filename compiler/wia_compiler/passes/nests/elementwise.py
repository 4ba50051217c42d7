"""Plans of elementwise and movement groups: loops over the result's axes and one map leaf."""

from __future__ import annotations

from collections.abc import Sequence

from wia_compiler.passes.nests.movement import Index
from wia_compiler.passes.nests.plan import (
    Access,
    Axis,
    Group,
    LeafPlan,
    NestPlan,
    Result,
    domain_index,
    fresh_name,
)
from wia_compiler.passes.nests.reader import Reader


def plan_elementwise(group: Group, results: Sequence[Result]) -> NestPlan:
    """One nest for results of one shape.

    ::

        for i.0 in 3, for j.0 in 5:   map out[i, j] = f(a[i, j], b[j])
    """
    shape = results[0].target.shape
    axes: list[Axis] = []
    positions: dict[int, int] = {}
    for axis, size in enumerate(shape):
        if size != 1:
            positions[axis] = len(axes)
            axes.append(Axis(fresh_name([each.name for each in axes]), size))
    index = domain_index(shape, positions)
    reader = Reader(group, [axis.size for axis in axes])
    return NestPlan(axes, [map_leaf(reader, [(result, index) for result in results])])


def map_leaf(
    reader: Reader, results: Sequence[tuple[Result, Index]], inner: Sequence[int] = ()
) -> LeafPlan:
    """A leaf that computes results of a group and writes them at the given indices."""
    reading = reader.read([(result.value, index) for result, index in results])
    return LeafPlan(
        "map",
        tuple(inner),
        (),
        reading.inputs,
        [Access(result.target, index) for result, index in results],
        reading.body.finish(reading.roots),
        list(reading.ops) or reader.group.ops,
    )
