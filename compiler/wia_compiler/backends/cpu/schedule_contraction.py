"""Schedules of matrix products and convolutions on a CPU.

register tile  rows of one operand times vectors of the other, sums in registers while the fold
               runs; what the vectors read is copied to panels where many rows read it
blocks         of columns and of the folded axis, so that the panels of a block stay in the second
               cache; sums wait in the result between blocks
streamed rows  few rows times a matrix: rows of the matrix pass by once, in the order of memory,
               and are added to rows of sums in the first cache
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr

from wia_compiler.backends.cpu.caches import Caches
from wia_compiler.backends.cpu.schedule_products import (
    Product,
    adds_neighbours,
    block_product,
    stream_product,
    tile_shape,
)
from wia_compiler.backends.cpu.vector_plan import element_bytes, runs_along_lanes
from wia_compiler.base.schedule import Entry, directive
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.llvm.types import num_elements, size_bytes
from wia_compiler.passes.schedule import Chosen
from wia_compiler.passes.scheduling.operands import operand_name
from wia_compiler.passes.tile_rewrites import axis_of, loops_of

Numbers = dict[str, float | int | str]

_PANEL_ROWS = 32
"""From so many rows on, copying a panel of vectors costs less than reading it with strides."""
ROW_BYTES = 16 * 1024
"""A streamed row's sums: half of the first cache."""
_STREAMED_ROWS = 4
"""Rows that are added at a time, so that sums are loaded and stored once for four products."""


@dataclass(frozen=True)
class _Tile:
    """``columns`` points of axis ``vectors``, in whole vectors, by ``height`` of axis ``rows``.

    ``panel`` is the operand to copy so that its vectors are consecutive (``None``: it is read where
    it lies).
    """

    vectors: str
    columns: int
    rows: str | None
    height: int
    panel: int | None


def choose_contraction(
    nest: func.FuncOp,
    leaf: ComputeOp,
    vector_bytes: int,
    vector_registers: int,
    caches: Caches | None = None,
    *,
    adds_dots: int = 0,
) -> Chosen:
    """The directives for a nest with a contraction; none where it is better left alone."""
    caches = caches or Caches()
    lanes = vector_bytes // element_bytes(leaf)
    product = _product(nest, leaf, lanes)
    if product is not None:
        chosen = stream_product(nest, product, lanes, vector_registers, caches)
        if chosen is None:
            dots = adds_dots > 0 and adds_neighbours(product)
            chosen = block_product(nest, product, lanes, vector_registers, caches, dots=dots)
        if chosen is not None:
            return chosen
    tile = _register_tile(nest, leaf, lanes, vector_registers, caches)
    return Chosen() if tile is None else _tile_registers(nest, leaf, tile)


def _product(nest: func.FuncOp, leaf: ComputeOp, lanes: int) -> Product | None:
    """The roles of a matrix product's axes; ``None`` where vectors lie along no kept axis."""
    sizes = {axis_of(loop): loop.extent.value.data for loop in loops_of(nest)}
    if leaf.kind.data == "window" or len(leaf.reduce_axes) != 1 or any(leaf.is_padded):
        return None
    folded = leaf.reduce_axes.data[0].data
    for vectors in reversed(list(sizes)):
        if vectors not in leaf.axis_names:
            continue
        reads = _reads_axis(leaf, vectors)
        if sizes[vectors] < lanes:
            if any(reads) and sizes[vectors] >= lanes // 4:
                return None  # a part of a vector along it is better than turning another operand
            continue
        varying = [number for number, read in enumerate(reads) if read]
        rows = [axis for axis in sizes if axis != vectors and _is_row(leaf, axis, reads)]
        if len(varying) != 1 or (len(rows) > 1 and sizes[rows[-1]] < 2):
            continue
        return Product(
            leaf,
            sizes,
            vectors,
            rows[-1] if rows else None,
            folded,
            varying[0],
            is_dense=runs_along_lanes(leaf, vectors) is not None,
        )
    return None


