"""Convolutions as matrix products whose operand is read where it lies (implicit GEMM)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.access import in_memory
from wia_compiler.backends.gpu.architecture import SUB_PARTITIONS, WARP_SIZE, Architecture
from wia_compiler.backends.gpu.tile_choice import choose_tiles, product_of
from wia_compiler.backends.gpu.tiling import kept_loops, uses_axis
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.tile_rewrites import axis_of, leaves_of
from wia_compiler.passes.tile_rewrites.collapse import collapse_folded, collapse_kept
from wia_compiler.passes.tile_rewrites.join_dimensions import join_dimensions

DIRECT_CYCLES = 1.5
"""Of an SM for a multiply-add of a warp whose threads fold alone: 2.2 sectors (counted for 3 × 3 on
56 × 56) at 48 bytes a cycle from L2; their 3.4 instructions take less."""
DIRECT_RESULTS, DIRECT_LATENCY = 1024, 100
"""Of a block of such threads; cycles of a thread for each point of the fold, whose loads it waits
for (estimated for convolutions of 3 × 3 on 7 to 56 places: 36 to 600)."""
COPY_INSTRUCTIONS = 7
"""For an element of a tile that is read by quotients and edges: address, test, load, store."""
FEWEST_FILTERS, SHORTEST_FOLD = 8, 16
"""Smaller products leave most of a tile empty."""
ROOM = 1.1
"""Rows of the result shorter than this share of their tiles are walked together with batches."""
SHORT_TILE = 64
LEAST_POINTS, MOST_POINTS = 8, 27
"""Of a fold at a time: between them lie multiples of the usual windows."""


@dataclass(frozen=True)
class Collapse:
    """Axes to walk as one: ``places`` of the result, ``fold``; the modelled cycles of both ways."""

    places: tuple[str, ...]
    fold: tuple[str, ...]
    direct_cycles: float = 0
    product_cycles: float = 0


@dataclass(frozen=True)
class Collapsed:
    """What became a product: the sizes of what it folds as one, and what it took directly."""

    windows: tuple[int, ...]
    direct_cycles: float


def as_product(nest: FuncOp, architecture: Architecture) -> Collapsed | None:
    """Make a matrix product of a convolution, where a model says that it pays.

    ::

        for %f0, for %y0, for %x0 …  window acc[f, y, x] += a[c, y + r, x + s] * w[f, c, r, s]
          →  for %f0, for %yx0 …  contract acc[f, yx] += a[…] * w[f, crs]   over crs
    """
    found = implicit_product(nest, architecture)
    return collapse(nest, found) if found is not None else None


def collapse(nest: FuncOp, found: Collapse) -> Collapsed:
    """Walk axes of a nest's contraction as one, and its arrays so that they are read so."""
    if len(found.places) > 1:
        collapse_kept(nest, found.places)
    (leaf,) = _contractions(nest)
    sizes = tuple(leaf.sizes[leaf.axis_names.index(axis)] for axis in found.fold)
    if found.fold:
        collapse_folded(leaf, found.fold)
    module = nest.parent_op()
    assert isinstance(module, ModuleOp)
    join_dimensions(module, nest)
    return Collapsed(sizes, found.direct_cycles)


def collapse_named(nest: FuncOp, names: Sequence[str]) -> None:
    """Walk axes as one where a schedule names them together: ``yx`` for ``y`` and ``x``."""
    leaves = _contractions(nest)
    kept = [axis_of(loop) for loop in kept_loops(nest)]
    if len(leaves) != 1:
        return
    folded = tuple(name.data for name in leaves[0].reduce_axes)
    places: tuple[str, ...] = ()
    fold: tuple[str, ...] = ()
    for name in names:
        if name == "".join(folded) and len(folded) > 1:
            fold = folded
        for first in range(len(kept)):
            for last in range(first + 2, len(kept) + 1):
                if name == "".join(kept[first:last]):
                    places = tuple(kept[first:last])
    if places or fold:
        collapse(nest, Collapse(places, fold))


def implicit_product(nest: FuncOp, architecture: Architecture) -> Collapse | None:
    """How a convolution becomes a product, where a model says that it pays."""
    leaves = _contractions(nest)
    if len(leaves) != 1 or leaves[0].is_ordered:
        return None
    (leaf,) = leaves
    memory = [number for number in in_memory(leaf) if number < len(leaf.inputs)]
    kept = [(axis_of(loop), loop.extent.value.data) for loop in kept_loops(nest)]
    folded = tuple(name.data for name in leaf.reduce_axes)
    if len(memory) != 2 or any(loop.step.value.data != 1 for loop in kept_loops(nest)):
        return None
    own: list[list[tuple[str, int]]] = [[], []]
    for axis, size in kept:
        used = [uses_axis(leaf, number, axis) for number in memory]
        if used[0] != used[1]:
            own[used[1]].append((axis, size))
    filters, places = sorted(own, key=len)
    if len(filters) != 1 or not places or (len(places) < 2 and len(folded) < 2):
        return None
    if kept[-len(places) :] != places[-len(places) :]:
        places = _neighbours(kept, places)
    together = places[1:] if len(places) > 2 else places
    if len(places) > 2:
        row = prod(size for _, size in together)
        if ceil(row / SHORT_TILE) * SHORT_TILE > ROOM * row and kept[-3:] == places:
            together = places
    fold = prod(leaf.sizes[leaf.axis_names.index(axis)] for axis in folded)
    columns = prod(size for _, size in together)
    if filters[0][1] < FEWEST_FILTERS or fold < SHORTEST_FOLD:
        return None
    results = prod(size for _, size in kept)
    product = product_of(leaf, filters[0][1], columns, fold, results // (filters[0][1] * columns))
    tiles = choose_tiles(product, architecture)
    copied = ceil(fold * tiles.columns.block * tiles.blocks / WARP_SIZE)
    per_sm = SUB_PARTITIONS * architecture.sm_count
    product_cycles = tiles.cycles + COPY_INSTRUCTIONS * copied / per_sm
    blocks = ceil(results / DIRECT_RESULTS)
    busiest = ceil(blocks / architecture.sm_count) * DIRECT_RESULTS / WARP_SIZE
    direct_cycles = max(DIRECT_CYCLES * busiest * fold, DIRECT_LATENCY * fold)
    if product_cycles >= direct_cycles:
        return None
    return Collapse(tuple(axis for axis, _ in together), folded, direct_cycles, product_cycles)


def _neighbours(
    kept: list[tuple[str, int]], places: list[tuple[str, int]]
) -> list[tuple[str, int]]:
    """The last of the places that follow one another in the nest."""
    found = [places[-1]]
    for place in reversed(places[:-1]):
        if kept.index(found[0]) != kept.index(place) + 1:
            break
        found.insert(0, place)
    return found


def fold_step(sizes: Sequence[int], fold: int) -> int:
    """Points of a collapsed fold at a time: whole windows, or whole rows of one.

    What a thread reads is then at the same place of the window in every step, and its quotients
    do not change with the loop.
    """
    window = prod(sizes[1:])
    unit = window if window <= MOST_POINTS else sizes[-1]
    steps = [each for each in range(unit, MOST_POINTS + 1, unit) if each >= LEAST_POINTS]
    if not steps:
        return min(16, fold)
    return min(steps, key=lambda step: (ceil(fold / step) * step, -step))


def _contractions(nest: FuncOp) -> list[ComputeOp]:
    return [leaf for leaf in leaves_of(nest) if leaf.kind.data in ("contract", "window")]
