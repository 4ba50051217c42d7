"""``reorder`` on point code: loops change places where no dependence is turned around."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.points.bands import NewLoop, band_of, check_order, rebuild
from wia_compiler.passes.points.forms import Loop
from wia_compiler.passes.scheduling.hints import places_of
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite

SYNTAX = "reorder LOOP, LOOP, …"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Let the named loops stand in the order of the line, at the places that they take together.

    ``reorder j, i``::

        for i in 0..N { for j in 0..N { … } }   →   for j in 0..N { for i in 0..N { … } }

    Legal where each of the loops holds nothing but the next, over bounds that do not depend on
    these loops, and no iteration comes before one that it depends on: with ``A[i, j] = f(A[i - 1, j
    + 1])`` the loops must stay, for ``j`` outside of ``i`` would read what is not written yet.
    """
    loops: list[Loop] = []
    for entry in directive.entries:
        for place in places_of(nest, entry):
            if place.loop is None or place.loop in loops:
                raise IllegalRewrite(
                    f"loop {place.name!r} stands twice, or is a leaf's own",
                    hint="name loops of the text, each once",
                    span=entry.span,
                )
            loops.append(place.loop)
    if len(directive.entries) < 2:
        raise IllegalRewrite("one loop has no order", hint="write reorder j, i")
    if len(loops) < 2:
        return
    band = band_of(nest.function, loops)
    named = iter(loops)
    order = [NewLoop(next(named) if loop in loops else loop) for loop in band]
    check_order(nest.function, band, order)
    rebuild(band, order)