def _register_tile(
    nest: func.FuncOp, leaf: ComputeOp, lanes: int, vector_registers: int, caches: Caches
) -> _Tile | None:
    """Vectors along the innermost axis that fills them at least half, else a quarter.

    Rows lie along an axis that what the vectors read does not depend on; a window does without,
    if there is none (a convolution of each channel alone).
    """
    sizes = {axis_of(loop): loop.extent.value.data for loop in loops_of(nest)}
    most_chunks = 2
    candidates = [axis for axis in reversed(list(sizes)) if axis in leaf.axis_names]
    filled = [axis for axis in candidates if sizes[axis] >= lanes // 2]
    barely = [axis for axis in candidates if lanes // 4 <= sizes[axis] < lanes // 2]
    for vectors in (*filled, *barely):
        reads = _reads_axis(leaf, vectors)
        rows = [axis for axis in sizes if axis != vectors and _is_row(leaf, axis, reads)]
        if not any(reads) or not (rows or leaf.kind.data == "window"):
            continue
        row = rows[-1] if rows else None
        height = 1
        columns = _whole_vectors(sizes[vectors], lanes, most_chunks if rows else 2 * most_chunks)
        if row is not None and columns < lanes:
            height = tile_shape(sizes[row], 1, 1, vector_registers, 1)[0]
        elif row is not None:
            height, chunks = tile_shape(sizes[row], sizes[vectors], lanes, vector_registers)
            columns = chunks * lanes
        many_rows = row is not None and sizes[row] >= _PANEL_ROWS
        panel = _panel(leaf, vectors, reads, many_rows=many_rows)
        along = runs_along_lanes(leaf, vectors)
        if along is None and panel is None:
            continue
        stays = sizes[vectors] <= columns or _bytes_read(leaf, panel) <= caches.l1
        if along is not None and stays and not any(leaf.is_padded):
            panel = None
        return _Tile(vectors, columns, row, height, panel)
    return None


def _bytes_read(leaf: ComputeOp, operand: int | None) -> int:
    """Bytes of the array behind an operand."""
    if operand is None:
        return 0
    type_ = cast("MemRefType[Attribute]", leaf.inputs[operand].type)
    return num_elements(type_) * size_bytes(type_.element_type)


def _panel(leaf: ComputeOp, vectors: str, reads: Sequence[bool], *, many_rows: bool) -> int | None:
    """The operand to copy: the only one that varies along the lanes, where many rows read it.

    A window's is always copied: its padding and its stride are dealt with once, not at every use.
    """
    varying = [number for number, read in enumerate(reads) if read]
    if len(varying) != 1 or not (many_rows or leaf.kind.data == "window"):
        return None
    return varying[0]


def _tile_registers(nest: func.FuncOp, leaf: ComputeOp, tile: _Tile) -> Chosen:
    numbers: Numbers = {"columns": tile.columns, "rows": tile.height}
    rows = {} if tile.rows is None else {tile.rows: tile.height}
    sizes = {axis: size for axis, size in {tile.vectors: tile.columns, **rows}.items() if size > 1}
    directives = [directive("thread_tile", sizes)] if sizes else []
    order = [axis_of(loop) for loop in loops_of(nest)]
    if tile.rows is not None and order[-1] != tile.rows:
        inner = order[order.index(tile.rows) + 1 :]
        directives.append(directive("reorder", *inner, tile.rows))
    if tile.panel is not None:
        array = operand_name(nest, leaf, tile.panel)
        directives.append(directive("pack", Entry(array, at=tile.vectors)))
        numbers["panel"] = array
    reason = "a register tile: every vector loaded is used by all rows"
    return Chosen(tuple(directives), reason, numbers)


def rows_at_a_time(leaf: ComputeOp, folded: str) -> int:
    """How many rows of a folded axis to add at a time: four, if that leaves none over."""
    size = leaf.sizes[leaf.axis_names.index(folded)]
    return next(count for count in (_STREAMED_ROWS, 2, 1) if size % count == 0)


def _reads_axis(leaf: ComputeOp, axis: str) -> tuple[bool, ...]:
    """For each input, whether it varies along an axis."""
    own = AffineDimExpr(leaf.axis_names.index(axis))
    return tuple(any(own in atoms(result) for result in m.results) for m in leaf.input_maps)


def _is_row(leaf: ComputeOp, axis: str, vectors: Sequence[bool]) -> bool:
    """Whether an axis reuses vectors: the inputs that vary along the lanes do not depend on it."""
    if axis not in leaf.axis_names:
        return False
    reads = _reads_axis(leaf, axis)
    pairs = list(zip(reads, vectors, strict=True))
    return not any(read for read, vector in pairs if vector) and any(
        read for read, vector in pairs if not vector
    )


def _whole_vectors(extent: int, lanes: int, most: int) -> int:
    """Points of a tile: up to ``most`` vectors, or the largest part of one that an axis fills."""
    if extent >= lanes:
        return min(most, extent // lanes) * lanes
    return 1 << (extent.bit_length() - 1)
