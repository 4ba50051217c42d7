"""Who runs a loop's iterations, and who shares a leaf's points."""

from __future__ import annotations

from typing import get_args

from xdsl.dialects.builtin import StringAttr

from wia_compiler.dialects.tile import ComputeOp, ForOp, LeafLevel, LoopLevel
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    is_folded,
    loops_around,
    loops_of,
    replace_leaf,
    used_ivs,
)

LEVEL_ORDER: dict[str, int] = {
    "grid": 0,
    "block": 1,
    "warp": 2,
    "thread": 3,
    "serial": 4,
    "vector": 5,
}
"""How levels nest: a loop's level is never before that of a loop around it."""
PARALLEL_LEVELS = ("grid", "block", "warp", "thread")


def set_level(loop: ForOp, level: LoopLevel) -> None:
    """Run a loop's iterations on another level.

    ``for %i0 in 1000 step 128 @serial`` → ``for %i0 in 1000 step 128 @grid``

    Levels nest as grid, block, warp, thread, serial, vector; where there is no grid, threads may
    also begin anew in each turn of a serial loop. A loop over an axis that a leaf inside folds runs
    in order, unless that leaf's level shares it among threads.
    """
    if level not in get_args(LoopLevel):
        raise IllegalRewrite(f"no loop level {level!r}: there are {', '.join(LEVEL_ORDER)}")
    if level in PARALLEL_LEVELS and is_folded(loop):
        raise IllegalRewrite(
            f"{loop.axis.data} walks a folded axis: its iterations add to the same elements"
        )
    other = loop_of_later_level(loop, level)
    if other is not None:
        raise IllegalRewrite(f"@{level} cannot stand inside {other.axis.data} @{other.level.data}")
    for other in loops_of(loop):
        inside = other.level.data
        if inside in PARALLEL_LEVELS and LEVEL_ORDER[inside] < LEVEL_ORDER[level]:
            raise IllegalRewrite(f"@{level} cannot hold {other.axis.data} @{inside}")
    loop.properties["level"] = StringAttr(level)


def loop_of_later_level(loop: ForOp, level: str) -> ForOp | None:
    """The loop around one that keeps it from running on a level; ``None`` where none does."""
    around = loops_around(loop)
    is_forked = level == "thread" and {each.level.data for each in around} <= {"thread", "serial"}
    if level not in PARALLEL_LEVELS or is_forked:
        return None
    later = (each for each in around if LEVEL_ORDER[each.level.data] > LEVEL_ORDER[level])
    return next(later, None)


def set_leaf_level(leaf: ComputeOp, level: LeafLevel) -> ComputeOp:
    """Let the threads of a warp or block share a leaf's points.

    ``tile.compute copy @thread`` → ``tile.compute copy @block``

    What the threads share cannot depend on which of them runs it: the leaf may not read the
    variable of a loop over them.
    """
    if level not in get_args(LeafLevel):
        raise IllegalRewrite(f"no leaf level {level!r}: there are {', '.join(get_args(LeafLevel))}")
    shared = {"thread": (), "warp": ("thread",), "block": ("thread", "warp")}[level]
    read = used_ivs(leaf)
    for loop in loops_around(leaf):
        if loop.level.data in shared and loop.induction_variable in read:
            raise IllegalRewrite(
                f"a @{level} leaf is shared by the iterations of {loop.axis.data} "
                f"@{loop.level.data}, and reads which of them it is in"
            )
    return replace_leaf(leaf, level=level)
