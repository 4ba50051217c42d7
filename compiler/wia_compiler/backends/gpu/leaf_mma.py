"""Contract leaves of a block by ``mma.sync``: warps multiply tiles of shared memory in registers.

Sums are slots of a register buffer in the layout of accumulators (``layouts``), so that a loop
passes them on as values. Operands of the next step are read before those of this one are
multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import vector
from xdsl.dialects.builtin import ArrayAttr, Float32Type, IntegerAttr, IntegerType, VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from wia_compiler.backends.gpu.builder import Builder, element_type
from wia_compiler.backends.gpu.index import Index
from wia_compiler.backends.gpu.layouts import MMA_COLUMNS, MMA_ROWS, Fragment
from wia_compiler.backends.gpu.leaf import Leaf
from wia_compiler.backends.gpu.matrix_operands import OWN_POINTS, MatrixOperand
from wia_compiler.backends.gpu.matrix_units import MMA_SHAPE, STEP_BYTES
from wia_compiler.dialects.nvgpu import (
    MatrixShape,
    MmaSyncOp,
    accumulator_type,
    bits_of,
)
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.dialects.vector_elements import ExtractStridedSliceOp, FromElementsOp

TILE_SLOTS = 4
"""Sums of a tile of 16 × 8 that a lane has."""
Registers = Sequence[SSAValue]
ReadLeft = Callable[[int, int], SSAValue]
"""The left operand's registers of tile ``row`` (16 rows each) in a step, both numbers."""


def is_mma(op: ComputeOp) -> bool:
    """Whether a leaf is one that a schedule gave to tensor cores."""
    return op.kind.data == "contract" and MMA_SHAPE in op.attributes


def lower_mma_leaf(leaf: Leaf) -> None:
    """Emit a contract leaf whose operands are both tiles in shared memory."""
    layout, rows, columns, fold = _roles(leaf)
    origin = layout.warp_origin(leaf.kernel.thread)
    left, right = _sides(leaf, rows, columns)
    places = {axis: origin[dimension] for dimension, axis in _dimensions(leaf).items()}
    operand = MatrixOperand(leaf, left, rows, fold, places[rows], is_left=True)
    lower_products(leaf, lambda row, step: operand.read(MMA_ROWS * row, step)[0], right)


