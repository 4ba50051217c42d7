"""Which tiles a product on tensor cores is cut into: of a few, those of the least modelled time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product as pairs
from typing import cast

from xdsl.dialects.builtin import MemRefType, NoneAttr
from xdsl.ir import Attribute

from wia_compiler.backends.gpu.access import axis_strides
from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.layouts import MMA_ROWS
from wia_compiler.backends.gpu.matrix_model import MatrixProduct, modelled_seconds
from wia_compiler.backends.gpu.matrix_tiles import (
    ASYNC_SINCE,
    STAGES,
    STAGES_OF_REGISTERS,
    WARP_COLUMNS,
    MatrixTiles,
    fault_of,
)
from wia_compiler.backends.gpu.matrix_units import MatrixUnit
from wia_compiler.backends.gpu.product_sides import Sides
from wia_compiler.backends.gpu.swizzle import CHUNK_BYTES
from wia_compiler.dialects.nvgpu import bits_of
from wia_compiler.dialects.tile import ComputeOp

BLOCK_TILES = (
    (256, 128, 64, 64),
    (128, 256, 64, 64),
    (128, 128, 64, 64),
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
ROW_BYTES = (64, 128)
"""Of the folded axis at a time: two steps of a matrix unit, or four, of which a turn waits less."""
BYTEWISE_SIDE = 64
"""8-bit rows and columns that are turned in registers want whole lines of half of the banks."""
FEWER_SUMS = 64
"""Of a thread that has other elements than those of 16 bits, or carries what it copies in registers
(``MAX_SUMS`` of them would be spilled)."""


def choose_tiles(
    product: MatrixProduct, unit: MatrixUnit, architecture: Architecture, **written: int
) -> MatrixTiles:
    """The tiles of the least modelled time; of those that are as good, the largest.

    ``written`` are fields of ``MatrixTiles`` that are not to be chosen. Where no tile of the table
    has them, warps take halves, and what comes out may not fit (``fault_of``).
    """
    found = _candidates(product, unit, architecture)
    sides = {name: written[name] for name in ("rows", "columns") if name in written}
    same = [each for each in found if all(getattr(each, n) == sides[n] for n in sides)]
    made = [replace(tiles, **written) for tiles in same]
    fitting = [tiles for tiles in made if fault_of(tiles, unit, architecture) is None]
    if not fitting:
        return replace(_halved(choose_tiles(product, unit, architecture), sides), **written)

    def rank(tiles: MatrixTiles) -> tuple[float, int]:
        seconds = modelled_seconds(product, tiles, unit, architecture)
        return seconds, -tiles.rows * tiles.columns

    return min(fitting, key=rank)


def _halved(chosen: MatrixTiles, sides: Mapping[str, int]) -> MatrixTiles:
    """Tiles of other sides: warps take a half of each, as far as that is enough for them."""
    tiles = replace(chosen, **sides)
    return replace(
        tiles,
        warp_rows=max(MMA_ROWS, tiles.rows // 2),
        warp_columns=max(WARP_COLUMNS, tiles.columns // 2),
    )


def _candidates(
    product: MatrixProduct, unit: MatrixUnit, architecture: Architecture
) -> list[MatrixTiles]:
    bits = bits_of(unit.element)
    is_async = architecture.capability >= ASYNC_SINCE
    in_vectors = product.in_vectors and is_async
    stages = STAGES if is_async else STAGES_OF_REGISTERS
    depths = [size * 8 // bits for size in (ROW_BYTES if in_vectors else ROW_BYTES[:1])]
    found = [
        MatrixTiles(*each[:2], depth, *each[2:], stages)
        for each, depth in pairs(BLOCK_TILES, depths)
        if bits > 8 or min(each[:2]) >= BYTEWISE_SIDE
    ]
    large = bits == 16 and in_vectors
    return [tiles for tiles in found if large or tiles.sums <= FEWER_SUMS]


def reads_in_vectors(leaf: ComputeOp, sides: Sides) -> bool:
    """Whether 16 bytes of each operand lie together, aligned, inside or outside of it as one.

    So for arrays whose rows are multiples of 16 bytes, dense along an axis of the product.
    """
    return all(_in_vectors(leaf, number, sides) for number in range(len(leaf.inputs)))


def _in_vectors(leaf: ComputeOp, number: int, sides: Sides) -> bool:
    type = cast("MemRefType[Attribute]", leaf.inputs[number].type)
    if not isinstance(type.layout, NoneAttr):
        return False
    width = CHUNK_BYTES * 8 // bits_of(type.element_type)
    strides = axis_strides(leaf, number)
    dense = [axis for axis, stride in strides.items() if stride == 1]
    others = [stride for stride in strides.values() if stride != 1]
    if len(dense) != 1 or dense[0] not in (sides.rows, sides.columns, sides.fold):
        return False
    if leaf.is_padded[number] or any(each is None or each % width for each in others):
        return False
    return type.get_shape()[-1] % width == 0
