"""Attention: a block of threads for the queries of a tile, which all walk the keys together.

The nest comes in tiles (``passes/nests/attention_shared.py``). What is chosen here is who holds
what: on tensor cores each warp has 16 or 32 rows of scores and of sums, so that a row is a quad's
and no two warps wait for one another to fold it; elsewhere 16 threads have a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import memref
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from wia_compiler.backends.gpu.architecture import (
    MAX_THREADS_PER_BLOCK,
    WARP_SIZE,
    Architecture,
)
from wia_compiler.backends.gpu.builder import element_type, shape_of
from wia_compiler.backends.gpu.choice import Choice
from wia_compiler.backends.gpu.layouts import (
    LAYOUT,
    MMA_ROWS,
    AccumulatorLayout,
    layout_attribute,
)
from wia_compiler.backends.gpu.layouts_threads import ThreadGridLayout
from wia_compiler.backends.gpu.leaf_chunks import mark_chunks
from wia_compiler.backends.gpu.matrix_tiles import ASYNC_SINCE
from wia_compiler.backends.gpu.matrix_units import MMA_SHAPE, find_unit
from wia_compiler.backends.gpu.swizzle import SWIZZLE, swizzle_attribute
from wia_compiler.base.schedule import Directive, directive
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.llvm.types import num_elements, size_bytes
from wia_compiler.passes.nests.written_tiles import PARTS, STAGES, written_tiles
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    axis_of,
    leaves_of,
    loops_of,
    scope_of,
    set_leaf_level,
    set_level,
)
from wia_compiler.passes.tile_rewrites.nest import is_folded

THREADS_PER_SIDE = 16
"""Without tensor cores a block has 16 × 16 threads."""
WARPS = 4
"""One for each of an SM's schedulers: rows are not doubled where that would leave fewer."""
NARROW = 64
"""Heads up to this width leave registers for two tiles of 16 rows a warp: keys and values are then
read from shared memory half as often."""


MOST_STAGES = 2
"""Keys arrive while weights are worked on, values while scores are."""
_AXES = {"tile": ("query", "key"), "pipeline": ("key",), "parallel": ("key",)}
_HINT = f"choose tile query 64, key 64; pipeline key {MOST_STAGES}"


@dataclass(frozen=True)
class _Tiles:
    queries: int
    keys: int
    width: int
    values: int
    has_products: bool
    dtype: str


def is_attention(nest: FuncOp) -> bool:
    """Whether a nest is an attention in tiles that a block shares, or joins parts of one."""
    return {"query", "key"} <= set(written_tiles(nest)) or _joins(nest)


def _joins(nest: FuncOp) -> bool:
    return "parts" in written_tiles(nest, PARTS)


def schedule_attention(nest: FuncOp, architecture: Architecture) -> Choice:
    """Deal the tiles of an attention out to a block; ``IllegalRewrite`` where none takes them."""
    if _joins(nest):
        return _schedule_join(nest)
    tiles = _tiles(nest)
    _check(tiles, nest, architecture)
    warps = _warps(tiles)
    for buffer in _buffers(nest):
        if scope_of(buffer.memref) == "register":
            buffer.attributes[LAYOUT] = _layout(tiles, warps, buffer)
        elif tiles.has_products:
            buffer.attributes[SWIZZLE] = swizzle_attribute("rows")
    for loop in loops_of(nest):
        if not is_folded(loop):
            set_level(loop, "grid")
    for leaf in leaves_of(nest):
        set_leaf_level(leaf, "block")
    for leaf in leaves_of(nest):
        if tiles.has_products and leaf.kind.data == "contract":
            shape = find_unit(leaf, architecture).shape
            leaf.attributes[MMA_SHAPE] = ArrayAttr([IntegerAttr(size, i64) for size in shape])
        elif _copies_tile(leaf):
            mark_chunks(leaf, is_async=architecture.capability >= ASYNC_SINCE)
    threads = warps * WARP_SIZE if tiles.has_products else THREADS_PER_SIDE**2
    (stages,) = written_tiles(nest, STAGES).values()
    lines = (
        directive("tile", {"query": tiles.queries, "key": tiles.keys}),
        directive("pipeline", {"key": stages}),
    )
    numbers: dict[str, float | int | str] = {
        "queries": tiles.queries,
        "keys": tiles.keys,
        "shared bytes": _shared_bytes(nest),
    }
    part = written_tiles(nest, PARTS).get("key")
    if part is not None:
        if part % tiles.keys:
            raise IllegalRewrite(
                f"parts of {part} keys: a block walks {tiles.keys} at a time",
                hint=f"choose a multiple of {tiles.keys}",
            )
        lines = (*lines, directive("parallel", {"key": part}))
        numbers["keys of a part"] = part
    if tiles.has_products:
        rows = tiles.queries // warps
        reason = (
            f"attention: tiles in shared memory, {rows} rows a warp on tensor cores, weights "
            f"rounded to {tiles.dtype}"
        )
    else:
        reason = "attention: tiles in shared memory, 16 threads a row"
    if part is not None:
        reason = f"{reason}; parts of {part} keys for all SMs, joined by a launch of their own"
    return Choice(threads, reason, numbers, directives=lines)


