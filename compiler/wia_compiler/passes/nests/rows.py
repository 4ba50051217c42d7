"""Plans of groups with reductions: loops over the kept axes, a pass over the row for each level.

A reduction's level is how many reductions its input depends on; those of one level share a leaf.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from wia_compiler.base.dtypes import DTYPES, I64, DType
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.dialects.wia.rules import normalize_axes
from wia_compiler.passes.affine import simplify
from wia_compiler.passes.nests.anchored import AnchoredNest, accumulator_of, anchors_of
from wia_compiler.passes.nests.body import scalar_type
from wia_compiler.passes.nests.casts import cast_scalar
from wia_compiler.passes.nests.movement import ZERO, Index, kind_of
from wia_compiler.passes.nests.plan import (
    Access,
    Axis,
    Group,
    LeafPlan,
    NestPlan,
    Register,
    Result,
    domain_index,
    fresh_name,
)
from wia_compiler.passes.nests.reader import LeafReading
from wia_compiler.passes.nests.refusal import NotOneNest
from wia_compiler.passes.nests.views import row_major


@dataclass(frozen=True)
class Fold:
    """How a reduction combines, for floats, signed and unsigned; what its buffer is called."""

    buffer: str
    float_op: type[arith.FloatingPointLikeBinaryOperation]
    signed_op: type[arith.SignlessIntegerBinaryOperation]
    unsigned_op: type[arith.SignlessIntegerBinaryOperation]

    def combine(self, dtype: DType, held: SSAValue, element: SSAValue) -> Operation:
        """The op that combines what is held with an element."""
        if dtype.is_float:
            return self.float_op(held, element)
        return (self.signed_op if dtype.kind == "int" else self.unsigned_op)(held, element)


FOLDS = {
    "reduce_sum": Fold("sum", arith.AddfOp, arith.AddiOp, arith.AddiOp),
    "reduce_prod": Fold("product", arith.MulfOp, arith.MuliOp, arith.MuliOp),
    "reduce_max": Fold("max", arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp),
    "reduce_min": Fold("min", arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp),
}


EXTREMES = ("argmax", "argmin")
"""Reductions that find a place: two folds each."""


def first_value(name: str, dtype: DType) -> int | float:
    """What a reduction of no elements is; of max and min, what every element replaces."""
    if name in ("reduce_sum", "reduce_prod"):
        return int(name == "reduce_prod")
    lowest = name == "reduce_max"
    if dtype.is_float:
        return -math.inf if lowest else math.inf
    signed = dtype.kind == "int"
    smallest = -(1 << (dtype.bits - 1)) if signed else 0
    largest = (1 << (dtype.bits - 1 if signed else dtype.bits)) - 1
    return smallest if lowest else largest


def fold_of(op: TensorOp) -> str:
    """The name in ``FOLDS`` of what a reduction or a sliding window folds by."""
    name = kind_of(op)
    return f"reduce_{op.values['kind']}" if name == "reduce_window" else name


def plan_rows(group: Group) -> tuple[NestPlan, list[Result]]:
    """One nest for a group with reductions, and the results that do not depend on them.

    ::

        for i.0 in 8:
          m = register          map m[i] = -inf      reduce m[i] = max(m[i], x[i, j])     over j
          s = register          map s[i] = 0         reduce s[i] += exp(x[i, j] - m[i])   over j
          map out[i, j] = exp(x[i, j] - m[i]) / s[i]
    """
    reductions = anchors_of(group)
    shape, folded = _domain(reductions)
    axes: list[Axis] = []
    positions: dict[int, int] = {}
    for axis, size in enumerate(shape):
        if size != 1:
            positions[axis] = len(axes)
            name = fresh_name([each.name for each in axes])
            axes.append(Axis(name, size, "inner" if axis in folded else "kept"))
    nest = AnchoredNest(group, axes)
    index = domain_index(shape, positions)
    inner = tuple(positions[axis] for axis in folded if axis in positions)
    also: dict[SSAValue, Index] = {}
    for level in _levels(group, reductions):
        folds = [op for op in level if fold_of(op) in FOLDS]
        if folds:
            registers, read = fold_rows(nest, folds, index, inner)
            also |= dict.fromkeys(read, index)
        else:
            registers = []
        extremes = [op for op in level if fold_of(op) not in FOLDS]
        registers += find_extremes(nest, extremes, index, folded, inner)
        for op, register in zip([*folds, *extremes], registers, strict=True):
            nest.anchor(op, register, _reduced_index(op, index, folded))
    return nest.finish(also)


def fold_rows(
    nest: AnchoredNest,
    ops: Sequence[TensorOp],
    index: Index,
    inner: tuple[int, ...],
    bounds: Sequence[tuple[AffineExpr, int]] = (),
) -> tuple[list[Register], list[SSAValue]]:
    """Fold the operands of ``ops`` at ``index`` in one leaf: registers, and values that it has."""
    registers = [nest.register(op, FOLDS[fold_of(op)].buffer, accumulator_of(op)) for op in ops]
    firsts = [first_value(fold_of(op), r.dtype) for op, r in zip(ops, registers, strict=True)]
    if not all(nest.plan.axes[axis].size for axis in inner):
        nest.fill(registers, firsts)
        return registers, []
    reading = nest.read([(op.arguments[0], index) for op in ops])
    nest.fill(registers, firsts)
    folds = [FOLDS[fold_of(op)] for op in ops]
    nest.plan.leaves.append(reduce_leaf(reading, ops, folds, registers, inner, bounds))
    return registers, reading.values_at(index)


def find_extremes(
    nest: AnchoredNest,
    ops: Sequence[TensorOp],
    index: Index,
    folded: Sequence[int],
    inner: tuple[int, ...],
) -> list[Register]:
    """Where the extreme of each row of ``argmax`` and ``argmin`` stands.

    ::

        reduce max[i] = max(max[i], x[i, j])
        reduce place[i] = min(place[i], x[i, j] == max[i] or x[i, j] is NaN ? j : no place)
    """
    found: list[Register] = []
    for op in ops:
        fold = "reduce_max" if kind_of(op) == "argmax" else "reduce_min"
        shape = spec_of(op.arguments[0].type).shape
        dtype = DTYPES[spec_of(op.arguments[0].type).dtype.accumulator]
        best = nest.register(op, FOLDS[fold].buffer, dtype)
        place = nest.register(op, "place", I64)
        reading = nest.read([(op.arguments[0], index)])
        nest.fill([best, place], [first_value(fold, dtype), (1 << 63) - 1])
        leaf = reduce_leaf(reading, [op], [FOLDS[fold]], [best], inner)
        strides = row_major([shape[axis] for axis in folded])
        terms = (index[axis] * stride for axis, stride in zip(folded, strides, strict=True))
        position = simplify(sum(terms, ZERO))
        second = nest.read([(op.arguments[0], index)])
        nest.plan.leaves += [leaf, _place_leaf(second, op, best, place, position, inner)]
        found.append(place)
    return found


def _place_leaf(
    reading: LeafReading,
    op: TensorOp,
    best: Register,
    place: Register,
    position: AffineExpr,
    inner: tuple[int, ...],
) -> LeafPlan:
    """The leaf that finds the first position at which an element is the row's extreme or NaN."""
    body = reading.body
    reading.at(op)
    dtype = spec_of(op.arguments[0].type).dtype
    element = cast_scalar(body, reading.roots[0], dtype, best.dtype)
    extreme = reading.access(Access(best), best.name)
    here = reading.position(position)
    if best.dtype.is_float:
        equal = body.compare("oeq", element, extreme)
        matches = body.add(arith.OrIOp(equal, body.compare("une", element, element)))
    else:
        matches = body.compare("eq", element, extreme)
    candidate = body.select(matches, here, body.constant((1 << 63) - 1, I64))
    held = body.argument(scalar_type(I64), place.name)
    first = body.add(arith.MinSIOp(held, candidate))
    return LeafPlan(
        "reduce",
        inner,
        inner,
        reading.inputs,
        [Access(place)],
        body.finish([first]),
        list(dict.fromkeys([op, *reading.ops])),
        tables=reading.tables,
    )


