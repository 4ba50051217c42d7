"""Running folds: a block for each row, its elements shared among the threads."""

from __future__ import annotations

from math import prod

from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.access import vector_width
from wia_compiler.backends.gpu.architecture import WARP_SIZE, Architecture
from wia_compiler.backends.gpu.choice import Choice, power_of_two_at_least
from wia_compiler.backends.gpu.leaf_scan import mark_scan, scan_leaves
from wia_compiler.backends.gpu.schedule_grid import Parts, rows_are_neighbours, scan_parts
from wia_compiler.backends.gpu.tiling import kept_loops, tile_loops
from wia_compiler.dialects.tile import ForOp
from wia_compiler.passes.tile_rewrites import (
    axis_of,
    is_folded,
    leaves_of,
    loops_of,
    set_leaf_level,
)

SHORT_SCAN = 16
"""Rows up to this long leave most of a warp idle: a thread takes one."""
MAX_WIDTH = 8
MAX_THREADS = 512
"""Each thread adds up the totals of all warps: beyond 16 of them that would be the longer part."""


def the_scan(nest: FuncOp) -> ForOp | None:
    """The one loop of a nest that goes on with what its turns before left, if it is a scan."""
    loops = [loop for loop in loops_of(nest) if is_folded(loop)]
    if len(loops) != 1 or scan_leaves(loops[0]) is None:
        return None
    others = [leaf for leaf in leaves_of(nest) if not loops[0].is_ancestor(leaf)]
    if any(leaf.folds or prod(leaf.sizes) > 1 for leaf in others):
        return None
    return loops[0]


def grid_scan(nest: FuncOp, architecture: Architecture) -> Parts | None:
    """The parts in which all SMs share the running folds of a nest; ``None`` where it has none."""
    scan = the_scan(nest)
    if scan is None:
        return None
    rows = prod(loop.trip_count for loop in kept_loops(nest))
    return scan_parts(scan, rows, architecture)


def schedule_scan(nest: FuncOp, architecture: Architecture) -> Choice | None:
    """A block scan for each row; ``None`` where a thread for each row is the better way.

    That is for short rows, and where rows are neighbours in memory and there are enough of them:
    then neighbouring threads read neighbours, each along its own row.
    """
    scan = the_scan(nest)
    if scan is None or scan.trip_count <= SHORT_SCAN:
        return None
    loops = kept_loops(nest)
    rows = prod(loop.trip_count for loop in loops)
    leaves = leaves_of(scan)
    if loops and rows >= architecture.sm_count * WARP_SIZE:
        dense = [leaf for leaf in leaves if leaf.folds]
        if rows_are_neighbours(dense, axis_of(loops[-1])):
            return None
    width = min(MAX_WIDTH, vector_width(leaves, axis_of(scan)))
    wanted = power_of_two_at_least(-(-scan.trip_count // width))
    threads = min(MAX_THREADS, max(WARP_SIZE, wanted))
    tile_loops(nest, {})
    mark_scan(scan, width)
    for leaf in leaves_of(nest):
        set_leaf_level(leaf, "block")
    chunks = -(-scan.trip_count // (threads * width))
    reason = f"running fold: a block for each row, {width} neighbours a thread"
    return Choice(threads, reason, {"rows": rows, "row": scan.trip_count, "chunks": chunks})
