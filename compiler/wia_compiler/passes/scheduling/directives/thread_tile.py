"""``thread_tile``: how many points of each axis the innermost leaf takes, sums in registers."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import tile_axis, tile_leaves

SYNTAX = "thread_tile AXIS SIZE, …"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Give the innermost leaves ``SIZE`` points of each axis.

    ``thread_tile i 8, j 32, k 4``::

        for %i0 in 1000                        for %i0 in 1000 step 8
          for %j0 in 1000                        for %j0 in 1000 step 32
            acc = register 1×1             →       acc = register 8×32
            contract [i = 1, j = 1, k = 64]        for %k0 in 64 step 4
                                                     contract [i = 8, j = 32, k = 4]

    Loops over an axis take so many points at a time; an axis that leaves alone walk (a folded one,
    or the row of a norm) gets a loop right around each of them. Sizes need not divide the axis. It
    is legal wherever the buffers of the nest can grow with the tile, and a loop takes single points
    until now.
    """
    for entry in directive.entries:
        axis = nest.check_axis(entry)
        size = number_of(directive, entry, "size")
        if nest.loops(axis) and not nest.is_folded(axis):
            tile_axis(nest.function, axis, size)
        else:
            tile_leaves(nest.function, axis, size)