def lower_products(leaf: Leaf, read_left: ReadLeft, right: int) -> None:
    """Emit a contract leaf whose left operand is read by ``read_left``.

    ``right`` is the number of the input that is a tile in shared memory. The sums are the leaf's
    output, in the layout of accumulators.
    """
    layout, rows, columns, fold = _roles(leaf)
    origin = layout.warp_origin(leaf.kernel.thread)
    places = {axis: origin[dimension] for dimension, axis in _dimensions(leaf).items()}
    operand = MatrixOperand(leaf, right, columns, fold, places[columns], is_left=False)
    tile_rows, tile_columns = _tiles(leaf, layout, rows, columns)
    steps = leaf.sizes[fold] * bits_of(operand.element) // 8 // STEP_BYTES

    def read(step: int) -> tuple[Registers, Registers]:
        columns_read: list[SSAValue] = []
        for pair in range(tile_columns * MMA_COLUMNS // OWN_POINTS):
            columns_read += operand.read(OWN_POINTS * pair, step)
        return [read_left(row, step) for row in range(tile_rows)], columns_read

    held = read(0)
    for step in range(steps):
        following = read(step + 1) if step + 1 < steps else None
        for row in range(tile_rows):
            for column in range(tile_columns):
                _multiply(leaf, row * tile_columns + column, held[0][row], held[1][column])
        held = following or held


def _roles(leaf: Leaf) -> tuple[Fragment, int, int, int]:
    """The layout of the sums, and the axes that are rows, columns and folded."""
    layout = leaf.kernel.distributed[leaf.op.outputs[0]]
    assert isinstance(layout, Fragment)
    by_dimension = _dimensions(leaf)
    large = [number for number, size in enumerate(layout.shape) if size > 1]
    rows, columns = (by_dimension[number] for number in large[-2:])
    (fold,) = [
        axis
        for axis, (folded, size) in enumerate(zip(leaf.reductions, leaf.sizes, strict=True))
        if folded and size > 1
    ]
    return layout, rows, columns, fold


def _dimensions(leaf: Leaf) -> dict[int, int]:
    """Which axis each dimension of the sums is."""
    each: AffineMap = leaf.op.output_maps[0]
    return {
        number: result.position
        for number, result in enumerate(each.results)
        if isinstance(result, AffineDimExpr)
    }


def _sides(leaf: Leaf, rows: int, columns: int) -> tuple[int, int]:
    """The numbers of the left operand and of the right one."""
    used = [
        {axis for result in each.results for axis in result.used_dims()}
        for each in leaf.op.input_maps
    ]
    (left,) = [number for number, axes in enumerate(used) if rows in axes]
    (right,) = [number for number, axes in enumerate(used) if columns in axes]
    return left, right


def _tiles(leaf: Leaf, layout: Fragment, rows: int, columns: int) -> tuple[int, int]:
    """Tiles of 16 rows and of 8 columns that a warp has."""
    warps = layout.threads // 32
    total = leaf.sizes[rows] * leaf.sizes[columns] // (MMA_ROWS * MMA_COLUMNS) // warps
    down = layout.slot_digits[-1].count
    return down, total // down


def _multiply(leaf: Leaf, tile: int, a: SSAValue, b: SSAValue) -> None:
    """Add the products of one step to the sums of one tile."""
    builder, buffer = leaf.builder, leaf.outputs[0]
    slots = [(Index((), TILE_SLOTS * tile + n),) for n in range(TILE_SLOTS)]
    held = [builder.load(buffer, slot) for slot in slots]
    type = accumulator_type(element_type(buffer), MMA_ROWS)
    sums = builder.add(FromElementsOp(held, type)).dest
    for slot, value in zip(slots, _products(leaf, a, b, sums), strict=True):
        builder.store(value, buffer, slot)


def _products(leaf: Leaf, a: SSAValue, b: SSAValue, sums: SSAValue) -> list[SSAValue]:
    """The sums of a tile of 16 × 8 after a step, in the pieces that the instruction has."""
    builder = leaf.builder
    shape = _shape(leaf.op)
    element = cast("VectorType[Attribute]", a.type).element_type
    tf32 = isinstance(element, Float32Type)
    step = STEP_BYTES * 8 // bits_of(element)
    downs, alongs = MMA_ROWS // shape[0], step // shape[2]
    rows: list[SSAValue] = []
    for down in range(downs):
        total = sums if downs == 1 else _rows(builder, sums, down, 1)
        for along in range(alongs):
            left = _left_piece(builder, a, down, along, downs, alongs)
            right = b if alongs == 1 else _rows(builder, b, along, 1)
            total = builder.add(MmaSyncOp(left, right, total, shape, tf32=tf32)).res
        rows.append(total)
    held = element_type(leaf.outputs[0])
    places = [[r, c] for r in range(2 // downs) for c in (0, 1)]
    return [
        builder.add(vector.ExtractOp(part, place, held)).result for part in rows for place in places
    ]


def _left_piece(
    builder: Builder, a: SSAValue, down: int, along: int, downs: int, alongs: int
) -> SSAValue:
    """Registers (row half, chunk): 0 is (0, 0), 1 is (1, 0), 2 is (0, 1), 3 is (1, 1)."""
    if downs == alongs == 1:
        return a
    if downs == 1:
        return _rows(builder, a, 2 * along, 2)
    return _rows(builder, a, 2 * along + down, 1)


def _rows(builder: Builder, value: SSAValue, first: int, count: int) -> SSAValue:
    return builder.add(ExtractStridedSliceOp(value, first, count)).result


def _shape(op: ComputeOp) -> MatrixShape:
    sizes = cast("ArrayAttr[IntegerAttr[IntegerType]]", op.attributes[MMA_SHAPE])
    rows, columns, depth = (size.value.data for size in sizes)
    return rows, columns, depth
