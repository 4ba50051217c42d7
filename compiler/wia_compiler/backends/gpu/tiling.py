"""Dealing the kept axes of a nest out over blocks, and each block over its threads or warps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from wia_compiler.base.schedule import Directive, directive
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.dialects.tile_places import PositionsOp
from wia_compiler.passes.tile_rewrites import (
    axis_of,
    find_loop,
    interchange,
    loops_of,
    set_level,
    split_loop,
    tile_axis,
)
from wia_compiler.passes.tile_rewrites.nest import is_folded


@dataclass(frozen=True)
class Tile:
    """How one kept axis is dealt out: a block takes ``block`` points, a thread or warp ``each``."""

    block: int = 1
    each: int = 1


def kept_loops(nest: FuncOp) -> list[ForOp]:
    """The chain of loops around everything else in a nest, from the outermost in.

    A loop that goes on with what its iterations before left (a running fold) is none of them.
    """
    found: list[ForOp] = []
    body = nest.body.block
    while isinstance(first := _first_op(body), ForOp) and not is_folded(first):
        found.append(first)
        body = first.body.block
    return found


def _first_op(block: Block) -> Operation | None:
    """What a block does first; arrays of positions are there without anything being done."""
    return next((op for op in block.ops if not isinstance(op, PositionsOp)), None)


def tile_loops(
    nest: FuncOp, tiles: Mapping[str, Tile], *, inner: Literal["thread", "warp"] = "thread"
) -> None:
    """Make a grid of a nest's kept loops, and threads or warps of what a block takes of each.

    ::

        for %i0 in 1000 step 1 @serial          for %i0 in 1000 step 256 @grid
          leaf [i = 1]  a[%i0 + i]         →      for %i1 in 256 step 4 @thread
                                                    leaf [i = 4] bounds (%i0 + %i1 + i < 1000)

    All grid loops come first, then all inner ones, each in the order of the axes. Axes without an
    entry keep one point a block; an inner loop that would run once is left out.
    """
    split: list[str] = []
    for axis in [axis_of(loop) for loop in kept_loops(nest)]:
        tile = tiles.get(axis, Tile())
        tile_axis(nest, axis, tile.each)
        if tile.block > tile.each:
            split_loop(nest, f"{axis}.0", tile.block)
            split.append(axis)
    for axis in reversed(split):
        _sink(find_loop(nest, f"{axis}.1"))
    for loop in loops_of(nest):
        if is_folded(loop):
            continue
        is_inner = loop.axis.data in {f"{axis}.1" for axis in split}
        set_level(loop, inner if is_inner else "grid")


def _sink(loop: ForOp) -> None:
    """Move an inner loop inside all grid loops that stand in it."""
    while isinstance(below := loop.body.block.first_op, ForOp) and below.axis.data.endswith(".0"):
        interchange(loop, below)


def as_directives(tiles: Mapping[str, Tile], folds: Mapping[str, int]) -> tuple[Directive, ...]:
    """Tiles in the words of a schedule: ``tile i 64, k 16; thread_tile i 4``."""
    blocks = {axis: tile.block for axis, tile in tiles.items() if tile.block > 1}
    each = {axis: tile.each for axis, tile in tiles.items() if tile.each > 1}
    lines = (("tile", {**blocks, **folds}), ("thread_tile", each))
    return tuple(directive(name, sizes) for name, sizes in lines if sizes)


def uses_axis(leaf: ComputeOp, operand: int, axis: str) -> bool:
    """Whether an operand's index moves with an axis."""
    wanted = leaf.axis_names.index(axis)
    results = leaf.maps.data[operand].data.results
    return any(wanted in result.used_dims() for result in results)
