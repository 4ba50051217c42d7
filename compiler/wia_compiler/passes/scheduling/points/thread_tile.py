"""``thread_tile`` on point code, which has no leaves: refused with what does the same for loops."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite

SYNTAX = "thread_tile AXIS SIZE, …"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Refuse the line: a loop of point code runs one point after the other.

    ``unroll_and_jam i 4`` lets several iterations share the turns of the loops inside,
    ``vectorize j 16`` puts them in the lanes of vectors.
    """
    raise IllegalRewrite(
        f"the loops of {nest.name} are no leaves: there is no register tile to size",
        hint="unroll_and_jam AXIS COUNT takes several iterations at a time, vectorize AXIS LANES "
        "those of neighbours",
        span=directive.span,
    )
