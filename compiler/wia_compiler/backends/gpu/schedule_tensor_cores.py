"""Matrix products on tensor cores: a block's tile in shared memory, a warp's in its registers.

::

    for %i0 in 4096 step 128 @grid, %j0 in 4096 step 128 @grid
      %acc = alloc 128×128 f32 @register, mma(2x4)
      map @block acc = 0
      for %k0 in 4096 step 32 @serial  pipeline 3
        copy @block A_tile = A[%i0 + i, %k0 + k]      @shared, swizzled
        copy @block B_tile = B[%k0 + k, %j0 + j]      @shared, swizzled
        contract @block acc[i, j] += A_tile[i, k] * B_tile[k, j]
      map @block C[%i0 + i, %j0 + j] = …acc[i, j]…

Tiles go past the edges: what lies there is copied as 0, and not written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects import memref
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, UnitAttr, i8, i64
from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.access import axis_strides
from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.async_copy import ASYNC
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.choice import Choice
from wia_compiler.backends.gpu.grouped_rows import group_rows
from wia_compiler.backends.gpu.layouts import LAYOUT, AccumulatorLayout, layout_attribute
from wia_compiler.backends.gpu.matrix_choice import choose_tiles, reads_in_vectors
from wia_compiler.backends.gpu.matrix_model import MatrixProduct
from wia_compiler.backends.gpu.matrix_tiles import ASYNC_SINCE, MatrixTiles
from wia_compiler.backends.gpu.matrix_units import (
    MMA_SHAPE,
    MatrixUnit,
    NoMatrixUnit,
    find_unit,
)
from wia_compiler.backends.gpu.product_sides import Sides, sides_of
from wia_compiler.backends.gpu.swizzle import SWIZZLE, Rows, swizzle_attribute
from wia_compiler.backends.gpu.tiling import kept_loops, uses_axis
from wia_compiler.backends.gpu.wide_sums import widen_sums
from wia_compiler.base.schedule import Directive, directive
from wia_compiler.dialects.loop_hints import LoopHints, note_hints
from wia_compiler.dialects.nvgpu import bits_of
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.tile_rewrites import (
    axis_of,
    drop_bounds,
    leaves_of,
    set_leaf_level,
    set_level,
    stage_operand,
    tile_axis,
    tile_reduction,
)

LEAST_SIDE, LEAST_FOLD = 16, 16
"""Below, most of a matrix unit's tile would be zeros."""
SMALL_BLOCK_WARPS, SMALL_BLOCK_REGISTERS = 2, 96
"""ptxas saves registers for as many small blocks as an SM has room for, and spills for it."""
TENSOR_CORES = "use_tensor_cores"
ROUNDED = "tf32"
"""The word of ``use_tensor_cores`` that allows f32 operands to be rounded."""


@dataclass(frozen=True)
class Product:
    """A nest's one matrix product: its leaf, what its axes are, the unit that multiplies it.

    ``is_async`` says that tiles can be copied to shared memory without registers.
    """

    leaf: ComputeOp
    sides: Sides
    unit: MatrixUnit
    is_async: bool


def tensor_core_choice(nest: FuncOp, architecture: Architecture) -> Choice | None:
    """Schedule a nest for tensor cores; ``None`` where they have nothing for it, or too little.

    Operands that would lose bits (f32 as tf32) are left alone: a schedule asks for that.
    """
    try:
        product = product_of(nest, architecture)
    except NoMatrixUnit:
        return None
    sizes = product_sizes(nest, product)
    if is_too_small(sizes):
        return None
    tiles = choose_tiles(sizes, product.unit, architecture)
    return tile_for_tensor_cores(nest, product, tiles)


def product_of(nest: FuncOp, architecture: Architecture, *, tf32: bool = False) -> Product:
    """The matrix product of a nest; ``NoMatrixUnit`` where it has none for these units."""
    folding = [leaf for leaf in leaves_of(nest) if leaf.folds]
    sides = sides_of(nest, folding[0]) if len(folding) == 1 else None
    if sides is None:
        raise NoMatrixUnit(
            "tensor cores multiply matrices: here no two axes reuse what the other one reads",
            "leave use_tensor_cores out",
        )
    unit = find_unit(folding[0], architecture, tf32=tf32)
    return Product(folding[0], sides, unit, architecture.capability >= ASYNC_SINCE)


def is_too_small(sizes: MatrixProduct) -> bool:
    """Whether most of a matrix unit's tiles would be zeros."""
    return min(sizes.rows, sizes.columns) < LEAST_SIDE or sizes.fold < LEAST_FOLD


