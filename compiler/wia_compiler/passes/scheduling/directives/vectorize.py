"""``vectorize``: the axis that vectors run along."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import IllegalRewrite, tile_axis
from wia_compiler.passes.tile_rewrites.lanes import run_lanes_along

SYNTAX = "vectorize AXIS LANES"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Let lanes of vectors run along an axis, ``LANES`` points in each.

    ``vectorize f 16``::

        acc = register 32×8                              acc = register 8×32
        window [f = 32, x = 8] acc[f, x] += …       →    window [x = 8, f = 32] acc[x, f] += …
        map [f = 32, x = 8] y[f, x] = acc[f, x]          map [x = 8, f = 32] y[f, x] = acc[x, f]

    The axis becomes the last one of the leaves and of the buffers that they share; a copy that
    ``pack`` makes afterwards lies along it. A loop that takes single points takes ``LANES`` of them
    from then on. Where an array is not dense along the axis, its elements are turned in registers.
    Legal along any axis that is not folded: it changes where points lie, no number.
    """
    if len(directive.entries) != 1:
        raise IllegalRewrite("vectors run along one axis", hint=SYNTAX)
    (entry,) = directive.entries
    axis = nest.check_axis(entry)
    lanes = number_of(directive, entry, "number of lanes", least=2)
    if nest.is_folded(axis):
        kept = [each for each in nest.axes() if not nest.is_folded(each)]
        raise IllegalRewrite(
            f"axis {axis!r} is folded: each lane would hold a part of the sum",
            hint=f"vectorize one of {', '.join(kept)}; accumulators makes partial sums",
            span=entry.span,
        )
    loops = nest.loops(axis)
    if loops and loops[-1].step.value.data == 1:
        tile_axis(nest.function, axis, lanes)
    run_lanes_along(nest.function, axis)
