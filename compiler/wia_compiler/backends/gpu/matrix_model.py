"""Time of a product on tensor cores: what its tiles ask of an SM's units, and what its warps wait.

Units work at the same time, so a launch takes a little more than the busiest one, as in
``profiler.gpu_model``, which knows the code and counts it; here it is predicted from the tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from wia_compiler.backends.gpu.architecture import REGISTERS_PER_SM, Architecture
from wia_compiler.backends.gpu.layouts import MMA_COLUMNS, MMA_ROWS
from wia_compiler.backends.gpu.matrix_tiles import MatrixTiles
from wia_compiler.backends.gpu.matrix_units import STEP_BYTES, MatrixUnit
from wia_compiler.dialects.nvgpu import bits_of

MULTIPLY_ADDS = {75: 512, 80: 1024, 86: 512, 89: 256, 90: 1290, 100: 1270, 120: 256}
"""Of 16 bits and with f32 sums, that ``mma.sync`` makes in a cycle of an SM (data sheets of the
products that ``Architecture`` names; of Hopper and Blackwell the share that ``mma.sync`` reaches,
see ``profiler.gpu_sheets``). Elements of 32 bits have half of it."""
BYTEWISE_MULTIPLY_ADDS = {75: 1024, 80: 2048, 86: 1024, 89: 1024, 90: 2580, 100: 2540, 120: 1024}
"""Of 8 bits: GeForce GPUs halve only what adds up in f32."""
L2_BYTES = {75: 20, 80: 34, 86: 16, 89: 15, 90: 22, 100: 51, 120: 19}
"""What an SM gets from L2 in a cycle where all of them read (as the sheets' L2 bandwidths)."""
L2_PORT_BYTES = 64
"""What one SM gets at most."""
BANK_BYTES = 128
"""What shared memory gives or takes in a cycle."""
NORM = 5
TURN_CYCLES = 140
"""Of a warp alone in each turn of the loop: the barrier, the first operands, the copies, addresses.

With the next two the walk of ``profiler.sass_warp`` over our code for sm_80 is met within 15 %:
184 cycles a turn for 32 × 32 sums of a warp and 64 bytes of the fold, 211 for 128 bytes, 214 for
64 × 32 and 64, 276 for 64 × 64 and 64."""
STEP_CYCLES, MMA_CYCLES = 6, 1.7
"""Of a warp alone in each step (32 bytes of the fold), and in each ``mma`` of it."""
BLOCK_CYCLES = 1200
"""Of a block alone: its first tiles from memory, its results to it."""
OTHER_REGISTERS = 72
"""Of a thread, beside its sums: operands, addresses."""


@dataclass(frozen=True)
class MatrixProduct:
    """What is to be tiled: ``batches`` products of rows × fold × columns.

    ``in_vectors`` says that both operands can be copied in pieces of 16 bytes.
    """

    rows: int
    columns: int
    fold: int
    batches: int = 1
    in_vectors: bool = True

    def blocks(self, tiles: MatrixTiles) -> int:
        """How many such tiles it has."""
        return ceil(self.rows / tiles.rows) * ceil(self.columns / tiles.columns) * self.batches


def modelled_seconds(
    product: MatrixProduct, tiles: MatrixTiles, unit: MatrixUnit, architecture: Architecture
) -> float:
    """The time of a product, its launch aside."""
    clock = architecture.flops / (2 * architecture.fp32_lanes * architecture.sm_count)
    item = bits_of(unit.element) // 8
    capability = architecture.capability
    rate = BYTEWISE_MULTIPLY_ADDS[capability] if item == 1 else MULTIPLY_ADDS[capability]
    rate = rate / 2 if item == 4 else rate
    turns = ceil(product.fold / tiles.depth)
    blocks = product.blocks(tiles)
    busiest = ceil(blocks / architecture.sm_count)
    copied = (tiles.rows + tiles.columns) * tiles.depth * item
    read = tiles.warps * (tiles.warp_rows + tiles.warp_columns) * tiles.depth * item
    l2_share = max(busiest / L2_PORT_BYTES, blocks / architecture.sm_count / L2_BYTES[capability])
    resident = min(busiest, _held(tiles, unit, architecture))
    once = (product.rows + product.columns) * product.fold * product.batches * item
    parts = (
        busiest * turns * tiles.rows * tiles.columns * tiles.depth / rate,
        busiest * turns * (read + copied) / BANK_BYTES,
        turns * copied * l2_share,
        ceil(busiest / resident) * (BLOCK_CYCLES + turns * _turn(tiles, item)),
        once / architecture.bandwidth * clock,
    )
    return sum(part**NORM for part in parts) ** (1 / NORM) / clock


def _turn(tiles: MatrixTiles, item: int) -> float:
    """Cycles of a warp alone in a turn of the loop."""
    products = (tiles.warp_rows // MMA_ROWS) * (tiles.warp_columns // MMA_COLUMNS)
    return TURN_CYCLES + tiles.depth * item / STEP_BYTES * (STEP_CYCLES + MMA_CYCLES * products)


def _held(tiles: MatrixTiles, unit: MatrixUnit, architecture: Architecture) -> int:
    """Blocks that an SM holds at a time."""
    shared = tiles.shared_bytes(unit) + architecture.reserved_shared
    return max(
        1,
        min(
            REGISTERS_PER_SM // (tiles.threads * (tiles.sums + OTHER_REGISTERS)),
            architecture.shared_kib * 1024 // shared,
            architecture.max_warps // tiles.warps,
        ),
    )
