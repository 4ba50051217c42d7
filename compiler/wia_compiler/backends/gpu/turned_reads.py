"""Operands that lie the other way round: a tile of them goes through shared memory.

Neighbouring threads write neighbours of the result. Where these are far apart in an operand, whose
own neighbours lie along another axis, a block reads a tile of it along that axis, and takes its
elements from shared memory. Each row of the tile ends in unused elements, so that a column of it
lies in different banks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.access import axis_strides, in_memory, operands_of
from wia_compiler.backends.gpu.architecture import STATIC_SHARED_BYTES
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.tiling import Tile, tile_loops
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    leaves_of,
    loops_around,
    stage_operand,
)

BANK_BYTES = 4
LEAST_SIDE = 8
"""Points along both axes from which a tile saves more than its way through shared memory costs:
8 elements of 4 bytes are a sector."""


@dataclass(frozen=True)
class Turned:
    """An input of a leaf whose neighbours lie along ``across``, those of the result ``along``."""

    operand: int
    along: str
    across: str
    element_bytes: int

    def padding(self, row: int) -> int:
        """Unused elements behind a row of ``row``: it becomes an odd number of banks long."""
        used = -(-row * self.element_bytes // BANK_BYTES)
        wanted = max(used + 1 - used % 2, 1) * BANK_BYTES
        if self.element_bytes > BANK_BYTES:
            return 1 - row % 2
        return wanted // self.element_bytes - row


def turned_reads(leaf: ComputeOp) -> list[Turned]:
    """The inputs of a map that lie the other way round than what it writes."""
    if leaf.kind.data != "map" or len(leaf.axis_names) < 2:
        return []
    outputs = [number for number in in_memory(leaf) if number >= len(leaf.inputs)]
    along = _dense_axis(leaf, outputs[0]) if outputs else None
    if along is None or any(_dense_axis(leaf, number) != along for number in outputs):
        return []
    found: list[Turned] = []
    for number in in_memory(leaf):
        if number >= len(leaf.inputs) or leaf.is_padded[number]:
            continue
        strides = axis_strides(leaf, number)
        across = _dense_axis(leaf, number)
        if across not in (None, along) and strides[along] not in (0, 1, None):
            size = size_bytes(element_type(operands_of(leaf)[number]))
            found.append(Turned(number, along, across, size))
    return found


def _dense_axis(leaf: ComputeOp, operand: int) -> str | None:
    strides = axis_strides(leaf, operand)
    return next((name for name, stride in strides.items() if stride == 1), None)


def tile_with_turned_reads(nest: FuncOp, tiles: Mapping[str, Tile]) -> int:
    """Deal a nest out (``tile_loops``), stage what lies the other way; how many operands that is.

    ::

        for %i0 … @grid, for %j0 … @grid         for %i0 … @grid, for %j0 … @grid
          for %i1 … @thread, for %j1 … @thread     %x_tile = alloc 32×33 @shared
            map y[i, j] = x[j, i]             →    copy @block x_tile[j, i] = x[%j0 + j, %i0 + i]
                                                   for %i1 … @thread, for %j1 … @thread
                                                     map y[i, j] = x_tile[%j1 + j, %i1 + i]

    Only where a block's tile has at least 8 points along both axes, and shared memory holds it.
    """
    tile_loops(nest, tiles)
    leaves = leaves_of(nest)
    if len(leaves) != 1:
        return 0
    (leaf,) = leaves
    staged, used = 0, 0
    for turned in turned_reads(leaf):
        rows, row = (tiles.get(axis, Tile()).block for axis in (turned.along, turned.across))
        size = rows * (row + turned.padding(row)) * turned.element_bytes
        if min(rows, row) < LEAST_SIDE or used + size > STATIC_SHARED_BYTES:
            continue
        grid = [loop for loop in loops_around(leaf) if loop.level.data == "grid"]
        if not grid:
            continue
        try:
            _, _, leaf = stage_operand(
                leaf,
                turned.operand,
                grid[-1],
                "shared",
                level="block",
                order=[turned.along, turned.across],
                padding=turned.padding(row),
            )
        except IllegalRewrite:
            continue  # it moves along a third axis inside the tile: read as it lies
        staged += 1
        used += size
    return staged
