"""Tiles of a product on tensor cores: what fits, and which takes the least modelled time."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from wia_compiler.backends.gpu.architecture import (
    MAX_THREADS_PER_BLOCK,
    WARP_SIZE,
    Architecture,
)
from wia_compiler.backends.gpu.layouts import MMA_ROWS
from wia_compiler.backends.gpu.matrix_units import MatrixUnit
from wia_compiler.dialects.nvgpu import bits_of

WARP_COLUMNS = 16
"""Of a warp's tile a multiple: one ``ldmatrix`` brings two tiles of 8 columns."""
BYTEWISE_SIDE = 64
"""8-bit rows and columns that are turned in registers want whole lines of half of the banks."""
ROW_BYTES = 64
"""Of the folded axis at a time: two steps of a matrix unit, 32 elements of 16 bits."""
STAGES, STAGES_OF_REGISTERS = 3, 2
"""Tiles in shared memory: one in use, and those on their way (one where registers carry them)."""
ASYNC_SINCE = 80
"""The capability from which on copies to shared memory need no registers."""
MAX_SUMS = 128
"""Of a thread: with operands and addresses they fit into 255 registers."""
BLOCK_TILES = (
    (128, 128, 64, 32),
    (128, 64, 64, 32),
    (64, 128, 32, 64),
    (64, 64, 32, 32),
    (32, 64, 32, 16),
    (64, 32, 16, 32),
    (32, 32, 16, 16),
    (16, 64, 16, 16),
    (16, 32, 16, 16),
)
"""Rows and columns of a block and of a warp: 4 or 8 warps, less for small products."""
LATENCY_CYCLES = 40
"""Of a step of the loop that nothing overlaps: a barrier, the first operands of a stage."""
L2_BYTES_PER_CYCLE = 48
"""What an SM gets from the second-level cache (A100: 64 at best)."""


@dataclass(frozen=True)
class MatrixTiles:
    """``rows × columns × depth`` of a block, ``warp_rows × warp_columns`` of a warp, ``stages``."""

    rows: int
    columns: int
    depth: int
    warp_rows: int
    warp_columns: int
    stages: int

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return (self.rows // self.warp_rows) * (self.columns // self.warp_columns)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.warps * WARP_SIZE

    def shared_bytes(self, unit: MatrixUnit) -> int:
        """What the stages of both operands take."""
        item = bits_of(unit.element) // 8
        return self.stages * (self.rows + self.columns) * self.depth * item


def fault_of(tiles: MatrixTiles, unit: MatrixUnit, architecture: Architecture) -> str | None:
    """Why a block cannot have such tiles; ``None`` where it can."""
    for size in (tiles.rows, tiles.columns, tiles.depth):
        if size & (size - 1):
            return f"tiles in shared memory are powers of two, {size} is none"
    sums = tiles.warp_rows * tiles.warp_columns // WARP_SIZE
    wanted = (
        (tiles.warp_rows % MMA_ROWS, f"a warp's rows are a multiple of {MMA_ROWS}"),
        (tiles.warp_columns % WARP_COLUMNS, f"a warp's columns are a multiple of {WARP_COLUMNS}"),
        (tiles.rows % tiles.warp_rows, f"{tiles.rows} rows are no {tiles.warp_rows} for each warp"),
        (
            tiles.columns % tiles.warp_columns,
            f"{tiles.columns} columns are no {tiles.warp_columns} for each warp",
        ),
        (tiles.depth % unit.step, f"{unit.name} is added up {unit.step} at a time"),
    )
    for remainder, text in wanted:
        if remainder:
            return text
    if tiles.threads > MAX_THREADS_PER_BLOCK:
        return f"a block would have {tiles.threads} threads, it has {MAX_THREADS_PER_BLOCK}"
    if sums > MAX_SUMS:
        return f"a thread would hold {sums} sums, {MAX_SUMS} fit into its registers"
    limit = architecture.block_shared_kib * 1024
    if tiles.shared_bytes(unit) > limit:
        return (
            f"{tiles.stages} stages take {tiles.shared_bytes(unit)} bytes of shared memory, a "
            f"block of {architecture.name} has {limit}"
        )
    return None


def choose_tiles(
    rows: int, columns: int, fold: int, batches: int, unit: MatrixUnit, architecture: Architecture
) -> MatrixTiles:
    """The tiles of the least modelled time for ``batches`` products of rows × fold × columns."""
    found = [
        MatrixTiles(*each[:2], default_depth(unit), *each[2:], default_stages(architecture))
        for each in BLOCK_TILES
        if bits_of(unit.element) > 8 or min(each[:2]) >= BYTEWISE_SIDE
    ]
    fitting = [each for each in found if fault_of(each, unit, architecture) is None]
    return min(
        fitting,
        key=lambda tiles: (
            _cycles(tiles, rows, columns, fold, batches, unit, architecture),
            -tiles.rows * tiles.columns,
        ),
    )


def default_depth(unit: MatrixUnit) -> int:
    """Elements of the folded axis in a stage."""
    return ROW_BYTES * 8 // bits_of(unit.element)


def default_stages(architecture: Architecture) -> int:
    """Stages of the loop over the folded axis."""
    return STAGES if architecture.capability >= ASYNC_SINCE else STAGES_OF_REGISTERS


def _cycles(
    tiles: MatrixTiles,
    rows: int,
    columns: int,
    fold: int,
    batches: int,
    unit: MatrixUnit,
    architecture: Architecture,
) -> float:
    """Cycles of the busiest SM: its blocks' products or what they read, and what waits."""
    blocks = ceil(rows / tiles.rows) * ceil(columns / tiles.columns) * batches
    steps = ceil(fold / tiles.depth)
    item = bits_of(unit.element) // 8
    # 1024 multiply-adds of 16 bits a cycle and SM on A100; twice as many of half the bits.
    products = tiles.rows * tiles.columns * tiles.depth * item / 2048
    traffic = (tiles.rows + tiles.columns) * tiles.depth * item / L2_BYTES_PER_CYCLE
    busiest = ceil(blocks / architecture.sm_count)
    together = min(busiest, max(1, 16 // tiles.warps))
    return busiest * steps * (max(products, traffic) + LATENCY_CYCLES / together)
