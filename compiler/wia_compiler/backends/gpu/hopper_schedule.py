"""Products on GPUs of capability 9.0: tiles for ``wgmma``, copied by tensor maps, stage by stage.

The nest stays one of tiles; that its copies are made by one warpgroup and its products by others
is how it is lowered (``hopper_lower``)::

    for i.0 step 128 @grid
      for j.0 step 256 @grid
        acc = 128×256 @register = 0
        for k.0 step 64 @serial pipeline 4
          a = copy A[i.0, k.0] @shared      b = copy B[k.0, j.0] @shared       producer
          contract acc += a b                                                  consumers
        map C[i.0, j.0] = f(acc, …)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i8, i64
from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.choice import Choice
from wia_compiler.backends.gpu.hopper_product import (
    HopperProduct,
    NoHopperProduct,
    Operand,
    hopper_product,
)
from wia_compiler.backends.gpu.launch import GRID_SIZE
from wia_compiler.backends.gpu.tiling import kept_loops
from wia_compiler.backends.gpu.wide_sums import widen_sums
from wia_compiler.base.schedule import directive
from wia_compiler.dialects.loop_hints import LoopHints, note_hints
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    axis_of,
    drop_bounds,
    leaves_of,
    set_leaf_level,
    set_level,
    stage_operand,
    tile_axis,
    tile_reduction,
)

WARP_SPECIALISED = "wia.warp_specialised"
"""Attribute of a nest: one warpgroup copies, the others multiply."""
WARPGROUP_THREADS = 128
WARPGROUP_ROWS = 64
"""Of a tile, for each consumer: the m of every ``wgmma``."""
ROW_TILES = (64, 128)
COLUMN_TILES = (64, 128, 256)
MAX_STAGES = 8
BARRIER_BYTES = 1024
"""Kept free beside the stages: barriers, and what aligning the stages to 1024 bytes takes."""
MULTIPLY_ADDS_PER_CYCLE = 2048
"""Of an SM's tensor cores for f16 (989 TFLOP/s of an H100 SXM over 132 SMs and 1.83 GHz)."""
EFFICIENCY = {(128, 256): 1.0, (128, 128): 0.85, (64, 256): 0.8, (128, 64): 0.6, (64, 128): 0.65,
              (64, 64): 0.45}  # fmt: skip
"""How much of that a tile sustains beside its reads of shared memory and L2: an estimate."""
L2_BYTES_PER_CYCLE = 3100
"""What all SMs together get from L2 (5.7 TB/s of an H100 SXM at 1.83 GHz; see
``profiler.gpu_sheets``): small tiles read an operand oftener than it can give it.
"""
TILE_CYCLES = 2500
"""What a tile costs beside its products: the first copies, and writing results: an estimate."""
LAUNCH_REGISTERS = 168
"""Of a thread where three warpgroups share an SM's registers evenly."""


@dataclass(frozen=True)
class HopperTile:
    """A block's tile, the step of its fold and how many steps are in shared memory at a time."""

    rows: int
    columns: int
    step: int
    stages: int

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return self.rows // WARPGROUP_ROWS

    @property
    def threads(self) -> int:
        """Those of the consumers, and of one producer."""
        return WARPGROUP_THREADS * (self.consumers + 1)

    def stage_bytes(self, element_bytes: int) -> int:
        """Shared memory of one stage: both operands."""
        return (self.rows + self.columns) * self.step * element_bytes


def schedule_hopper(nest: FuncOp, architecture: Architecture) -> Choice:
    """Tiles of the least modelled time; ``NoHopperProduct`` says why there are none."""
    if not architecture.is_specific:
        raise NoHopperProduct(f"{architecture.name} has no wgmma")
    product = hopper_product(nest)
    small = [size for size in product.sizes if size < WARPGROUP_ROWS]
    if small:
        raise NoHopperProduct(f"a side of {small[0]} fills no tile of {WARPGROUP_ROWS}")
    candidates = [
        _with_stages(product, rows, columns, architecture)
        for rows in ROW_TILES
        for columns in COLUMN_TILES
    ]
    tile = min(candidates, key=lambda each: (_cycles(product, each, architecture), -each.columns))
    cycles = _cycles(product, tile, architecture)
    return _tiled(nest, product, tile, architecture, {"modelled cycles": round(cycles)})


