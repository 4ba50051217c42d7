"""``unroll_and_jam``: iterations of an outer loop side by side inside the loops it holds."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.dialects.tile import ForOp
from wia_compiler.passes.points.dependence import why_in_order
from wia_compiler.passes.scheduling.hints import Place, check_count, find_places
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import IllegalRewrite
from wia_compiler.passes.tile_rewrites.races import why_not_shared

SYNTAX = "unroll_and_jam AXIS COUNT, …"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Run ``COUNT`` iterations of a loop side by side in each turn of the loops inside it.

    ``unroll_and_jam i 2``::

        for %i = 0 to 64 step 1              for %i = 0 to 64 step 2
          for %k                       →       for %k
            s += A[%i, %k] * B[%k]               b = B[%k]
                                                 s += A[%i, %k] * b    t += A[%i + 1, %k] * b

    What is read in all of them is read once; a loop without loops inside is unrolled. Legal where
    the loop's iterations are independent: not for a folded axis, nor for a loop that runs in order.
    """
    if not directive.entries:
        raise IllegalRewrite("no loop is named", hint=SYNTAX)
    for entry in directive.entries:
        count = number_of(directive, entry, "count")
        hint = f"unroll {entry.name} {count} keeps the order of the iterations"
        for place in find_places(nest, entry, _why_not, hint):
            check_count(place, entry, count, "iterations")
            place.note(unroll_and_jam=count)


def _why_not(place: Place) -> str | None:
    if place.leaf is not None:
        if not place.independent:
            return f"{place.name} is folded: its iterations add to the same elements"
        return None
    assert place.loop is not None
    if isinstance(place.loop, ForOp) and (reason := why_not_shared(place.loop)) is not None:
        return reason
    if not place.independent:
        return why_in_order(place.loop) or f"{place.name} runs in order"
    return None
