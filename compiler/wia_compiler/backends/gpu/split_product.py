"""Products of few results and a long fold: parts of the fold for all SMs (split-K)."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.architecture import LAUNCH_SECONDS, Architecture
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.phases import check_grid_fold
from wia_compiler.backends.gpu.product_sides import sides_of
from wia_compiler.backends.gpu.schedule_grid import Parts
from wia_compiler.backends.gpu.tile_choice import choose_tiles, product_of
from wia_compiler.backends.gpu.tiling import kept_loops
from wia_compiler.backends.gpu.vector_product import vector_product_of
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import IllegalRewrite, axis_of, leaves_of

MOST_PARTS = 64
LEAST_PART = 64
"""Points of a part: several tiles of the fold, so that the next one is under way."""
NARROW_BYTES = 4
"""Narrower elements are multiplied by matrix units, which have a schedule of their own."""
LEAST_SAVED = 2 * LAUNCH_SECONDS
"""What a second launch has to save beside its own time, for the model may be wrong."""


def product_parts(nest: FuncOp, architecture: Architecture) -> Parts | None:
    """How to cut the fold of a product for all SMs; ``None`` where its tiles suffice for them.

    The parts of each result are added up by a launch of their own, always in the same order.
    """
    leaves = [leaf for leaf in leaves_of(nest) if leaf.kind.data in ("contract", "window")]
    if len(leaves) != 1 or (sides := sides_of(nest, leaves[0])) is None:
        return None
    (leaf,) = leaves
    if vector_product_of(nest) is not None:
        return None  # memory bounds it: ``grid_parts`` knows how many blocks that takes
    if any(size_bytes(element_type(value)) < NARROW_BYTES for value in leaf.inputs):
        return None
    sizes = {axis_of(loop): loop.extent.value.data for loop in kept_loops(nest)}
    results = prod(sizes.values())
    rows, columns = sizes.pop(sides.rows), sizes.pop(sides.columns)
    fold = leaf.sizes[leaf.axis_names.index(sides.fold)]
    whole = product_of(leaf, rows, columns, fold, prod(sizes.values()))
    clock = architecture.flops / (2 * architecture.fp32_lanes * architecture.sm_count)
    alone = choose_tiles(whole, architecture).cycles / clock
    found: list[Parts] = []
    count = 2
    while count <= MOST_PARTS and fold // count >= LEAST_PART:
        size = ceil(ceil(fold / count) / LEAST_PART) * LEAST_PART
        parts = ceil(fold / size)
        part = replace(whole, fold=size, batches=whole.batches * parts)
        moved = 2 * parts * results * whole.sum_bytes / architecture.bandwidth
        shared = choose_tiles(part, architecture).cycles / clock + LAUNCH_SECONDS + moved
        found.append(Parts(sides.fold, size, parts, alone, shared))
        count *= 2
    best = min(found, key=lambda each: each.shared or 0, default=None)
    if best is None or best.count < 2 or (best.shared or 0) + LEAST_SAVED > alone:
        return None
    try:
        check_grid_fold(nest, sides.fold)
    except IllegalRewrite:
        return None
    return best
