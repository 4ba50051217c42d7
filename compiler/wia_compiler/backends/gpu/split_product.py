"""Products of few results and a long fold: parts of the fold for all SMs (split-K)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil, prod

from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.architecture import LAUNCH_SECONDS, Architecture
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.hopper_product import NoHopperProduct, hopper_product
from wia_compiler.backends.gpu.hopper_schedule import WARPGROUP_ROWS
from wia_compiler.backends.gpu.matrix_choice import choose_tiles as choose_matrix_tiles
from wia_compiler.backends.gpu.matrix_model import modelled_seconds
from wia_compiler.backends.gpu.matrix_units import NoMatrixUnit
from wia_compiler.backends.gpu.phases import check_grid_fold
from wia_compiler.backends.gpu.product_sides import Sides, sides_of
from wia_compiler.backends.gpu.schedule_grid import Parts
from wia_compiler.backends.gpu.schedule_tensor_cores import is_too_small, product_of, product_sizes
from wia_compiler.backends.gpu.tile_choice import choose_tiles
from wia_compiler.backends.gpu.tile_choice import product_of as product_of_threads
from wia_compiler.backends.gpu.tiling import kept_loops
from wia_compiler.backends.gpu.vector_product import vector_product_of
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import IllegalRewrite, axis_of, leaves_of

MOST_PARTS = 64
LEAST_PART = 64
"""Points of a part: several tiles of the fold, so that the next one is under way."""
NARROW_BYTES = 4
"""Narrower elements are multiplied by matrix units, or few at a time."""
LEAST_SAVED = 2 * LAUNCH_SECONDS
"""What a second launch has to save beside its own time, for the model may be wrong."""
Seconds = Callable[[int, int], float]
"""The modelled time of a product that is cut into so many parts of so many points of its fold."""


def product_parts(nest: FuncOp, architecture: Architecture) -> Parts | None:
    """How to cut the fold of a product for all SMs; ``None`` where its tiles suffice for them.

    The parts of each result are added up by a launch of their own, always in the same order, and
    what follows the product is computed there.
    """
    leaves = [leaf for leaf in leaves_of(nest) if leaf.kind.data in ("contract", "window")]
    if len(leaves) != 1 or (sides := sides_of(nest, leaves[0])) is None:
        return None
    (leaf,) = leaves
    if vector_product_of(nest) is not None:
        return None  # memory bounds it: ``grid_parts`` knows how many blocks that takes
    seconds = _by_tensor_cores(nest, architecture) or _by_threads(nest, leaf, sides, architecture)
    if seconds is None:
        return None
    fold = leaf.sizes[leaf.axis_names.index(sides.fold)]
    results = prod(loop.extent.value.data for loop in kept_loops(nest))
    sum_bytes = size_bytes(element_type(leaf.outputs[0]))
    alone = seconds(1, fold)
    found: list[Parts] = []
    count = 2
    while count <= MOST_PARTS and fold // count >= LEAST_PART:
        size = ceil(ceil(fold / count) / LEAST_PART) * LEAST_PART
        parts = ceil(fold / size)
        moved = 2 * parts * results * sum_bytes / architecture.bandwidth
        shared = seconds(parts, size) + LAUNCH_SECONDS + moved
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


def _by_tensor_cores(nest: FuncOp, architecture: Architecture) -> Seconds | None:
    """By ``mma.sync``, where the target would take it for the whole product."""
    if _is_for_warpgroups(nest, architecture):
        return None
    try:
        product = product_of(nest, architecture)
    except NoMatrixUnit:
        return None
    whole = product_sizes(nest, product)
    if is_too_small(whole):
        return None

    def seconds(parts: int, size: int) -> float:
        part = replace(whole, fold=size, batches=whole.batches * parts)
        tiles = choose_matrix_tiles(part, product.unit, architecture)
        return modelled_seconds(part, tiles, product.unit, architecture)

    return seconds


def _is_for_warpgroups(nest: FuncOp, architecture: Architecture) -> bool:
    """Whether ``wgmma`` multiplies the whole product, which it does not do with parts of a fold."""
    if not architecture.is_specific:
        return False
    try:
        return min(hopper_product(nest).sizes) >= WARPGROUP_ROWS
    except NoHopperProduct:
        return False


def _by_threads(
    nest: FuncOp, leaf: ComputeOp, sides: Sides, architecture: Architecture
) -> Seconds | None:
    """By multiply-adds of threads."""
    if any(size_bytes(element_type(value)) < NARROW_BYTES for value in leaf.inputs):
        return None
    sizes = {axis_of(loop): loop.extent.value.data for loop in kept_loops(nest)}
    rows, columns = sizes.pop(sides.rows), sizes.pop(sides.columns)
    fold = leaf.sizes[leaf.axis_names.index(sides.fold)]
    whole = product_of_threads(leaf, rows, columns, fold, prod(sizes.values()))
    clock = architecture.flops / (2 * architecture.fp32_lanes * architecture.sm_count)

    def seconds(parts: int, size: int) -> float:
        part = replace(whole, fold=size, batches=whole.batches * parts)
        return choose_tiles(part, architecture).cycles / clock

    return seconds
