"""Elementwise nests: blocks of 256 threads over the axes, neighbours along the last axis."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.access import vector_width
from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.choice import BLOCK_THREADS, Choice
from wia_compiler.backends.gpu.tiling import Tile, as_directives, kept_loops, tile_loops
from wia_compiler.passes.tile_rewrites import axis_of, leaves_of

MIN_BLOCKS_PER_SM = 4


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
