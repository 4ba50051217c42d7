"""``parallel``: a loop whose iterations the target's processors share."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive, Entry
from wia_compiler.dialects.loop_hints import hints_of
from wia_compiler.dialects.tile import ForOp
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite, axis_of, loops_around, set_level
from wia_compiler.passes.tile_rewrites.fold_parts import fold_parts
from wia_compiler.passes.tile_rewrites.races import why_not_shared

SYNTAX = "parallel LOOP, …   or   parallel AXIS SIZE"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Share the iterations of loops among processors; a bare axis means its outermost loop.

    ``parallel i``::

        for %i0 in 1000 step 128 @serial { … }   →   for %i0 in 1000 step 128 @thread { … }

    Legal where no two iterations write the same element: not for a folded axis, nor where
    iterations share a buffer that is made outside of the loop. Results do not depend on how many
    threads there are. Loops of which one holds only the next (``parallel i, j``) are shared as one.

    ``parallel k 256`` is for a folded axis that no loop walks yet: parts of 256 points have a
    result of their own each, and these are folded in order::

        reduce [k = 1000] %acc[] += x[k]   →   for %p0 in 4 step 1 @thread {
                                                 reduce [k = 256] %parts[%p0] += x[256 * %p0 + k] }
                                               reduce [p = 4] %acc[] += %parts[p]
    """
    if not directive.entries:
        raise IllegalRewrite("no loop is named", hint=SYNTAX)
    for entry in directive.entries:
        if entry.number is not None:
            _share_fold(nest, entry)
            continue
        for loop in _named(nest, entry):
            reason = why_not_shared(loop)
            if reason is not None:
                free = [each for each in nest.loops() if why_not_shared(each) is None]
                listed = ", ".join(dict.fromkeys(each.axis.data for each in free))
                hint = f"threads may share {listed}" if free else "no loop of it can be shared"
                raise IllegalRewrite(reason, hint=hint, span=entry.span)
            if hints_of(loop):
                raise IllegalRewrite(
                    f"{loop.axis.data} is to be written out: its iterations belong together",
                    hint=f"share a loop around it: tile {axis_of(loop)} SIZE makes one",
                    span=entry.span,
                )
            set_level(loop, nest.memory.parallel)


def _share_fold(nest: ScheduledNest, entry: Entry) -> None:
    """Cut the folds over an axis into parts that processors share."""
    axis = nest.check_axis(entry)
    folds = [leaf for leaf in nest.leaves() if leaf.folds]
    folds = [leaf for leaf in folds if axis in {name.data for name in leaf.reduce_axes}]
    if not folds:
        raise IllegalRewrite(
            f"no leaf folds {axis!r}",
            hint=f"leave the number away to share a loop: parallel {axis}",
            span=entry.span,
        )
    for leaf in folds:
        loop = fold_parts(leaf, axis, entry.number or 0, nest.memory.packed)
        set_level(loop, nest.memory.parallel)


def _named(nest: ScheduledNest, entry: Entry) -> list[ForOp]:
    """The loops of that name, side by side; of a bare axis the outermost ones."""
    name = entry.name or ""
    loops = [loop for loop in nest.loops() if name in (loop.axis.data, axis_of(loop))]
    outermost = [loop for loop in loops if not any(each in loops for each in loops_around(loop))]
    exact = [loop for loop in loops if loop.axis.data == name]
    return exact or outermost or [nest.loop(entry)]
