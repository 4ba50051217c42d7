"""``tile`` on point code: loops over tiles around loops over the points of each."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr

from wia_compiler.base.schedule import Directive
from wia_compiler.dialects.tile import ForOp
from wia_compiler.passes.points.bands import NewLoop, band_of, check_order, rebuild
from wia_compiler.passes.points.forms import Loop
from wia_compiler.passes.points.loop_axes import axis_name
from wia_compiler.passes.scheduling.directives.tile import LABEL
from wia_compiler.passes.scheduling.hints import places_of
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import IllegalRewrite, set_level
from wia_compiler.passes.tile_rewrites.races import why_not_shared

SYNTAX = "tile AXIS SIZE, … [@LEVEL]"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Cut loops into tiles of ``SIZE`` iterations; those over tiles stand outside of all others.

    ``tile i 32, j 32``::

        for i in 0..N                       for ii in 0..N step 32    for jj in 0..N step 32
          for j in 0..N              →        for i in ii..min(ii + 32, N)
            if (M[i, j]) { … }                  for j in jj..min(jj + 32, N) { if (M[i, j]) { … } }

    Legal for one loop alone: its iterations keep their order. Several change places with one
    another: each must hold nothing but the next, over bounds that do not depend on these loops, and
    no iteration may come before one that wrote what it reads, read what it writes, or wrote it.
    """
    if not directive.entries:
        raise IllegalRewrite("no axis is named", hint=SYNTAX)
    sizes: dict[Loop, int] = {}
    for entry in directive.entries:
        size = number_of(directive, entry, "size")
        for place in places_of(nest, entry):
            if place.loop is None:
                raise IllegalRewrite(
                    f"{place.name} is walked by a leaf beside code that is none",
                    hint="tile a loop of the text",
                    span=entry.span,
                )
            sizes[place.loop] = size
    if not sizes:
        return
    band = band_of(nest.function, list(sizes))
    order = [*(NewLoop(loop, size) for loop, size in sizes.items()), *map(NewLoop, band)]
    if len(band) > 1:
        check_order(nest.function, band, order)
    made = rebuild(band, order)
    for loop in made[: len(sizes)]:
        _set_level(nest, loop, directive)


def _set_level(nest: ScheduledNest, loop: Loop, directive: Directive) -> None:
    """Give a loop over tiles the level of the line, or its name where the target has none such."""
    level = directive.level
    if level is None or level == "serial":
        return
    if level not in nest.memory.levels:
        loop.attributes[LABEL] = StringAttr(level)
        return
    reason = f"{axis_name(loop)} stands in a loop that runs in order, or runs in order itself"
    told = why_not_shared(loop) if isinstance(loop, ForOp) else reason
    if told is not None or not isinstance(loop, ForOp):
        raise IllegalRewrite(told or reason, hint=f"leave @{level} away", span=directive.span)
    set_level(loop, level)