def product_sizes(nest: FuncOp, product: Product) -> MatrixProduct:
    """Rows, columns, the folded axis' points, and how many such products there are."""
    sides, leaf = product.sides, product.leaf
    sizes = {axis_of(loop): loop.extent.value.data for loop in kept_loops(nest)}
    rows, columns = sizes.pop(sides.rows), sizes.pop(sides.columns)
    fold = leaf.sizes[leaf.axis_names.index(sides.fold)]
    return MatrixProduct(rows, columns, fold, prod(sizes.values()), reads_in_vectors(leaf, sides))


def tile_for_tensor_cores(nest: FuncOp, product: Product, tiles: MatrixTiles) -> Choice:
    """Rewrite a nest as above."""
    sides, unit = product.sides, product.unit
    if element_type(product.leaf.outputs[0]) == i8:
        widen_sums(product.leaf)
    whole = {sides.rows: tiles.rows, sides.columns: tiles.columns}
    for loop in kept_loops(nest):
        tile_axis(nest, axis_of(loop), whole.get(axis_of(loop), 1), past_end=True)
        set_level(loop, "grid")
    (leaf,) = [each for each in leaves_of(nest) if each.folds]
    fold, leaf = tile_reduction(leaf, sides.fold, tiles.depth, past_end=True)
    turned: dict[str, bool] = {}
    for number in range(len(leaf.inputs)):
        own = sides.rows if uses_axis(leaf, number, sides.rows) else sides.columns
        dense = axis_strides(leaf, number)
        turned[own] = dense[own] == 1 and dense[sides.fold] != 1
        order = [sides.fold, own] if turned[own] else [own, sides.fold]
        buffer, copy, leaf = stage_operand(
            leaf, number, fold, "shared", level="block", order=order, copied=order
        )
        if product.is_async:
            copy.attributes[ASYNC] = UnitAttr()
        buffer.attributes[SWIZZLE] = swizzle_attribute(_swizzle(unit, turned[own]))
    leaf = drop_bounds(leaf)
    leaf.attributes[MMA_SHAPE] = ArrayAttr([IntegerAttr(size, i64) for size in unit.shape])
    bytewise = bits_of(unit.element) == 8
    layout = AccumulatorLayout(
        tiles.rows // tiles.warp_rows,
        tiles.columns // tiles.warp_columns,
        paired_rows=bytewise and turned[sides.rows],
        paired_columns=bytewise and turned[sides.columns],
    )
    accumulator = leaf.outputs[0].owner
    assert isinstance(accumulator, memref.AllocOp), (
        "sums of a product are kept in a register buffer"
    )
    accumulator.attributes[LAYOUT] = layout_attribute(layout)
    note_hints(fold, LoopHints(pipeline=tiles.stages))
    for each in leaves_of(nest):
        set_leaf_level(each, "block")
    group_rows(nest, sides.rows)
    return Choice(
        tiles.threads,
        f"contraction: tensor cores, {unit.name} by mma.sync",
        {
            "block tile": f"{tiles.rows}×{tiles.columns}×{tiles.depth}",
            "warp tile": f"{tiles.warp_rows}×{tiles.warp_columns}",
            "stages": tiles.stages,
            "rounds to": ROUNDED if unit.is_rounded else "nothing",
        },
        SMALL_BLOCK_REGISTERS if tiles.warps <= SMALL_BLOCK_WARPS else None,
        directives=as_lines(sides, tiles, tf32=unit.is_rounded),
    )


def as_lines(sides: Sides, tiles: MatrixTiles, *, tf32: bool) -> tuple[Directive, ...]:
    """The choice as a schedule writes it."""
    blocks = {sides.rows: tiles.rows, sides.columns: tiles.columns, sides.fold: tiles.depth}
    warps = {sides.rows: tiles.warp_rows, sides.columns: tiles.warp_columns}
    return (
        directive("tile", blocks),
        directive("tile", warps, level="warp"),
        directive("pipeline", {sides.fold: tiles.stages}),
        directive(TENSOR_CORES, ROUNDED) if tf32 else directive(TENSOR_CORES),
    )


def _swizzle(unit: MatrixUnit, is_turned: bool) -> Rows:
    """Which rows of a tile a warp reads together (``leaf_mma``)."""
    if not is_turned or bits_of(unit.element) == 16:
        return "rows"
    return "pairs" if bits_of(unit.element) == 8 else "quads"
