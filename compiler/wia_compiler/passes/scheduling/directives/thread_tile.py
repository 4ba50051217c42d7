"""``thread_tile``: how many points of each axis the innermost leaf takes, sums in registers."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive, Entry
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import IllegalRewrite, tile_axis, tile_leaves

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
    is legal wherever the buffers of the nest can grow with the tile. Where loops over tiles stand
    in the text (``for ii in 0..M step 32``), their tiles are cut: a loop right around each leaf.
    """
    for entry in directive.entries:
        axis = nest.check_axis(entry)
        size = number_of(directive, entry, "size")
        loops = nest.loops(axis)
        single = bool(loops) and loops[-1].step.value.data == 1
        if single and not nest.is_folded(axis):
            tile_axis(nest.function, axis, size)
        else:
            _check_larger(nest, entry, axis, size)
            tile_leaves(nest.function, axis, size)


def _check_larger(nest: ScheduledNest, entry: Entry, axis: str, size: int) -> None:
    """Refuse a tile that is larger than the one there is; a whole axis is no such tile."""
    loops = nest.loops(axis)
    step = loops[-1].step.value.data if loops else 0
    if loops and size > step < loops[-1].extent.value.data:
        raise IllegalRewrite(
            f"{loops[-1].axis.data} takes {step} points at a time already: no leaf has {size}",
            hint=f"write the larger tile first, or thread_tile {axis} {step}",
            span=entry.span,
        )
