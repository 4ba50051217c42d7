"""``tile``: blocks of the iteration space, and the loops over them."""

from __future__ import annotations

from typing import get_args

from xdsl.dialects.builtin import StringAttr

from wia_compiler.base.schedule import Directive, Entry
from wia_compiler.dialects.tile import ComputeOp, ForOp, LoopLevel
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    innermost_loops,
    interchange,
    loops_around,
    set_level,
    split_loop,
    tile_leaf,
)
from wia_compiler.passes.tile_rewrites.blocked_folds import block_fold

SYNTAX = "tile AXIS SIZE, … [@LEVEL]"

LABEL = "wia.level"
"""Attribute of a loop: the name that a schedule gave its level, where the target has none such."""


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Cut axes into blocks of ``SIZE`` points; another line makes smaller blocks within.

    ``tile i 128, j 128, k 32``::

        for %i0 in 1000                      for %i0 in 1000 step 128
          for %j0 in 1000                      for %j0 in 1000 step 128
            acc = 0                      →       for %k0 in 512 step 32
            contract [k = 512] acc += …            for %i1 in 128    for %j1 in 128
            C[…] = relu(acc)                         acc = 0 in the first block, else C[…]
                                                     contract [k = 32] acc += …
                                                     C[…] = acc, in the last block relu(acc)

    Loops over blocks stand in the order of the line, outside of all loops that are not cut yet. A
    folded axis may be cut too: its partial sums wait in the result, or in a buffer where that has
    another type. Axes that only leaves walk (the row of a norm) get a loop around each leaf. Sizes
    need not divide the axis. ``@LEVEL`` says who runs the blocks, where the target has such a
    level; else it names them.

    Legal where the loops in between hold nothing beside the loop that moves outside of them.
    """
    if not directive.entries:
        raise IllegalRewrite("no axis is named", hint=SYNTAX)
    for entry in directive.entries:
        axis = nest.check_axis(entry)
        size = number_of(directive, entry, "size")
        if nest.is_folded(axis) or not nest.loops(axis):
            made = _cut_leaves(nest, entry, axis, size)
        else:
            made = _cut_loops(nest, entry, axis, size)
        nest.blocks += made
        for loop in made:
            _set_level(nest, loop, directive)


def _cut_loops(nest: ScheduledNest, entry: Entry, axis: str, size: int) -> list[ForOp]:
    """Split the innermost loops of a kept axis; the outer part moves outside of what is whole."""
    loops = innermost_loops(nest.function, axis)
    made: list[ForOp] = []
    for loop in loops:
        step, extent = loop.step.value.data, loop.extent.value.data
        if loop.level.data != "serial":
            raise IllegalRewrite(
                f"{loop.axis.data} is @{loop.level.data} already",
                hint="write tile before parallel",
                span=entry.span,
            )
        if size < step:
            raise IllegalRewrite(
                f"{loop.axis.data} takes {step} points at a time already: no block has {size}",
                hint=f"write the line before thread_tile, or choose a multiple of {step}",
                span=entry.span,
            )
        if size % step:
            raise IllegalRewrite(
                f"{loop.axis.data} takes {step} points at a time: {size} is no multiple",
                hint=f"choose {size // step * step or step} or {(size // step + 1) * step}",
                span=entry.span,
            )
        split_loop(nest.function, loop, min(size, -(-extent // step) * step))
        while isinstance(outer := loop.parent_op(), ForOp) and outer not in nest.blocks:
            interchange(outer, loop)
        made.append(loop)
    return made


def _cut_leaves(nest: ScheduledNest, entry: Entry, axis: str, size: int) -> list[ForOp]:
    """Loops over blocks of an axis that leaves walk: around all whole loops for a lone fold."""
    points = max((_points(leaf, axis) for leaf in nest.leaves()), default=0)
    cut = nest.loops(axis)
    is_cut = any(loop.trip_count > 1 for loop in cut)
    if is_cut and (points == 1 or size > points):
        raise IllegalRewrite(
            f"axis {axis!r} is cut into blocks of {points} already: none within has {size}",
            hint="write the larger blocks first",
            span=entry.span,
        )
    walking = [leaf for leaf in nest.leaves() if axis in leaf.axis_names]
    folds = [leaf for leaf in walking if axis in {name.data for name in leaf.reduce_axes}]
    if len(folds) == 1 and all(leaf in folds or leaf.kind.data == "copy" for leaf in walking):
        (leaf,) = folds
        whole = [loop for loop in loops_around(leaf) if loop not in nest.blocks]
        if whole:
            return [block_fold(leaf, axis, size, whole[0], nest.memory.packed)]
    return [tile_leaf(leaf, axis, size)[0] for leaf in walking if leaf.kind.data != "copy"]


def _points(leaf: ComputeOp, axis: str) -> int:
    return dict(zip(leaf.axis_names, leaf.sizes, strict=True)).get(axis, 0)


def _set_level(nest: ScheduledNest, loop: ForOp, directive: Directive) -> None:
    level = directive.level
    if level is None:
        return
    if level in nest.memory.levels and level in get_args(LoopLevel):
        set_level(loop, level)
        return
    loop.attributes[LABEL] = StringAttr(level)
