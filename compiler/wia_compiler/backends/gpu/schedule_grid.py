"""Folds that all blocks of a GPU share: into how many parts, and whether a second launch pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.access import in_memory, is_dense_along, operands_of
from wia_compiler.backends.gpu.architecture import LAUNCH_SECONDS, WARP_SIZE, Architecture
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.phases import check_grid_fold
from wia_compiler.backends.gpu.tiling import kept_loops
from wia_compiler.backends.gpu.vector_product import kept_sizes, vector_product_of
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    axis_of,
    is_folded,
    leaves_of,
    loops_of,
)

SM_SHARE = 3
"""An SM alone draws at most about so many times its share of the bandwidth: 64 bytes a cycle from
L2 are 4 to 5 shares (A100, H100 by their data sheets), of which copies reach two thirds."""
SCAN_SHARE = 1
"""A block scan waits for its warps after each chunk, and draws less."""
BLOCKS_PER_SM = 2
"""Blocks of 1024 threads that an SM holds."""
SECTOR_BYTES = 32
"""Of a row of a matrix, what a block of columns reads at least."""
LEAST_PART = 4096
"""Points below which a block's part would be mostly its own start and end."""


@dataclass(frozen=True)
class Parts:
    """Fold an axis in parts of ``size`` points; the seconds of both ways, where a model chose."""

    axis: str
    size: int
    count: int
    alone: float | None = None
    shared: float | None = None

    @property
    def numbers(self) -> Mapping[str, float | int | str]:
        """What a decision shows of it."""
        found: dict[str, float | int | str] = {"parts": self.count, "part": self.size}
        if self.alone is not None and self.shared is not None:
            found |= {
                "µs in one launch": round(1e6 * self.alone, 1),
                "µs in parts": round(1e6 * self.shared, 1),
            }
        return found


def grid_parts(nest: FuncOp, architecture: Architecture) -> Parts | None:
    """How to cut a nest's folds into parts for all SMs; ``None`` where its rows suffice for them.

    Rows that are fewer than the SMs leave the rest idle: ``alone`` is what the rows take on the
    SMs that they get, ``shared`` what they take at full bandwidth, with a launch for the parts and
    one for their results in place of one for both.
    """
    folds = [leaf for leaf in leaves_of(nest) if leaf.folds]
    vector = vector_product_of(nest)
    if not folds or (vector is None and any(leaf.kind.data != "reduce" for leaf in folds)):
        return None
    if any(is_folded(loop) for loop in loops_of(nest)):
        return None
    largest = max(folds, key=lambda leaf: prod(leaf.sizes))
    if not _folded(largest):
        return None
    axis, extent = _longest_folded(largest)
    loops = kept_loops(nest)
    rows = prod(loop.trip_count for loop in loops)
    columns = bool(loops) and rows_are_neighbours(folds, axis_of(loops[-1]))
    point = _bytes_of(largest)
    if vector is not None:
        # An element of the matrix serves all results of its row or column.
        columns, point = not vector.along, vector.matrix_bytes
        rows //= 1 if vector.few is None else kept_sizes(nest)[vector.few]
    blocks = ceil(rows / WARP_SIZE) if columns else rows
    if vector is not None and columns:
        blocks = ceil(rows * point / SECTOR_BYTES)
    if blocks >= architecture.sm_count:
        return None
    moved = rows * prod(largest.sizes) * point
    busy = min(blocks, architecture.sm_count)
    share = SM_SHARE * architecture.bandwidth / architecture.sm_count
    alone = moved / min(architecture.bandwidth, busy * share)
    launches = len([leaf for leaf in folds if axis in _folded_axes(leaf)])
    shared = moved / architecture.bandwidth + (2 * launches - 1) * LAUNCH_SECONDS
    wanted = ceil(BLOCKS_PER_SM * architecture.sm_count / blocks)
    inner = prod(size for name, size in _folded(largest) if name != axis)
    width = WARP_SIZE if columns else 1
    least = ceil(LEAST_PART / (inner * width))
    size = max(ceil(extent / wanted), least)
    size = ceil(size / WARP_SIZE) * WARP_SIZE if size > WARP_SIZE else size
    count = ceil(extent / size)
    if count < 2 or alone <= shared:
        return None
    try:
        check_grid_fold(nest, axis)
    except IllegalRewrite:
        return None
    return Parts(axis, size, count, alone, shared)


def scan_parts(scan: ForOp, rows: int, architecture: Architecture) -> Parts | None:
    """How to cut running folds into parts for all SMs; ``None`` where three launches do not pay.

    The elements are read twice then, and written once.
    """
    if rows >= architecture.sm_count:
        return None
    extent = scan.trip_count
    point = sum(_bytes_of(leaf) for leaf in leaves_of(scan))
    moved = rows * extent * point
    share = SCAN_SHARE * architecture.bandwidth / architecture.sm_count
    alone = moved / min(architecture.bandwidth, rows * share)
    shared = 1.5 * moved / architecture.bandwidth + 2 * LAUNCH_SECONDS
    wanted = ceil(BLOCKS_PER_SM * architecture.sm_count / rows)
    size = max(ceil(extent / wanted), LEAST_PART)
    size = ceil(size / LEAST_PART) * LEAST_PART
    count = ceil(extent / size)
    if count < 2 or alone <= shared:
        return None
    return Parts(axis_of(scan), size, count, alone, shared)


def rows_are_neighbours(folds: list[ComputeOp], last: str) -> bool:
    """Whether it is the last kept axis, and no folded one, along which memory is dense."""
    for leaf in folds:
        if not in_memory(leaf):
            continue
        if any(is_dense_along(leaf, name) for name in _folded_axes(leaf)):
            return False
        if is_dense_along(leaf, last):
            return True
    return False


def _folded(leaf: ComputeOp) -> list[tuple[str, int]]:
    axes = zip(leaf.axis_names, leaf.sizes, leaf.reductions, strict=True)
    return [(name, size) for name, size, folded in axes if folded]


def _folded_axes(leaf: ComputeOp) -> list[str]:
    return [name for name, _ in _folded(leaf)]


def _longest_folded(leaf: ComputeOp) -> tuple[str, int]:
    return max(_folded(leaf), key=lambda axis: axis[1])


def _bytes_of(leaf: ComputeOp) -> int:
    """Bytes of main memory that one point reads."""
    read = [operands_of(leaf)[number] for number in in_memory(leaf) if number < len(leaf.inputs)]
    return sum(size_bytes(element_type(value)) for value in read) or 1
