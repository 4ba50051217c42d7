"""``reorder``: the order in which loops stand one in another."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite, reorder_loops

SYNTAX = "reorder LOOP, LOOP, …"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Let the named loops stand in the order of the line, at the places that they take together.

    ``reorder j, i``::

        for %b0 … for %i0 … for %j0 … leaf   →   for %b0 … for %j0 … for %i0 … leaf

    Legal between loops of which each holds nothing but the next. Iterations over kept axes are
    independent; a folded one only adds in another order, which the numerics contract leaves open
    for tensor ops and forbids for a sum that the text writes out.
    """
    names = [nest.loop(entry).axis.data for entry in directive.entries]
    twice = next(
        (entry for n, entry in enumerate(directive.entries) if names[n] in names[:n]), None
    )
    if twice is not None:
        raise IllegalRewrite(
            f"loop {twice.name!r} stands twice", hint="name each once", span=twice.span
        )
    if len(names) < 2:
        raise IllegalRewrite("one loop has no order", hint="write reorder j, i")
    reorder_loops(nest.function, names)
