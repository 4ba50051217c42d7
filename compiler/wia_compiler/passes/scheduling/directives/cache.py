"""``cache``: what a leaf reads of an array, kept in a local buffer as it lies."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.scheduling.operands import copy_place, readers_of
from wia_compiler.passes.tile_rewrites.regions import stage_region

SYNTAX = "cache ARRAY [at LOOP], …"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Copy a tile of an array to a local buffer, its axes in the order of the array.

    ``cache A at i.0``::

        for %i0 in 1000 step 128                   for %i0 in 1000 step 128
          for %j0 in 1000 step 32            →       %A_tile = alloc 128×64 @packed
            contract … A[%i0 + i, k]                 copy A_tile[i, k] = A[%i0 + i, k]
                                                     for %j0 in 1000 step 32
                                                       contract … A_tile[i, k]

    The copy is the box of the array that is read there, each element once, also where windows of
    it overlap: it makes a tile of a large array dense, so that its rows do not fall on one another
    in the caches, and deals with padding once. Legal for what the nest only reads.
    """
    for entry in directive.entries:
        array = nest.array(entry)
        for leaf, operand in readers_of(nest, entry, array):
            loop = copy_place(nest, entry, leaf, operand)
            if loop is not None:
                stage_region(leaf, operand, loop, nest.memory.cached)
