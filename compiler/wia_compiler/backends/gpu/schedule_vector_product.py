"""Matrix times vector: the matrix is read once, 16 bytes a thread, by as many threads as it takes.

::

    A @ x   lanes of a warp read neighbours of a row of A, their sums are folded by shuffles; rows
            that are few have a block each
    x @ A   threads side by side read neighbouring columns of A, each some rows of it; the sums of
            a column meet in shared memory

The few rows of a small matrix in place of the vector are each thread's: an element of the large one
is read once and multiplied by all of them.
"""

from __future__ import annotations

from math import ceil, prod

from xdsl.dialects.builtin import i8
from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.access import vector_width
from wia_compiler.backends.gpu.architecture import MAX_THREADS_PER_BLOCK, WARP_SIZE, Architecture
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.choice import BLOCK_THREADS, Choice, power_of_two_at_least
from wia_compiler.backends.gpu.leaf_columns import take_columns
from wia_compiler.backends.gpu.schedule_rows import share_leaves, take_neighbours
from wia_compiler.backends.gpu.tiling import Tile, tile_loops
from wia_compiler.backends.gpu.vector_product import (
    VectorProduct,
    kept_sizes,
    vector_product_of,
)
from wia_compiler.backends.gpu.wide_sums import widen_sums
from wia_compiler.backends.gpu.widened_products import factors_of
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import leaves_of, set_leaf_level

WARPS_PER_BLOCK = 4
WARPS_PER_SM = 16
"""Warps that have an SM's share of the bandwidth under way, with 64 bytes for each of their lanes:
32 KiB, as much as an A100 moves in 900 ns."""
BYTES_A_THREAD = 64
"""Of a row, for each thread that shares it: four accesses of 16 bytes."""
LEAST_BYTES = 8
"""Neighbouring columns of a thread that are kept as long as fewer threads stand side by side."""
LEAST_ACROSS = 8
SECTOR_BYTES, LINE_BYTES = 32, 128
MOST_SUMS = 32
"""Sums of a thread: results of ``few`` rows for each of its columns."""
SHARED_BYTES = 32 * 1024
"""What the sums of a block may take where they meet."""


def schedule_vector_product(nest: FuncOp, architecture: Architecture) -> Choice | None:
    """Deal such a product out; ``None`` for another nest."""
    found = vector_product_of(nest)
    if found is None:
        return None
    if _adds_bytes(found.leaf):
        widen_sums(found.leaf)
        found = vector_product_of(nest)
        assert found is not None
    if found.along:
        return _rows(nest, found, architecture)
    return _columns(nest, found, architecture)


def _adds_bytes(leaf: ComputeOp) -> bool:
    """Whether a product of i8 is added up in 8 bits, of which 32 have the same lowest ones."""
    factors = factors_of(leaf)
    return (
        element_type(leaf.outputs[0]) == i8
        and factors is not None
        and set(factors) == set(leaf.body.block.args[:2])
        and len(leaf.inputs) == 2
    )


def _rows(nest: FuncOp, found: VectorProduct, architecture: Architecture) -> Choice:
    """A warp for each row of the matrix, or a block where there are fewer than fill the GPU."""
    sizes = kept_sizes(nest)
    few = 1 if found.few is None else sizes[found.few]
    rows = prod(sizes.values()) // few
    warps = _warps_for(rows, found.length * found.matrix_bytes, architecture)
    tiles = {} if found.few is None else {found.few: Tile(few, few)}
    numbers = {"rows": rows, "row": found.length, "results a row": few}
    if found.many is None or warps > 1:
        tile_loops(nest, tiles)
        threads, level = warps * WARP_SIZE, "block"
        reason = f"vector product: {warps} warps for each row"
    else:
        several = min(WARPS_PER_BLOCK, power_of_two_at_least(sizes[found.many]))
        tile_loops(nest, {**tiles, found.many: Tile(several, 1)}, inner="warp")
        threads, level = several * WARP_SIZE, "warp"
        reason = f"vector product: a warp for each row, {several} a block"
    group = WARP_SIZE if level == "warp" else threads
    if few == 1:
        share_leaves(nest, level)
    else:
        # The results of a row are whole in each thread; one thread writes them.
        for leaf in leaves_of(nest):
            set_leaf_level(leaf, level if leaf.folds else "thread")
    width = take_neighbours([leaf for leaf in leaves_of(nest) if leaf.folds], group)
    return Choice(threads, reason, {**numbers, "neighbours": width})


def _warps_for(rows: int, row_bytes: int, architecture: Architecture) -> int:
    """Warps of a row: as many as fill the GPU, none of which has less to read than it should."""
    wanted = ceil(architecture.sm_count * WARPS_PER_SM / rows)
    busy = ceil(row_bytes / (WARP_SIZE * BYTES_A_THREAD))
    most = MAX_THREADS_PER_BLOCK // WARP_SIZE
    return max(1, min(power_of_two_at_least(min(wanted, busy)), most))


def _columns(nest: FuncOp, found: VectorProduct, architecture: Architecture) -> Choice:
    """A block for some columns of the matrix, its threads side by side and in rows."""
    sizes = kept_sizes(nest)
    assert found.many is not None
    few = 1 if found.few is None else sizes[found.few]
    columns, size = sizes[found.many], found.matrix_bytes
    beside = prod(sizes.values()) // (few * columns)
    width, across = _side_by_side(found, columns, few, beside, architecture)
    blocks = beside * ceil(columns / (across * width))
    wanted = power_of_two_at_least(ceil(architecture.sm_count * WARPS_PER_SM * WARP_SIZE / blocks))
    busy = power_of_two_at_least(ceil(across * found.length * width * size / BYTES_A_THREAD))
    threads = min(MAX_THREADS_PER_BLOCK, max(BLOCK_THREADS, min(wanted, busy)))
    sum_bytes = max(4, size_bytes(element_type(found.leaf.outputs[0])))
    while threads > WARP_SIZE and threads * few * width * sum_bytes > SHARED_BYTES:
        threads //= 2
    tiles = {found.many: Tile(across * width, across * width)}
    if found.few is not None:
        tiles[found.few] = Tile(few, few)
    tile_loops(nest, tiles)
    share_leaves(nest, "block")
    (leaf,) = [each for each in leaves_of(nest) if each.folds]
    take_columns(leaf, width)
    reason = (
        f"vector product: a block for {across * width} columns, {threads // across} rows at a time"
    )
    return Choice(threads, reason, {"columns": columns, "row": found.length, "neighbours": width})


def _side_by_side(
    found: VectorProduct, columns: int, few: int, beside: int, architecture: Architecture
) -> tuple[int, int]:
    """Columns of a thread, and threads side by side: as many as leave a block for each SM.

    What they read of a row are whole sectors of 32 bytes at least.
    """
    assert found.many is not None
    width = vector_width([found.leaf], found.many)
    while width > 1 and (columns % width or few * width > MOST_SUMS):
        width //= 2
    across = WARP_SIZE
    size = found.matrix_bytes
    while beside * ceil(columns / (across * width)) < architecture.sm_count:
        if width > 1 and width * size > LEAST_BYTES and across * width * size <= LINE_BYTES * 2:
            width //= 2
        elif across > LEAST_ACROSS and across * width * size > SECTOR_BYTES:
            across //= 2
        elif width > 1 and width * across * size > SECTOR_BYTES:
            width //= 2
        else:
            break
    return width, min(across, ceil(columns / width))