def _schedule_join(nest: FuncOp) -> Choice:
    """A block for each row of the result, a thread for each of its elements."""
    threads = 1
    for loop in loops_of(nest):
        is_column = axis_of(loop) == "v"
        set_level(loop, "thread" if is_column else "grid")
        if is_column:
            threads = loop.extent.value.data
    numbers = {"parts": written_tiles(nest, PARTS)["parts"]}
    return Choice(threads, "attention: parts joined, a thread an element", numbers)


def attention_as_written(
    nest: ScheduledNest, directives: tuple[Directive, ...], architecture: Architecture
) -> Choice:
    """The same with a user's tiles, which the nest was written in."""
    if _joins(nest.function):
        raise IllegalRewrite(
            "the nest that joins parts has no schedule of its own",
            hint="write lines for the nest that walks the keys: parallel key 512",
        )
    check_directives(directives, MOST_STAGES)
    chosen = schedule_attention(nest.function, architecture)
    return replace(chosen, reason=f"as the schedule says; {chosen.reason}")


def check_directives(directives: Sequence[Directive], most_stages: int) -> None:
    """Raise ``IllegalRewrite`` for a line that says nothing about the tiles of an attention."""
    for line in directives:
        known = _AXES.get(line.name)
        if known is None:
            raise IllegalRewrite(
                f"{line.name} does not apply: an attention on a gpu is written in tiles",
                hint=_HINT,
                span=line.span,
            )
        for entry in line.entries:
            if entry.name not in known:
                raise IllegalRewrite(
                    f"{line.name} of an attention is of {', '.join(known)}, not of {entry.name!r}",
                    hint=_HINT,
                    span=entry.span,
                )
            number = number_of(line, entry, "size")
            if line.name == "pipeline" and number > most_stages:
                raise IllegalRewrite(
                    f"{number} stages: a block has one tile of keys in use or on its way",
                    hint=f"pipeline key {most_stages}, or fewer",
                    span=entry.span,
                )


def _tiles(nest: FuncOp) -> _Tiles:
    """The sizes of a nest's tiles, from its buffers."""
    sizes = {buffer.memref.name_hint: shape_of(buffer.memref) for buffer in _buffers(nest)}
    scopes = {buffer.memref.name_hint: scope_of(buffer.memref) for buffer in _buffers(nest)}
    (queries, values), (_, keys) = sizes["sums"], sizes["scores"]
    (contract, *_) = [leaf for leaf in leaves_of(nest) if leaf.kind.data == "contract"]
    is_narrow = scopes["weights"] == "register"
    dtype = str(element_type(contract.inputs[0]))
    return _Tiles(queries, keys, contract.sizes[-1], values, is_narrow, dtype)


def _copies_tile(leaf: ComputeOp) -> bool:
    """Whether a leaf brings a tile to shared memory."""
    if len(leaf.inputs) != 1 or leaf.folds:
        return False
    return (scope_of(leaf.inputs[0]), scope_of(leaf.outputs[0])) == ("", "shared")


def _warps(tiles: _Tiles) -> int:
    """Warps of a block on tensor cores: each has 16 rows, or 32 where a row is short."""
    is_narrow = max(tiles.width, tiles.values) <= NARROW
    wide = is_narrow and tiles.queries % (2 * MMA_ROWS * WARPS) == 0
    return tiles.queries // (2 * MMA_ROWS if wide else MMA_ROWS)


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
    if _warps(tiles) * WARP_SIZE > MAX_THREADS_PER_BLOCK and tiles.has_products:
        raise IllegalRewrite(
            f"a tile of {tiles.queries} queries takes {_warps(tiles)} warps, a block has "
            f"{MAX_THREADS_PER_BLOCK // WARP_SIZE}",
            hint="choose a smaller tile of query",
        )
    limit = architecture.block_shared_kib * 1024
    used = _shared_bytes(nest)
    if used > limit:
        raise IllegalRewrite(
            f"the tiles of a block take {used} bytes of shared memory, {architecture.name} has "
            f"{limit}",
            hint="choose smaller tiles of query or key",
        )
