"""``fuse_at``: an array computed inside of a loop of what reads it."""

from __future__ import annotations

from dataclasses import replace

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite
from wia_compiler.passes.tile_rewrites.producers import compute_at

SYNTAX = "fuse_at ARRAY LOOP"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Compute an array that another nest makes where it is read, a tile at a time.

    ``fuse_at x i``::

        for i.0 in 64, for j.0 in 80: x[i, j] = …        for i.0 in 64
        for i.0 in 64                               →      x_tile = alloc 1×80
          reduce sum[i] += x[i, j]    over j               for x_j.0 in 80: x_tile[0, j] = …
                                                           reduce sum[i] += x_tile[0, j]  over j

    The nest that computed ``x`` is gone, and so is the array. Its axes have the name of the array
    in front from then on (``thread_tile x_j 16``). What several iterations of the loop read of
    ``x`` is computed in each of them. Legal where this nest alone reads the array, and where the
    loop reads one box of it.
    """
    if len(directive.entries) != 1 or directive.entries[0].at is None:
        raise IllegalRewrite("no loop is named", hint=SYNTAX)
    (entry,) = directive.entries
    parameter = nest.array(entry)
    assert entry.at is not None
    loop = nest.loop(replace(entry, name=entry.at))
    compute_at(nest.function, parameter, loop, entry.name or "", nest.memory.packed)
