"""Which leaves a CPU spells with vector registers, and how: the axis along the lanes, the rows.

A leaf can be spelled so when each operand either runs along one parallel axis with stride 1 (it is
loaded as a vector) or does not depend on that axis (it is broadcast), as in a register tile of a
matrix product: ``acc[i, j] += a[i, k] * b[k, j]`` with lanes along ``j``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import IntegerType, MemRefType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from wia_compiler.dialects.leaf_hints import noted_lanes
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.dialects.tile_places import PositionsOp
from wia_compiler.passes.affine import atoms, linear_form
from wia_compiler.passes.emit_leaf import LeafContext, is_carried
from wia_compiler.passes.llvm.types import scope_of, size_bytes, strides_of

PANEL = "packed"
"""The memory space of consecutive copies that a nest makes for itself."""
_MOST_VECTORS = 32
_MOST_CHUNKS = 8
_VECTOR_BODY = (
    *("arith.constant", "arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.negf"),
    *("arith.addi", "arith.subi", "arith.muli", "arith.extf", "arith.truncf", "arith.extsi"),
    *("arith.extui", "arith.trunci", "arith.maximumf", "arith.minimumf", "arith.maxsi"),
    *("arith.minsi", "arith.maxui", "arith.minui", "math.sqrt", "math.absf", "tile.yield"),
)
"""Body ops that xDSL defines on vectors too (comparisons and selects are scalar there)."""


@dataclass(frozen=True)
class Condition:
    """``0 <= expression < limit``, not known to hold everywhere."""

    expression: AffineExpr
    limit: int


@dataclass(frozen=True)
class VectorPlan:
    """How a leaf is spelled.

    ``axis`` runs along the lanes, in ``chunks`` of ``lanes``; ``rows`` are the other parallel axes;
    ``bounds`` and, for each input, ``padding`` are the conditions that must be tested; ``ends`` are
    those that end the loop over a folded axis. Rows of a map are ``unrolled`` where there is one;
    else loops walk them.
    """

    context: LeafContext
    axis: int
    lanes: int
    rows: tuple[int, ...]
    reduce: tuple[int, ...]
    bounds: tuple[Condition, ...]
    padding: tuple[tuple[Condition | None, ...], ...]
    unrolled: bool
    ends: tuple[tuple[int, Condition], ...] = ()

    @property
    def leaf(self) -> ComputeOp:
        """The leaf."""
        return self.context.leaf

    @property
    def chunks(self) -> int:
        """Vectors along the axis."""
        return self.leaf.sizes[self.axis] // self.lanes

    def runs_along(self, each: AffineMap | AffineExpr) -> bool:
        """Whether a map or expression depends on the vector axis."""
        return _reads(each, self.axis)


def plan_vectors(context: LeafContext, vector_bytes: int) -> VectorPlan | None:
    """How to spell a leaf with vectors of ``vector_bytes``; ``None`` where that is not possible."""
    leaf = context.leaf
    parallel = [axis for axis, folded in enumerate(leaf.reductions) if not folded]
    wide = [axis for axis in parallel if leaf.sizes[axis] > 1]
    if not wide or any(not is_carried(leaf, n) for n in range(len(leaf.outputs)) if leaf.folds):
        return None
    if any(op.name not in _VECTOR_BODY for op in leaf.body.block.ops):
        return None
    if any(isinstance(value.owner, PositionsOp) for value in leaf.inputs):
        return None
    axis = wide[-1]
    lanes = vector_bytes // element_bytes(leaf)
    wanted = noted_lanes(leaf)
    if wanted is not None and wanted[0] == leaf.axis_names[axis]:
        lanes = wanted[1]
    while leaf.sizes[axis] % lanes and lanes > 2:
        lanes //= 2  # a part of a vector, where the axis is shorter than one
    rows = tuple(each for each in parallel if each != axis)
    count = math.prod(leaf.sizes[each] for each in rows) * leaf.sizes[axis] // max(lanes, 1)
    if lanes < 2 or leaf.sizes[axis] % lanes or (leaf.folds and count > _MOST_VECTORS):
        return None
    operands = (*leaf.inputs, *leaf.outputs)
    maps = (*leaf.input_maps, *leaf.output_maps)
    if not all(_is_vector_or_scalar(v, m, axis) for v, m in zip(operands, maps, strict=True)):
        return None
    if not all(_reads(each, axis) for each in leaf.output_maps):
        return None
    if not all(_holds_tiles(context, v, m) for v, m in zip(operands, maps, strict=True)):
        return None
    bounds = tuple(
        Condition(expression, limit)
        for expression, limit in zip(leaf.bounds.data.results, leaf.limit_values, strict=True)
        if not context.is_within(expression, limit)
    )
    ends = tuple(
        (folded, bound)
        for bound in bounds
        if (folded := ended_axis(leaf, bound.expression)) is not None
    )
    bounds = tuple(bound for bound in bounds if bound not in [each for _, each in ends])
    padding = tuple(_padding(context, operand) for operand in range(len(leaf.inputs)))
    tested = [*bounds, *(each for row in padding for each in row if each is not None)]
    if not all(_is_testable(each.expression, axis) for each in tested):
        return None
    if leaf.folds and not all(_is_limited(leaf, each, axis) for each in bounds):
        return None
    if leaf.folds and not all(
        is_register(value) or _reads(bound.expression, axis)
        for value in leaf.outputs
        for bound in bounds
    ):
        return None  # rows past a bound are computed too: main memory has no room for them
    reduce = tuple(each for each, folded in enumerate(leaf.reductions) if folded)
    if not leaf.folds and leaf.sizes[axis] // lanes > _MOST_CHUNKS:
        return None
    unrolled = len(wide) == 1
    return VectorPlan(context, axis, lanes, rows, reduce, bounds, padding, unrolled, ends)


def is_register(value: SSAValue) -> bool:
    """Whether a buffer is the nest's own (registers, a panel): it holds whole tiles."""
    return scope_of(cast("MemRefType[Attribute]", value.type)) in ("register", PANEL)


