"""``parallel`` on point code: the outermost independent loops of a text."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.dialects.tile import ForOp
from wia_compiler.passes.points.dependence import why_in_order
from wia_compiler.passes.scheduling.directives import parallel
from wia_compiler.passes.scheduling.hints import places_of
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite

SYNTAX = parallel.SYNTAX


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Share the iterations of loops among processors.

    ``parallel i``::

        for i in 0..N { while (…) { … } }   →   the same, each processor some of the ``i``

    Legal for independent loops that stand in such loops alone; the reason why another one runs in
    order names the elements that its iterations share.
    """
    for entry in directive.entries:
        for place in places_of(nest, entry):
            if place.loop is None or isinstance(place.loop, ForOp):
                continue
            reason = why_in_order(place.loop)
            raise IllegalRewrite(
                reason or f"{place.name} stands inside a loop that runs in order, or in a branch",
                hint="processors share independent loops that are outermost",
                span=entry.span,
            )
    parallel.apply(nest, directive)
