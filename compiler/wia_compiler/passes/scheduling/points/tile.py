"""``tile`` on point code: loops over tiles around loops over the points of each."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.points.bands import NewLoop, band_of, check_order, rebuild
from wia_compiler.passes.points.forms import Loop
from wia_compiler.passes.scheduling.hints import places_of
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import IllegalRewrite

SYNTAX = "tile AXIS SIZE, …"


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
    rebuild(band, order)
