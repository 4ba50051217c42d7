"""``pack``: what a leaf reads of an array, copied to consecutive memory first."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.scheduling.operands import copy_place, readers_of
from wia_compiler.passes.tile_rewrites import split_panels, stage_operand
from wia_compiler.passes.tile_rewrites.staging import reading_order

SYNTAX = "pack ARRAY [at LOOP], …"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Copy a tile of an array so that the leaf then reads it front to back.

    ``pack B at j``::

        for %j0 in 1000 step 32                    for %j0 in 1000 step 32
          for %i0 in 1000 step 8             →       %B_tile = alloc 64×32 @packed
            contract … B[k, %j0 + j]                 copy B_tile[k, j] = B[k, %j0 + j]
                                                     for %i0 in 1000 step 8
                                                       contract … B_tile[k, j]

    The copy stands inside of ``LOOP`` and outside of all loops within; without one it stands at the
    innermost loop outside of which the tile is used again. Folded axes are outermost in the buffer,
    the axis that vectors run along is innermost; where loops inside walk that one, the buffer holds
    panels as wide as the leaf reads them, one behind the other. ``A.1`` is the second place at
    which the leaf reads ``A``. What lies outside the array is copied as 0: padding and edges are
    dealt with once.
    Legal for what the nest only reads, at a place that it reads as sums of axes.
    """
    for entry in directive.entries:
        array = nest.array(entry)
        for leaf, operand in readers_of(nest, entry, array):
            loop = copy_place(nest, entry, leaf, operand)
            if loop is not None:
                order = reading_order(leaf, operand, loop)
                staged = stage_operand(leaf, operand, loop, nest.memory.packed, order=order)
                width = dict(zip(leaf.axis_names, leaf.sizes, strict=True))[order[-1]]
                if width > 1:
                    split_panels(staged[2], operand, order[-1])
