"""The default schedule of a CPU: what its vector registers can hold, in the order caches like.

contractions  a register tile: rows of one operand times vectors of the other, whole fold inside;
              the panel of vectors is copied to consecutive memory where many rows read it
columns       folds over an axis that is not the last: several vectors of columns at a time
the rest      as it is: LLVM vectorises the innermost loop
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr

from wia_compiler.backends.cpu.vector_plan import PANEL, runs_along_lanes
from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    axis_of,
    interchange,
    leaves_of,
    loops_of,
    stage_operand,
    tile_axis,
    tile_reduction,
)

_PANEL_ROWS = 32
"""From so many rows on, copying a panel of vectors costs less than reading it with strides."""
_COLUMN_VECTORS = 4


@dataclass(frozen=True)
class SchedulePass:
    """Nests in the form in which a CPU's registers and caches serve them.

    ``vector_bytes`` and ``vector_registers`` are those of the CPU.
    """

    vector_bytes: int = 32
    vector_registers: int = 16

    name: ClassVar[str] = "schedule"
    level: ClassVar[Level] = "mid"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Schedule every nest of the module in place."""
        for op in module.body.block.ops:
            if isinstance(op, func.FuncOp) and "wia.nest" in op.attributes:
                context.decisions.append(self._schedule(op, context))

    def _schedule(self, nest: func.FuncOp, context: PassContext) -> Decision:
        name = nest.sym_name.data
        subjects = tuple(filter(None, (context.id_of(nest),)))
        for leaf in leaves_of(nest):
            if leaf.kind.data in ("contract", "window"):
                tile = self._register_tile(nest, leaf)
                if tile is None:
                    break
                numbers = _tile_contraction(nest, leaf, tile)
                reason = "a register tile: every vector loaded is used by all rows"
                return Decision("schedule", name, True, reason, numbers, subjects)
            if leaf.kind.data == "reduce" and (columns := self._columns(nest, leaf)) is not None:
                numbers = _tile_columns(nest, *columns)
                reason = "folds down columns: vectors run across them"
                return Decision("schedule", name, True, reason, numbers, subjects)
        reason = "the innermost loop is left to LLVM's vectoriser"
        return Decision("schedule", name, False, reason, {}, subjects)

    def _register_tile(self, nest: func.FuncOp, leaf: ComputeOp) -> RegisterTile | None:
        """Vectors along the innermost axis that allows it, rows along one they do not read."""
        loops = {axis_of(loop): loop.extent.value.data for loop in loops_of(nest)}
        lanes = self.vector_bytes // size_bytes(_element(leaf, len(leaf.inputs)))
        for vectors in reversed(list(loops)):
            if vectors not in leaf.axis_names or loops[vectors] < lanes // 2:
                continue
            along = runs_along_lanes(leaf, vectors)
            if along is None or not any(along[: len(leaf.inputs)]):
                continue
            rows = [axis for axis in loops if axis != vectors and _is_row(leaf, axis, along)]
            most_rows, most_chunks = (8, 2) if self.vector_registers >= 32 else (4, 2)
            chunks = min(most_chunks, -(-loops[vectors] // lanes))
            row = rows[-1] if rows else None
            if row is None:
                chunks = min(4 * most_chunks, -(-loops[vectors] // lanes))
            height = _even_share(loops[row], most_rows) if row is not None else 1
            return RegisterTile(vectors, chunks * lanes, row, height)
        return None

    def _columns(self, nest: func.FuncOp, leaf: ComputeOp) -> tuple[str, int] | None:
        """The axis across the columns and how many at a time, if all leaves run along it."""
        loops = loops_of(nest)
        if not loops:
            return None
        axis, extent = axis_of(loops[-1]), loops[-1].extent.value.data
        if axis not in leaf.axis_names or not _reads_memory_along(leaf, axis):
            return None
        widest = max(
            size_bytes(_element(each, number))
            for each in leaves_of(nest)
            for number in range(len(each.inputs) + len(each.outputs))
        )
        lanes = self.vector_bytes // widest
        if extent < lanes // 2:
            return None
        return axis, min(_COLUMN_VECTORS, -(-extent // lanes)) * lanes


@dataclass(frozen=True)
class RegisterTile:
    """``columns`` points of axis ``vectors``, in whole vectors, by ``height`` of axis ``rows``."""

    vectors: str
    columns: int
    rows: str | None
    height: int


def _tile_contraction(
    nest: func.FuncOp, leaf: ComputeOp, tile: RegisterTile
) -> dict[str, float | int | str]:
    numbers: dict[str, float | int | str] = {"columns": tile.columns, "rows": tile.height}
    extents = {axis_of(loop): loop.extent.value.data for loop in loops_of(nest)}
    if tile.columns > 1:
        tile_axis(nest, tile.vectors, tile.columns)
    if tile.rows is not None and tile.height > 1:
        tile_axis(nest, tile.rows, tile.height)
    if tile.rows is None or leaf.kind.data == "window":
        return numbers
    _bring_outside(nest, tile.vectors, tile.rows)
    if extents[tile.rows] >= _PANEL_ROWS and extents[tile.vectors] > tile.columns:
        numbers |= _pack(nest, tile)
    return numbers


def _bring_outside(nest: func.FuncOp, axis: str, inner: str) -> None:
    """Move the loop over ``axis`` just outside that over ``inner``, where it stands inside it."""
    (loop,) = loops_of(nest, axis)
    while (parent := loop.parent_op()) is not None and isinstance(parent, ForOp):
        reached = axis_of(parent) == inner
        try:
            interchange(parent, loop)
        except IllegalRewrite:
            return
        (loop,) = loops_of(nest, axis)
        if reached:
            return


def _pack(nest: func.FuncOp, tile: RegisterTile) -> dict[str, float | int | str]:
    """Copy the panel of vectors that all rows read to consecutive memory, once for each panel."""
    (leaf,) = (each for each in leaves_of(nest) if each.kind.data == "contract")
    along = runs_along_lanes(leaf, tile.vectors)
    assert along is not None
    operands = [number for number in range(len(leaf.inputs)) if along[number]]
    if len(operands) != 1:
        return {}
    (loop,) = loops_of(nest, tile.vectors)
    try:
        buffer, _, _ = stage_operand(leaf, operands[0], loop, PANEL)
    except IllegalRewrite as refusal:
        return {"panel": str(refusal)}
    return {"panel": "×".join(map(str, buffer.memref.type.get_shape()))}


def _tile_columns(nest: func.FuncOp, axis: str, columns: int) -> dict[str, float | int | str]:
    if columns > 1:
        tile_axis(nest, axis, columns)
    for leaf in leaves_of(nest):
        if leaf.kind.data == "reduce":
            current = leaf
            for folded in [name.data for name in leaf.reduce_axes]:
                _, current = tile_reduction(current, folded, 1)
    return {"columns": columns}


def _is_row(leaf: ComputeOp, axis: str, along: Sequence[bool]) -> bool:
    """Whether an axis reuses vectors: what runs along the lanes does not depend on it."""
    if axis not in leaf.axis_names:
        return False
    own = AffineDimExpr(leaf.axis_names.index(axis))
    reads = [any(own in atoms(result) for result in each.results) for each in leaf.input_maps]
    vectors = [read for read, runs in zip(reads, along, strict=False) if runs]
    others = [read for read, runs in zip(reads, along, strict=False) if not runs]
    return not any(vectors) and any(others)


def _reads_memory_along(leaf: ComputeOp, axis: str) -> bool:
    """Whether an input in memory has neighbours along the axis, and none along a folded axis."""
    along = runs_along_lanes(leaf, axis)
    return along is not None and any(along[: len(leaf.inputs)])


def _even_share(extent: int, most: int) -> int:
    """The largest height up to ``most`` that wastes no rows; ``most`` where it would be small."""
    if extent <= most:
        return extent
    for height in range(most, most // 2, -1):
        if extent % height == 0:
            return height
    return most


def _element(leaf: ComputeOp, number: int) -> Attribute:
    value = (*leaf.inputs, *leaf.outputs)[number]
    return cast("MemRefType[Attribute]", value.type).element_type