def hopper_as_written(
    nest: FuncOp,
    product: HopperProduct,
    tiles: Mapping[str, int],
    stages: int | None,
    architecture: Architecture,
) -> Choice:
    """Tiles of a user's choice, the largest where none is written for an axis.

    ``IllegalRewrite`` for stages that shared memory does not hold.
    """
    rows = tiles.get(product.rows, ROW_TILES[-1])
    columns = tiles.get(product.columns, COLUMN_TILES[-1])
    tile = _with_stages(product, rows, columns, architecture)
    most = _most_stages(product, rows, columns, architecture)
    if stages is not None and not 2 <= stages <= most:
        held = tile.stage_bytes(size_bytes(product.element))
        raise IllegalRewrite(
            f"{stages} stages of {held} bytes: a block's shared memory holds 2 to {most} of them",
            hint=f"pipeline {product.fold} {tile.stages}",
        )
    return _tiled(nest, product, replace(tile, stages=stages or tile.stages), architecture, {})


def _most_stages(
    product: HopperProduct, rows: int, columns: int, architecture: Architecture
) -> int:
    held = HopperTile(rows, columns, product.row_elements, 1)
    free = architecture.block_shared_kib * 1024 - BARRIER_BYTES
    return min(MAX_STAGES, free // held.stage_bytes(size_bytes(product.element)))


def _with_stages(
    product: HopperProduct, rows: int, columns: int, architecture: Architecture
) -> HopperTile:
    """As many stages as fit, no more than the fold has steps."""
    step = product.row_elements
    stages = min(_most_stages(product, rows, columns, architecture), ceil(product.sizes[2] / step))
    return HopperTile(rows, columns, step, max(2, stages))


def _blocks(product: HopperProduct, tile: HopperTile) -> int:
    rows, columns, _ = product.sizes
    return ceil(rows / tile.rows) * ceil(columns / tile.columns) * product.batches


def _cycles(product: HopperProduct, tile: HopperTile, architecture: Architecture) -> float:
    """What the busiest SM takes, its tiles one after the other, or L2, which all of them read."""
    rate = MULTIPLY_ADDS_PER_CYCLE * 2 / size_bytes(product.element)
    fold = ceil(product.sizes[2] / tile.step) * tile.step
    products = tile.rows * tile.columns * fold / rate / EFFICIENCY[tile.rows, tile.columns]
    blocks = _blocks(product, tile)
    waves = ceil(blocks / architecture.sm_count)
    read = blocks * (tile.rows + tile.columns) * fold * size_bytes(product.element)
    return max(waves * products, read / L2_BYTES_PER_CYCLE) + waves * TILE_CYCLES


def _tiled(
    nest: FuncOp,
    product: HopperProduct,
    tile: HopperTile,
    architecture: Architecture,
    numbers: Mapping[str, int],
) -> Choice:
    """Rewrite the nest; what became of it."""
    blocks = _blocks(product, tile)
    if element_type(product.leaf.outputs[0]) == i8:
        widen_sums(product.leaf)
    sides = {product.rows: tile.rows, product.columns: tile.columns}
    for each in kept_loops(nest):
        tile_axis(nest, axis_of(each), sides.get(axis_of(each), 1), past_end=True)
        set_level(each, "grid")
    (leaf,) = [each for each in leaves_of(nest) if each.kind.data == "contract"]
    loop, leaf = tile_reduction(leaf, product.fold, tile.step, past_end=True)
    for operand, side in ((product.a, product.rows), (product.b, product.columns)):
        order = _order(operand, side, product.fold)
        _, _, leaf = stage_operand(
            leaf, operand.number, loop, "shared", level="block", order=order, copied=order
        )
    drop_bounds(leaf)
    for each in leaves_of(nest):
        set_leaf_level(each, "block")
    note_hints(loop, LoopHints(pipeline=tile.stages))
    nest.attributes[WARP_SPECIALISED] = UnitAttr()
    nest.attributes[GRID_SIZE] = IntegerAttr(min(blocks, architecture.sm_count), i64)
    sizes = {**sides, product.fold: tile.step}
    shown = {
        "block tile": f"{tile.rows}×{tile.columns}×{tile.step}",
        "stages": tile.stages,
        "consumers": tile.consumers,
        "tiles": blocks,
        **numbers,
    }
    lines = (
        directive("tile", sizes),
        directive("pipeline", {product.fold: tile.stages}),
        directive("use_tensor_cores"),
    )
    reason = "product by wgmma: one warpgroup copies tiles by tensor maps, the others multiply"
    return Choice(tile.threads, reason, shown, LAUNCH_REGISTERS, lines)


def _order(operand: Operand, side: str, fold: str) -> list[str]:
    """The axes of an operand's tile as they lie in memory."""
    return [fold, side] if operand.transposed else [side, fold]
