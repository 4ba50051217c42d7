"""Plans of elementwise and movement groups: loops over the result's axes and one map leaf."""

from __future__ import annotations

from collections.abc import Sequence

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
from wia_compiler.passes.nests.reader import LeafReading, Reader


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
    reading = Reader(group, [axis.size for axis in axes]).read(
        [(result.value, index) for result in results]
    )
    outputs = [Access(result.target, index) for result in results]
    return NestPlan(axes, [map_leaf(reading, outputs)])


def map_leaf(
    reading: LeafReading, outputs: Sequence[Access], inner: Sequence[int] = ()
) -> LeafPlan:
    """The leaf that writes what was read to outputs."""
    return LeafPlan(
        "map",
        tuple(inner),
        (),
        reading.inputs,
        list(outputs),
        reading.body.finish(reading.roots),
        list(reading.ops) or reading.reader.group.ops,
    )
