"""``unroll``: several iterations of a loop in one turn."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.dialects.loop_hints import WHOLE
from wia_compiler.passes.scheduling.hints import check_count, places_of
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import IllegalRewrite

SYNTAX = "unroll AXIS [COUNT], …"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Run ``COUNT`` iterations of a loop in one turn, or all of them.

    ``unroll i 4``::

        for %i = 0 to 1000 step 1                 for %i = 0 to 1000 step 4
          c[%i] = a[%i] + b[%i]          →          c[%i]     = a[%i]     + b[%i]
                                                    c[%i + 1] = a[%i + 1] + b[%i + 1]   …

    Iterations keep their order: it is legal for every loop. What remains, where ``COUNT`` does not
    divide the number of iterations, is a loop behind. Where a loop walks whole vectors
    (``vectorize``), an iteration is a vector.
    """
    if not directive.entries:
        raise IllegalRewrite("no loop is named", hint=SYNTAX)
    for entry in directive.entries:
        for place in places_of(nest, entry):
            count = WHOLE if entry.number is None else number_of(directive, entry, "count")
            if count == WHOLE and place.trips is None:
                raise IllegalRewrite(
                    f"{place.name} has as many iterations as the data says",
                    hint=f"write how many to unroll: unroll {entry.name} 4",
                    span=entry.span,
                )
            wanted = count or place.trips or 1
            check_count(place, entry, min(wanted, place.trips or wanted), "iterations")
            place.note(unroll=count)
