"""Attention: a block of threads for the queries of a tile, which all walk the keys together.

The nest comes in tiles (``passes/nests/attention_shared.py``). What is chosen here is who holds
what: on tensor cores each warp has 16 or 32 rows of scores and of sums, so that a row is a quad's
and no two warps wait for one another to fold it; elsewhere 16 threads have a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects import memref
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from wia_compiler.backends.gpu.architecture import WARP_SIZE, Architecture
from wia_compiler.backends.gpu.builder import shape_of
from wia_compiler.backends.gpu.choice import Choice
from wia_compiler.backends.gpu.layouts import (
    LAYOUT,
    MMA_ROWS,
    AccumulatorLayout,
    layout_attribute,
)
from wia_compiler.backends.gpu.layouts_threads import ThreadGridLayout
from wia_compiler.base.schedule import Directive, directive
from wia_compiler.passes.llvm.types import num_elements, size_bytes
from wia_compiler.passes.nests.written_tiles import written_tiles
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    leaves_of,
    loops_of,
    scope_of,
    set_leaf_level,
    set_level,
)
from wia_compiler.passes.tile_rewrites.nest import is_folded

THREADS_PER_SIDE = 16
"""Without tensor cores a block has 16 × 16 threads."""
NARROW = 64
"""Heads up to this width leave registers for two tiles of 16 rows a warp: keys and values are then
read from shared memory half as often."""


@dataclass(frozen=True)
class _Tiles:
    queries: int
    keys: int
    width: int
    values: int
    has_products: bool


def is_attention(nest: FuncOp) -> bool:
    """Whether a nest is an attention in tiles that a block shares."""
    return {"query", "key"} <= set(written_tiles(nest))


def schedule_attention(nest: FuncOp, architecture: Architecture) -> Choice:
    """Deal the tiles of an attention out to a block; ``IllegalRewrite`` where none takes them."""
    tiles = _tiles(nest)
    _check(tiles, nest, architecture)
    warps = _warps(tiles)
    for buffer in _buffers(nest):
        if scope_of(buffer.memref) == "register":
            buffer.attributes[LAYOUT] = _layout(tiles, warps, buffer)
    for loop in loops_of(nest):
        if not is_folded(loop):
            set_level(loop, "grid")
    for leaf in leaves_of(nest):
        set_leaf_level(leaf, "block")
    threads = warps * WARP_SIZE if tiles.has_products else THREADS_PER_SIDE**2
    lines = (directive("tile", {"query": tiles.queries, "key": tiles.keys}),)
    numbers: dict[str, float | int | str] = {
        "queries": tiles.queries,
        "keys": tiles.keys,
        "shared bytes": _shared_bytes(nest),
    }
    if tiles.has_products:
        rows = tiles.queries // warps
        reason = f"attention: tiles in shared memory, {rows} rows a warp on tensor cores"
    else:
        reason = "attention: tiles in shared memory, 16 threads a row"
    return Choice(threads, reason, numbers, directives=lines)


def attention_as_written(
    nest: ScheduledNest, directives: tuple[Directive, ...], architecture: Architecture
) -> Choice:
    """The same with a user's tiles, which the nest was written in."""
    for line in directives:
        if line.name != "tile":
            raise IllegalRewrite(
                f"{line.name} does not apply: an attention is written in tiles",
                hint="choose them by tile query 64, key 64",
                span=line.span,
            )
        for entry in line.entries:
            if entry.name not in ("query", "key"):
                raise IllegalRewrite(
                    f"an attention has tiles of query, key, not of {entry.name!r}",
                    hint="choose them by tile query 64, key 64",
                    span=entry.span,
                )
            number_of(line, entry, "size")
    chosen = schedule_attention(nest.function, architecture)
    return replace(chosen, reason=f"as the schedule says; {chosen.reason}")


def _tiles(nest: FuncOp) -> _Tiles:
    """The sizes of a nest's tiles, from its buffers."""
    sizes = {buffer.memref.name_hint: shape_of(buffer.memref) for buffer in _buffers(nest)}
    scopes = {buffer.memref.name_hint: scope_of(buffer.memref) for buffer in _buffers(nest)}
    (queries, values), (_, keys) = sizes["sums"], sizes["scores"]
    (contract, *_) = [leaf for leaf in leaves_of(nest) if leaf.kind.data == "contract"]
    return _Tiles(queries, keys, contract.sizes[-1], values, scopes["weights"] == "register")


def _warps(tiles: _Tiles) -> int:
    """Warps of a block on tensor cores: each has 16 rows, or 32 where a row is short."""
    rows = 2 * MMA_ROWS if max(tiles.width, tiles.values) <= NARROW else MMA_ROWS
    return max(1, tiles.queries // rows)


def _layout(tiles: _Tiles, warps: int, buffer: memref.AllocOp) -> Attribute:
    """The layout of a register buffer: a tile, or one value for each of its rows."""
    shape = shape_of(buffer.memref)
    if tiles.has_products:
        whole = AccumulatorLayout(warps, 1)
        rows = replace(whole, kept="rows", whole=(tiles.queries, tiles.keys))
        return layout_attribute(rows if len(shape) == 1 else whole)
    grid = ThreadGridLayout(THREADS_PER_SIDE, THREADS_PER_SIDE)
    if len(shape) == 1:
        return replace(grid, whole=(tiles.queries, tiles.keys)).attribute
    if buffer.memref.name_hint == "sums":
        # Values are read by rows, neighbours in one access; of keys, each thread reads a row.
        each = tiles.values // THREADS_PER_SIDE
        grid = replace(grid, neighbours=next(n for n in (4, 2, 1) if each % n == 0))
    return grid.attribute


def _buffers(nest: FuncOp) -> list[memref.AllocOp]:
    return [op for op in nest.walk() if isinstance(op, memref.AllocOp)]


def _shared_bytes(nest: FuncOp) -> int:
    buffers = [buffer.memref for buffer in _buffers(nest)]
    types = [buffer.type for buffer in buffers if scope_of(buffer) == "shared"]
    return sum(num_elements(each) * size_bytes(each.element_type) for each in types)


def _check(tiles: _Tiles, nest: FuncOp, architecture: Architecture) -> None:
    """Raise where tiles are no multiples of what threads take, or do not fit a block."""
    for name, size in (("query", tiles.queries), ("key", tiles.keys)):
        if size % MMA_ROWS:
            raise IllegalRewrite(
                f"a tile of {size} along {name}: threads take {MMA_ROWS} at a time",
                hint=f"choose a multiple of {MMA_ROWS}",
            )
    limit = architecture.block_shared_kib * 1024
    used = _shared_bytes(nest)
    if used > limit:
        raise IllegalRewrite(
            f"the tiles of a block take {used} bytes of shared memory, {architecture.name} has "
            f"{limit}",
            hint="choose smaller tiles of query or key",
        )
