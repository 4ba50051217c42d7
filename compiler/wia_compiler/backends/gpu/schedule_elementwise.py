"""Elementwise nests: blocks of 256 threads over the axes, neighbours along the last axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.access import vector_width
from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.choice import BLOCK_THREADS, Choice
from wia_compiler.backends.gpu.tiling import Tile, as_directives, kept_loops, tile_loops
from wia_compiler.backends.gpu.turned_reads import (
    LEAST_SIDE,
    tile_with_turned_reads,
    turned_reads,
)
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.tile_rewrites import axis_of, leaves_of

MIN_BLOCKS_PER_SM = 4
TURNED_SIDE = 32
"""Points of a side of a tile that is turned: a warp writes one row of it, and reads another."""
TURNED_ROWS = 4
"""Rows of such a tile that a thread takes: 4 loads under way, 8 warps for 32 rows."""


def schedule_elementwise(nest: FuncOp, architecture: Architecture) -> Choice:
    """Threads along the last axis, what is left of the block along the axes before it.

    A thread takes as many neighbours as fit into a 16-byte access, where all operands allow that
    and enough blocks are left to fill the GPU.
    """
    loops = kept_loops(nest)
    if not loops:
        return Choice(1, "one element: one thread")
    sizes = [loop.extent.value.data for loop in loops]
    axes = [axis_of(loop) for loop in loops]
    turned = _turned_tiles(leaves_of(nest), dict(zip(axes, sizes, strict=True)))
    if turned is not None:
        return _through_shared(nest, turned)
    width = vector_width(leaves_of(nest), axes[-1])
    enough = architecture.sm_count * MIN_BLOCKS_PER_SM * BLOCK_THREADS
    while width > 1 and (prod(sizes) // width < enough or width > sizes[-1]):
        width //= 2
    tiles = spread_threads(axes, sizes, width)
    tile_loops(nest, tiles)
    threads = prod(-(-tile.block // tile.each) for tile in tiles.values())
    reason = f"elementwise: {threads} threads, {width} neighbours each along {axes[-1]}"
    numbers = {"vector": width, "points": prod(sizes)}
    return Choice(threads, reason, numbers, directives=as_directives(tiles, {}))


def _turned_tiles(leaves: Sequence[ComputeOp], sizes: Mapping[str, int]) -> dict[str, Tile] | None:
    """Tiles for an operand that lies the other way round; ``None`` where there is none."""
    turned = [each for leaf in leaves for each in turned_reads(leaf)]
    if not turned or len(leaves) != 1 or list(sizes)[-1] != turned[0].along:
        return None
    along, across = turned[0].along, turned[0].across
    if min(sizes[along], sizes[across]) < LEAST_SIDE:
        return None
    rows = min(TURNED_SIDE, -(-sizes[across] // TURNED_ROWS) * TURNED_ROWS)
    return {across: Tile(rows, TURNED_ROWS), along: Tile(min(TURNED_SIDE, sizes[along]), 1)}


def _through_shared(nest: FuncOp, tiles: Mapping[str, Tile]) -> Choice:
    names = " × ".join(f"{tile.block} {axis}" for axis, tile in tiles.items())
    staged = tile_with_turned_reads(nest, tiles)
    threads = prod(tile.block // tile.each for tile in tiles.values())
    reason = f"elementwise: {names} a block, {staged} operands turned in shared memory"
    return Choice(threads, reason, {"turned": staged}, directives=as_directives(tiles, {}))


def spread_threads(
    axes: Sequence[str], sizes: Sequence[int], width: int, threads: int = BLOCK_THREADS
) -> dict[str, Tile]:
    """Tiles that give a block's threads to the last axis first, then to those before it.

    A short axis gets one thread for each of its points, so nothing but the last rows idles.
    """
    tiles: dict[str, Tile] = {}
    left = threads
    each = width
    for axis, size in reversed(list(zip(axes, sizes, strict=True))):
        along = max(1, min(left, -(-size // each)))
        tiles[axis] = Tile(along * each, each)
        left //= along
        each = 1
    return tiles
