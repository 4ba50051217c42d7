"""Which tiles a matrix product is cut into: a model of an SM's time for each of a few choices."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from wia_compiler.backends.gpu.architecture import (
    REGISTERS_PER_SM,
    SUB_PARTITIONS,
    WARP_SIZE,
    Architecture,
)
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.choice import BLOCK_THREADS, power_of_two_at_least
from wia_compiler.backends.gpu.tiling import Tile
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.llvm.types import size_bytes

STAGE_BYTES = 8192
"""About so much of both operands is in a stage of shared memory."""
SECTOR_BYTES = 32
VECTOR_BYTES = 16
L2_SIZES = {
    75: 4e6, 80: 40e6, 86: 6e6, 89: 72e6, 90: 50e6, 100: 126e6, 120: 96e6,
}  # fmt: skip
"""Of the products that ``Architecture`` names, by their makers' white papers."""
L2_BYTES = 48
"""What one SM gets from L2 in a cycle, when all of them read."""
TURN_CYCLES = 70
"""What a warp waits in each step of the fold: for shared memory, and at the barrier."""
TURN_INSTRUCTIONS = 15
"""Addresses, the stage and the loop itself, in each step of the fold."""
NORM = 5
"""Units work at the same time: a little more than the busiest one, as ``profiler.gpu_model``."""
AS_GOOD = 1.03
"""Modelled times that differ by less are the same."""
REGISTERS = 32
"""For addresses and indices."""


@dataclass(frozen=True)
class Product:
    """What is to be tiled: ``batches`` products of rows × fold × columns.

    ``read_bytes`` is the size of an element in memory, ``sum_bytes`` that of an accumulated one.
    """

    rows: int
    columns: int
    fold: int
    batches: int = 1
    read_bytes: int = 4
    sum_bytes: int = 4


def product_of(leaf: ComputeOp, rows: int, columns: int, fold: int, batches: int) -> Product:
    """The product that a contraction is, with the sizes of what it reads and adds up."""
    read = [size_bytes(element_type(value)) for value in leaf.inputs]
    return Product(
        rows, columns, fold, batches, max(read), size_bytes(element_type(leaf.outputs[0]))
    )


@dataclass(frozen=True)
class ProductTiles:
    """Tiles of one product, and what the model says: cycles of the busiest SM, blocks, step."""

    rows: Tile
    columns: Tile
    step: int
    blocks: int
    cycles: float


def choose_tiles(product: Product, architecture: Architecture) -> ProductTiles:
    """The tiles of the least modelled time; of those that are as good, the largest.

    Large blocks read less of what L2 and DRAM have, which the model does not tell apart.
    """
    most = 8 if product.sum_bytes <= 4 else 4
    tiles = [
        (rows, columns)
        for rows in _sizes(product.rows, most)
        for columns in _sizes(product.columns, most)
        if threads_of(rows, columns) <= BLOCK_THREADS
    ]
    whole_warps = [each for each in tiles if threads_of(*each) >= WARP_SIZE]
    found = [modelled(product, *each, architecture) for each in whole_warps or tiles]
    least = min(tiles.cycles for tiles in found)
    good = [tiles for tiles in found if tiles.cycles <= least * AS_GOOD]
    return max(good, key=lambda tiles: (tiles.rows.block * tiles.columns.block, -tiles.cycles))


def threads_of(rows: Tile, columns: Tile) -> int:
    """Threads of a block."""
    return rows.block // rows.each * (columns.block // columns.each)


def registers_of(rows: Tile, columns: Tile, step: int, sum_bytes: int = 4) -> int:
    """What a thread needs so that ptxas spills nothing: sums, operands and what it copies."""
    words = max(1.0, sum_bytes / 4)
    sums, operands = rows.each * columns.each, rows.each + columns.each
    copied = (rows.block + columns.block) * step / threads_of(rows, columns)
    return REGISTERS + int(words * (sums + 1.5 * operands + copied))


def _missed(product: Product, read: float, architecture: Architecture) -> float:
    """Bytes from DRAM: operands once, and again the share of them that L2 does not hold."""
    once = (product.rows + product.columns) * product.fold * product.batches * product.read_bytes
    absent = max(0.0, 1 - L2_SIZES.get(architecture.capability, 4e6) / once)
    return once + absent * max(0.0, read - once)


def step_of(rows: Tile, columns: Tile, fold: int, read_bytes: int = 4) -> int:
    """How much of the folded axis is in shared memory at a time: one or two sectors of a row."""
    least = max(8, SECTOR_BYTES // read_bytes)
    step = 2 * least
    while step > least and step * (rows.block + columns.block) * read_bytes > STAGE_BYTES:
        step //= 2
    return min(step, fold)


def _sizes(size: int, most: int) -> list[Tile]:
    """Blocks along an axis, each with what a thread takes of it."""
    largest = min(128, power_of_two_at_least(size))
    smallest = min(32, largest)
    blocks = [each for each in (1, 2, 4, 8, 16, 32, 64, 128) if smallest <= each <= largest]
    taken = [each for each in (1, 2, 4, 8) if each <= most]
    return [Tile(block, each) for block in blocks for each in taken if block >= each]


def modelled(
    product: Product, rows: Tile, columns: Tile, architecture: Architecture
) -> ProductTiles:
    """The busiest SM's time: multiply-adds, loads from shared memory, issue, L2, and waiting.

    Each is a unit of its own. A warp alone takes its instructions one after the other; those of the
    blocks that an SM holds take turns.
    """
    blocks = ceil(product.rows / rows.block) * ceil(product.columns / columns.block)
    blocks *= product.batches
    threads = threads_of(rows, columns)
    warps = ceil(threads / WARP_SIZE)
    step = step_of(rows, columns, product.fold, product.read_bytes)
    turns = ceil(product.fold / step)
    words = max(1.0, product.sum_bytes / 4)
    vector = VECTOR_BYTES // product.read_bytes
    multiplies = rows.each * columns.each
    loads = ceil(rows.each / vector) + ceil(columns.each / vector)
    copies = (rows.block + columns.block) / threads
    instructions = multiplies + loads + copies + TURN_INSTRUCTIONS / step
    each = {
        "arithmetic": multiplies * words**2 * WARP_SIZE / architecture.fp32_lanes * warps,
        "shared": (4 * loads + copies) * warps,
        "issue": instructions * warps / SUB_PARTITIONS,
        "L2": (rows.block + columns.block) * product.read_bytes / L2_BYTES,
    }
    busiest = ceil(blocks / architecture.sm_count)
    registers = registers_of(rows, columns, step, product.sum_bytes)
    fit = min(REGISTERS_PER_SM // (registers * threads), architecture.max_blocks)
    resident = max(1, min(busiest, fit))
    waiting = ceil(busiest / resident) * (turns * step * instructions + turns * TURN_CYCLES)
    parts = [*(cycles * turns * step * busiest for cycles in each.values()), waiting]
    read = blocks * (rows.block + columns.block) * turns * step * product.read_bytes
    clock = architecture.flops / (2 * architecture.fp32_lanes * architecture.sm_count)
    parts.append(_missed(product, read, architecture) / architecture.bandwidth * clock)
    cycles = sum(part**NORM for part in parts) ** (1 / NORM)
    return ProductTiles(rows, columns, step, blocks, cycles)
