"""Tiles of a product on tensor cores: what they are, and what fits."""

from __future__ import annotations

from dataclasses import dataclass

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
STAGES, STAGES_OF_REGISTERS = 3, 2
"""Tiles in shared memory: one in use, and those on their way (one where registers carry them)."""
ASYNC_SINCE = 80
"""The capability from which on copies to shared memory need no registers."""
MAX_SUMS = 128
"""Of a thread: with operands and addresses they fit into 255 registers."""


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

    @property
    def sums(self) -> int:
        """Sums of a thread."""
        return self.warp_rows * self.warp_columns // WARP_SIZE

    def shared_bytes(self, unit: MatrixUnit) -> int:
        """What the stages of both operands take."""
        item = bits_of(unit.element) // 8
        return self.stages * (self.rows + self.columns) * self.depth * item


def fault_of(tiles: MatrixTiles, unit: MatrixUnit, architecture: Architecture) -> str | None:
    """Why a block cannot have such tiles; ``None`` where it can."""
    for size in (tiles.rows, tiles.columns, tiles.depth):
        if size & (size - 1):
            return f"tiles in shared memory are powers of two, {size} is none"
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
    if tiles.sums > MAX_SUMS:
        return f"a thread would hold {tiles.sums} sums, {MAX_SUMS} fit into its registers"
    limit = architecture.block_shared_kib * 1024
    if tiles.shared_bytes(unit) > limit:
        return (
            f"{tiles.stages} stages take {tiles.shared_bytes(unit)} bytes of shared memory, a "
            f"block of {architecture.name} has {limit}"
        )
    return None
