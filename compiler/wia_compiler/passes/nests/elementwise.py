"""Plans of elementwise and movement groups: loops over the result's axes and one map leaf."""

from __future__ import annotations

from collections.abc import Sequence

from wia_compiler.passes.nests.pieces import Piece
from wia_compiler.passes.nests.places import Cut
from wia_compiler.passes.nests.plan import Access, Group, LeafPlan, NestPlan, Result
from wia_compiler.passes.nests.reader import LeafReading, Reader
from wia_compiler.passes.nests.refusal import NotOneNest

MOST_PIECES = 64
"""Nests that write parts of one result; more would be mostly calls."""


def plan_elementwise(group: Group, results: Sequence[Result]) -> list[NestPlan]:
    """The nests for results of one shape: one, or one for each part of a pad or concat.

    ::

        for i.0 in 3, for j.0 in 5:   map out[i, j] = f(a[i, j], b[j])

        out = concat(a, b):           for i.0 in 3: map out[i] = a[i]
                                      for i.0 in 5: map out[i + 3] = b[i]
    """
    pending = [Piece.whole(results[0].target.shape)]
    plans: list[NestPlan] = []
    while pending:
        piece, *pending = pending
        try:
            plans.append(_plan_piece(group, results, piece))
        except Cut as cut:
            pending = [*piece.divided(cut), *pending]
        if len(pending) + len(plans) > MOST_PIECES:
            raise NotOneNest(f"its result has more than {MOST_PIECES} parts")
    return plans


def _plan_piece(group: Group, results: Sequence[Result], piece: Piece) -> NestPlan:
    axes, index = piece.axes(), piece.index()
    reader = Reader(group, [axis.size for axis in axes], pads_reads=False)
    reading = reader.read([(result.value, index) for result in results])
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
        tables=reading.tables,
    )
