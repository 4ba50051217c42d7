"""Attention on GPUs of capability 9.0: one warpgroup copies, the others multiply 64 queries each.

The nest comes in tiles (``passes/nests/attention_warpgroups.py``). What is added here is who holds
what: scores, sums and weights lie in the accumulators of the warpgroups' products, a row in the
four lanes of a quad, so that no two warps wait for one another to fold it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.builder import element_type, shape_of
from wia_compiler.backends.gpu.choice import Choice
from wia_compiler.backends.gpu.hopper_schedule import (
    WARP_SPECIALISED,
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
)
from wia_compiler.backends.gpu.launch import GRID_SIZE
from wia_compiler.backends.gpu.layouts import LAYOUT, AccumulatorLayout, layout_attribute
from wia_compiler.backends.gpu.schedule_attention import check_directives
from wia_compiler.base.schedule import Directive, directive
from wia_compiler.passes.llvm.types import num_elements, size_bytes
from wia_compiler.passes.nests.attention_warpgroups import MOST_STAGES, RESERVED_BYTES, WARPGROUPS
from wia_compiler.passes.nests.written_tiles import STAGES, written_tiles
from wia_compiler.passes.tile_rewrites import (
    leaves_of,
    loops_of,
    scope_of,
    set_leaf_level,
    set_level,
)
from wia_compiler.passes.tile_rewrites.nest import is_folded

WARPS = 4
"""Of a warpgroup: 16 rows each."""
LAUNCH_REGISTERS = 128
"""Of a thread where four warpgroups share an SM's registers evenly, before they are dealt out."""


def is_warpgroup_attention(nest: FuncOp) -> bool:
    """Whether a nest is an attention written for products of warpgroups."""
    return isinstance(nest.attributes.get(WARPGROUPS), UnitAttr)


def why_no_warpgroups(nest: FuncOp) -> str:
    """What kept an attention from products of warpgroups, where its target has some."""
    note = nest.attributes.get(WARPGROUPS)
    return note.data if isinstance(note, StringAttr) else ""


def schedule_hopper_attention(nest: FuncOp, architecture: Architecture) -> Choice:
    """Deal the tiles of an attention out to warpgroups."""
    tiles = written_tiles(nest)
    queries, keys = tiles["query"], tiles["key"]
    (stages,) = written_tiles(nest, STAGES).values()
    groups = queries // WARPGROUP_ROWS
    whole = AccumulatorLayout(WARPS * groups, 1)
    rows = replace(whole, kept="rows", whole=(queries, keys))
    buffers = [op for op in nest.walk() if isinstance(op, memref.AllocOp)]
    for buffer in buffers:
        if scope_of(buffer.memref) == "register":
            is_row = len(shape_of(buffer.memref)) == 1
            buffer.attributes[LAYOUT] = layout_attribute(rows if is_row else whole)
    blocks = 1
    for loop in loops_of(nest):
        if not is_folded(loop):
            set_level(loop, "grid")
            blocks *= loop.trip_count
    for leaf in leaves_of(nest):
        set_leaf_level(leaf, "block")
    nest.attributes[WARP_SPECIALISED] = UnitAttr()
    held = max(1, min(2 // groups, architecture.block_shared_kib * 1024 // _shared_bytes(nest)))
    nest.attributes[GRID_SIZE] = IntegerAttr(min(blocks, held * architecture.sm_count), i64)
    (query,) = [op.memref for op in buffers if op.memref.name_hint == "query_tile"]
    lines = (
        directive("tile", {"query": queries, "key": keys}),
        directive("pipeline", {"key": stages}),
    )
    shown = {
        "queries": queries,
        "keys": keys,
        "stages": stages,
        "consumers": groups,
        "tiles": blocks,
    }
    reason = (
        f"attention by wgmma: one warpgroup copies tiles by tensor maps, {groups} with 64 rows "
        f"each multiply them, weights rounded to {element_type(query)}"
    )
    threads = WARPGROUP_THREADS * (groups + 1)
    return Choice(threads, reason, shown, LAUNCH_REGISTERS, lines)


def _shared_bytes(nest: FuncOp) -> int:
    """What a block takes of shared memory: its queries, and all stages of keys and values."""
    (stages,) = written_tiles(nest, STAGES).values()
    total = RESERVED_BYTES
    for op in nest.walk():
        if isinstance(op, memref.AllocOp) and scope_of(op.memref) == "shared":
            size = num_elements(op.memref.type) * size_bytes(element_type(op.memref))
            total += size if op.memref.name_hint == "query_tile" else size * stages
    return total


def hopper_attention_as_written(
    nest: FuncOp, directives: Sequence[Directive], architecture: Architecture
) -> Choice:
    """The same with a user's tiles, which the nest was written in."""
    check_directives(directives, MOST_STAGES)
    chosen = schedule_hopper_attention(nest, architecture)
    return replace(chosen, reason=f"as the schedule says; {chosen.reason}")
