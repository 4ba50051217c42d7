"""``parallel``: a loop whose iterations the target's processors share."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite, axis_of, set_level
from wia_compiler.passes.tile_rewrites.races import why_not_shared

SYNTAX = "parallel LOOP"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Share the iterations of a loop among processors; a bare axis means its outermost loop.

    ``parallel i``::

        for %i0 in 1000 step 128 @serial { … }   →   for %i0 in 1000 step 128 @thread { … }

    Legal where no two iterations write the same element: not for a folded axis, nor where
    iterations share a buffer that is made outside of the loop. Results do not depend on how many
    threads there are.
    """
    if not directive.entries:
        raise IllegalRewrite("no loop is named", hint=SYNTAX)
    for entry in directive.entries:
        axis = entry.name or ""
        named = [loop for loop in nest.loops() if axis in (loop.axis.data, axis_of(loop))]
        loop = named[0] if named else nest.loop(entry)
        reason = why_not_shared(loop)
        if reason is not None:
            free = [each for each in nest.loops() if why_not_shared(each) is None]
            listed = ", ".join(dict.fromkeys(each.axis.data for each in free))
            raise IllegalRewrite(
                reason,
                hint=f"threads may share {listed}" if free else "no loop of the nest can be shared",
                span=entry.span,
            )
        set_level(loop, nest.memory.parallel)
