"""``vectorize``: the axis that vectors run along."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive, Entry
from wia_compiler.dialects.leaf_hints import note_lanes
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import IllegalRewrite, tile_axis
from wia_compiler.passes.tile_rewrites.lanes import run_lanes_along

SYNTAX = "vectorize AXIS LANES"

MOST_LANES = 64
"""Four of the widest registers, or one of bytes: LLVM cuts wider vectors into what there is."""


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Let lanes of vectors run along an axis, ``LANES`` points in each.

    ``vectorize f 16``::

        acc = register 32×8                              acc = register 8×32
        window [f = 32, x = 8] acc[f, x] += …       →    window [x = 8, f = 32] acc[x, f] += …
        map [f = 32, x = 8] y[f, x] = acc[f, x]          map [x = 8, f = 32] y[f, x] = acc[x, f]

    The axis becomes the last one of the leaves and of the buffers that they share; a copy that
    ``pack`` makes afterwards lies along it. A loop that takes single points takes ``LANES`` of them
    from then on. Where an array is not dense along the axis, its elements are turned in registers.
    Along a kept axis it changes where points lie, no number. Along a folded one each lane holds a
    part of the result, which is legal for the reductions of tensor ops: not for a sum that the text
    writes out, nor for products, whose lanes run along a kept axis.
    """
    if len(directive.entries) != 1:
        raise IllegalRewrite("vectors run along one axis", hint=SYNTAX)
    (entry,) = directive.entries
    axis = nest.check_axis(entry)
    lanes = number_of(directive, entry, "number of lanes", least=2)
    if lanes & (lanes - 1) or lanes > MOST_LANES:
        raise IllegalRewrite(
            f"vectors have 2, 4, 8 … {MOST_LANES} lanes, found {lanes}",
            hint=f"write vectorize {axis} {min(1 << (lanes.bit_length() - 1), MOST_LANES)}",
            span=entry.span,
        )
    if nest.is_folded(axis):
        _check_fold(nest, entry, axis)
    else:
        loops = nest.loops(axis)
        if loops and loops[-1].step.value.data == 1:
            tile_axis(nest.function, axis, lanes)
        run_lanes_along(nest.function, axis)
    for leaf in nest.leaves():
        if axis in leaf.axis_names and leaf.sizes[leaf.axis_names.index(axis)] > 1:
            note_lanes(leaf, axis, lanes)


def _check_fold(nest: ScheduledNest, entry: Entry, axis: str) -> None:
    """Lanes along a folded axis are partial results."""
    folds = [leaf for leaf in nest.leaves() if axis in {n.data for n in leaf.reduce_axes}]
    if all(leaf.kind.data == "reduce" and not leaf.is_ordered for leaf in folds):
        return
    kept = [each for each in nest.axes() if not nest.is_folded(each)]
    raise IllegalRewrite(
        f"axis {axis!r} is folded: each lane would hold a part of the sum",
        hint=f"vectorize one of {', '.join(kept)}; accumulators makes partial sums",
        span=entry.span,
    )
