"""A user's schedule on a GPU: which tiles blocks and threads take.

``tile`` says what a block takes of an axis (of a folded one: how much of it is in shared memory at
a time), ``thread_tile`` what a thread takes of that. Both are for nests whose axes are dealt out
so: elementwise ones and matrix products. Everything else a GPU does by itself, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects import memref
from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.architecture import (
    MAX_REGISTERS_PER_THREAD,
    MAX_THREADS_PER_BLOCK,
    STATIC_SHARED_BYTES,
    Architecture,
)
from wia_compiler.backends.gpu.choice import Choice
from wia_compiler.backends.gpu.hopper_user import warpgroups_as_written
from wia_compiler.backends.gpu.implicit_product import collapse_named
from wia_compiler.backends.gpu.pipelined_loop import STAGES
from wia_compiler.backends.gpu.schedule_contraction import (
    reuses_operands,
    schedule_contraction,
    tile_as_written,
)
from wia_compiler.backends.gpu.schedule_tensor_cores_user import (
    asks_for_tensor_cores,
    tensor_cores_as_written,
)
from wia_compiler.backends.gpu.schedule_user_rows import rows_as_written
from wia_compiler.backends.gpu.tiling import Tile, as_directives, kept_loops
from wia_compiler.backends.gpu.turned_reads import tile_with_turned_reads
from wia_compiler.base.schedule import Directive
from wia_compiler.dialects.tile_points import holds_point_code
from wia_compiler.passes.llvm.types import num_elements, size_bytes
from wia_compiler.passes.scheduling.apply import without_units
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.scheduling.register import directive_names
from wia_compiler.passes.tile_rewrites import IllegalRewrite, axis_of, leaves_of, scope_of

_THREADS = "a gpu hides latency by its many warps, which take turns"
_PIPELINE = "a gpu reads the next tile of a product while a block computes with this one"
_REASONS = {
    "accumulators": "partial sums of a gpu are those of its threads",
    "cache": "a gpu keeps the operands of a product in shared memory by itself",
    "fuse_at": "each nest is an entry of its own on a gpu",
    "keep": "a gpu keeps a row in registers by itself",
    "pack": "a gpu copies the operands of a product to shared memory by itself",
    "prefetch": _THREADS,
    "reorder": "blocks and threads of a gpu run in no order",
    "stream": "stores of a gpu are not written past its caches yet",
    "unroll": "ptxas and the leaves of a gpu unroll by themselves",
    "unroll_and_jam": "a thread of a gpu takes several points by thread_tile",
}
WRITTEN = "as the schedule says"
_FOLLOWED = ("tile", "thread_tile", "vectorize", "parallel", "pipeline", "use_tensor_cores")
REFUSED = {
    name: _REASONS.get(name, "a gpu spells leaves in its own way")
    for name in directive_names()
    if name not in _FOLLOWED
}
"""Directives that a GPU does not follow, and why."""


def schedule_as_written(
    nest: ScheduledNest, directives: tuple[Directive, ...], architecture: Architecture
) -> Choice:
    """Deal a nest out as a user says; ``IllegalRewrite`` where blocks and threads cannot be so."""
    entries = [entry for line in directives for entry in line.entries]
    collapse_named(nest.function, [entry.name for entry in entries if entry.name is not None])
    if asks_for_tensor_cores(directives):
        by_warpgroups = warpgroups_as_written(nest, directives, architecture)
        return by_warpgroups or tensor_cores_as_written(nest, directives, architecture)
    kinds = {leaf.kind.data for leaf in leaves_of(nest.function)}
    if holds_point_code(nest.function):
        raise IllegalRewrite(
            "a gpu deals loops over elements out to threads by itself",
            hint="leave the schedule to the target",
        )
    if "reduce" in kinds:
        return replace(rows_as_written(nest, directives, architecture), reason=WRITTEN)
    stages = _stages_of(nest, directives)
    tiles, folds = _tiles_of(nest, [line for line in directives if line.name != "pipeline"])
    if stages and not kinds & {"contract", "window"}:
        raise IllegalRewrite(f"pipeline of no product: {_PIPELINE}", hint="leave it out")
    if kinds & {"contract", "window"}:
        if nest.unit_axes() and not reuses_operands(nest.function):
            units = ", ".join(nest.unit_axes())
            nest.warn(f"with one point of {units} there is no tile to share: the target chose")
            return schedule_contraction(nest.function, architecture)
        named = {axis: tile for axis, tile in tiles.items() if tile != Tile()}
        chosen = tile_as_written(nest.function, named, folds, stages)
        _check_shared(nest.function)
    else:
        tile_with_turned_reads(nest.function, tiles)
        threads = prod(tile.block // tile.each for tile in tiles.values())
        made = as_directives(tiles, {})
        chosen = Choice(threads, "", {}, directives=made)
    results = prod(tile.each for tile in tiles.values())
    if results > MAX_REGISTERS_PER_THREAD // 2:
        nest.warn(
            f"a thread holds {results} results, of {MAX_REGISTERS_PER_THREAD} registers in all: "
            "some will be spilled to memory"
        )
    return replace(chosen, reason=WRITTEN)


def _stages_of(nest: ScheduledNest, directives: Sequence[Directive]) -> dict[str, int]:
    """How many tiles of a folded axis ``pipeline`` keeps in shared memory."""
    found: dict[str, int] = {}
    kept = [axis_of(loop) for loop in kept_loops(nest.function)]
    for written in directives:
        line = without_units(nest, written) if written.name == "pipeline" else None
        for entry in line.entries if line is not None else ():
            assert line is not None
            axis, stages = nest.check_axis(entry), number_of(line, entry, "number of stages")
            if axis in kept:
                raise IllegalRewrite(
                    f"pipeline of axis {axis!r}, along which all blocks run at once: {_PIPELINE}",
                    hint="name the folded axis",
                    span=entry.span,
                )
            if stages not in (1, STAGES):
                raise IllegalRewrite(
                    f"{stages} stages: a thread carries one tile ahead in registers",
                    hint=f"pipeline {axis} {STAGES}",
                    span=entry.span,
                )
            found[axis] = stages
    return found


def _tiles_of(
    nest: ScheduledNest, directives: Sequence[Directive]
) -> tuple[dict[str, Tile], dict[str, int]]:
    """The tiles of kept axes, and the steps of folded ones."""
    blocks: dict[str, int] = {}
    each: dict[str, int] = {}
    kept = [axis_of(loop) for loop in kept_loops(nest.function)]
    for written in directives:
        line = without_units(nest, written)
        for entry in line.entries if line is not None else ():
            assert line is not None
            _check_level(line)
            axis = nest.check_axis(entry)
            sizes = blocks if line.name == "tile" else each
            if axis in sizes:
                raise IllegalRewrite(
                    f"{line.name} of axis {axis!r} stands twice",
                    hint="an axis is cut for blocks by tile, and for threads by thread_tile",
                    span=entry.span,
                )
            if axis not in kept and line.name != "tile":
                raise IllegalRewrite(
                    f"axis {axis!r} is folded: a thread takes all of it that a block has at a time",
                    hint=f"tile {axis} says how much that is",
                    span=entry.span,
                )
            sizes[axis] = number_of(line, entry, "size")
    tiles = {axis: Tile(blocks.get(axis, each.get(axis, 1)), each.get(axis, 1)) for axis in kept}
    _check_tiles(tiles)
    return tiles, {axis: size for axis, size in blocks.items() if axis not in kept}


def _check_level(line: Directive) -> None:
    expected = {"tile": ("grid", "block"), "thread_tile": ("thread",), "vectorize": ()}
    if line.level is not None and line.level not in expected[line.name]:
        levels = " or ".join(f"@{each}" for each in expected[line.name]) or "no level"
        raise IllegalRewrite(f"{line.name} of a gpu is {levels}", hint=f"leave @{line.level} away")


def _check_tiles(tiles: dict[str, Tile]) -> None:
    for axis, tile in tiles.items():
        if tile.block % tile.each:
            raise IllegalRewrite(
                f"a block takes {tile.block} points of axis {axis!r}, each of its threads "
                f"{tile.each}",
                hint=f"choose a block of a multiple of {tile.each}",
            )
    threads = prod(tile.block // tile.each for tile in tiles.values())
    if threads > MAX_THREADS_PER_BLOCK:
        raise IllegalRewrite(
            f"a block would have {threads} threads, a gpu takes {MAX_THREADS_PER_BLOCK}",
            hint="choose smaller blocks, or more points a thread",
        )


def _check_shared(nest: FuncOp) -> None:
    """Raise where the tiles of a product do not fit into a block's shared memory."""
    buffers = [op.memref for op in nest.walk() if isinstance(op, memref.AllocOp)]
    types = [each.type for each in buffers if scope_of(each) == "shared"]
    used = sum(num_elements(each) * size_bytes(each.element_type) for each in types)
    if used > STATIC_SHARED_BYTES:
        raise IllegalRewrite(
            f"the tiles of a block take {used} bytes of shared memory, it has "
            f"{STATIC_SHARED_BYTES}",
            hint="choose smaller tiles, or a smaller step of the folded axis",
        )