def _holds_tiles(context: LeafContext, value: SSAValue, each: AffineMap) -> bool:
    """Whether a buffer of the nest has room for every point of the leaf, those past edges too."""
    shape = cast("MemRefType[Attribute]", value.type).get_shape()
    return not is_register(value) or all(
        context.is_within(result, size) for result, size in zip(each.results, shape, strict=True)
    )


def runs_along_lanes(leaf: ComputeOp, axis: str) -> tuple[bool, ...] | None:
    """For each input and output, whether it is dense along an axis; ``None`` if one is neither
    dense along it nor independent of it."""
    if axis not in leaf.axis_names:
        return None
    position = leaf.axis_names.index(axis)
    operands = (*leaf.inputs, *leaf.outputs)
    maps = (*leaf.input_maps, *leaf.output_maps)
    if not all(_is_vector_or_scalar(v, m, position) for v, m in zip(operands, maps, strict=True)):
        return None
    return tuple(_reads(each, position) for each in maps)


def _padding(context: LeafContext, operand: int) -> tuple[Condition | None, ...]:
    leaf = context.leaf
    shape = cast("MemRefType[Attribute]", leaf.inputs[operand].type).get_shape()
    results = leaf.input_maps[operand].results
    if not leaf.is_padded[operand]:
        return (None,) * len(results)
    return tuple(
        None if context.is_within(expression, size) else Condition(expression, size)
        for expression, size in zip(results, shape, strict=True)
    )


def element_bytes(leaf: ComputeOp) -> int:
    """Bytes of the widest element that a leaf computes with (truth values do not count)."""
    values: list[SSAValue] = [*leaf.body.block.args]
    for op in leaf.body.block.ops:
        values += op.results
    widths = [size_bytes(value.type) for value in values if value.type != i1]
    return max(widths, default=1)


def _reads(each: AffineMap | AffineExpr, axis: int) -> bool:
    expressions = each.results if isinstance(each, AffineMap) else (each,)
    return any(AffineDimExpr(axis) in atoms(expression) for expression in expressions)


def _is_vector_or_scalar(value: SSAValue, each: AffineMap, axis: int) -> bool:
    if not _reads(each, axis):
        return True
    memref = cast("MemRefType[Attribute]", value.type)
    if memref.element_type == IntegerType(1) or strides_of(memref)[-1] != 1:
        return False
    *before, last = each.results
    if any(_reads(expression, axis) for expression in before):
        return False
    return _steps_by_one(last, axis)


def _steps_by_one(expression: AffineExpr, axis: int) -> bool:
    form = linear_form(expression)
    inside = [atom for atom in form.terms if AffineDimExpr(axis) in atoms(atom)]
    return inside == [AffineDimExpr(axis)] and form.terms[AffineDimExpr(axis)] == 1


def _is_testable(expression: AffineExpr, axis: int) -> bool:
    """Linear, so that its extremes are at corners; stepping by one along the lanes if at all."""
    if not linear_form(expression).is_linear:
        return False
    return not _reads(expression, axis) or _steps_by_one(expression, axis)


def _is_limited(leaf: ComputeOp, bound: Condition, axis: int) -> bool:
    """Whether limiting the indices that equal a bound keeps a fold's reads inside: each input that
    depends on the bound's row must be read at exactly that expression."""
    if _reads(bound.expression, axis):
        return True
    rows = atoms(bound.expression) & {AffineDimExpr(n) for n in range(len(leaf.sizes))}
    for value, each in zip(leaf.inputs, leaf.input_maps, strict=True):
        if is_register(value):
            continue
        for result in each.results:
            if result != bound.expression and rows & atoms(result):
                return False
    return not is_folded_bound(leaf, rows)


def ended_axis(leaf: ComputeOp, expression: AffineExpr) -> int | None:
    """The folded axis whose loop a bound ends: it grows by one along that axis, and no other."""
    form = linear_form(expression)
    dims = [atom for atom in form.terms if isinstance(atom, AffineDimExpr)]
    if not form.is_linear or len(dims) != 1 or form.terms[dims[0]] != 1:
        return None
    axis = dims[0].position
    starts_at_zero = form.constant >= 0 and all(factor > 0 for factor in form.terms.values())
    return axis if leaf.reductions[axis] and starts_at_zero else None


def is_folded_bound(leaf: ComputeOp, rows: set[AffineExpr]) -> bool:
    """Whether a bound is about an axis that is folded: what lies past it must not be added."""
    folded = {AffineDimExpr(n) for n, reduced in enumerate(leaf.reductions) if reduced}
    return bool(rows & folded)