def _domain(reductions: Sequence[TensorOp]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape that all reductions fold, and the axes they fold."""
    found = {
        (spec.shape, normalize_axes(op.values["dim"], spec))
        for op, spec in ((op, spec_of(op.arguments[0].type)) for op in reductions)
    }
    if len(found) != 1:
        raise NotOneNest("reductions of one nest fold the same axes of the same shape")
    return found.pop()


def _levels(group: Group, reductions: Sequence[TensorOp]) -> list[list[TensorOp]]:
    """The reductions by how many reductions lie before them."""
    depth: dict[SSAValue, int] = {}
    levels: list[list[TensorOp]] = []
    for op in group.ops:
        before = max((depth.get(operand, 0) for operand in op.operands), default=0)
        depth[op.results[0]] = before
        if op in reductions:
            depth[op.results[0]] = before + 1
            if before == len(levels):
                levels.append([])
            levels[before].append(op)  # pyright: ignore[reportArgumentType]
    return levels


def _reduced_index(op: TensorOp, index: Index, folded: Sequence[int]) -> Index:
    if op.values["keepdim"]:
        return tuple(ZERO if axis in folded else each for axis, each in enumerate(index))
    return tuple(each for axis, each in enumerate(index) if axis not in folded)


def reduce_leaf(
    reading: LeafReading,
    ops: Sequence[TensorOp],
    folds: Sequence[Fold],
    registers: Sequence[Register],
    inner: tuple[int, ...],
    bounds: Sequence[tuple[AffineExpr, int]] = (),
) -> LeafPlan:
    """The leaf that folds what was read, one root for each op."""
    body = reading.body
    held = [body.argument(scalar_type(r.dtype), r.name) for r in registers]
    folded: list[SSAValue] = []
    rows = zip(ops, folds, registers, held, reading.roots, strict=True)
    for op, fold, register, old, element in rows:
        reading.at(op)
        dtype = spec_of(op.arguments[0].type).dtype
        wide = cast_scalar(body, element, dtype, register.dtype)
        folded.append(body.add(fold.combine(register.dtype, old, wide)))
    return LeafPlan(
        "reduce",
        inner,
        inner,
        reading.inputs,
        [Access(register) for register in registers],
        body.finish(folded),
        list(dict.fromkeys([*ops, *reading.ops])),
        bounds,
        reading.tables,
    )
