"""Plans of groups with reductions: loops over the kept axes, a pass over the row for each level.

A reduction's level is how many reductions its input depends on; those of one level share a leaf.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from wia_compiler.base.dtypes import DType
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.dialects.wia.rules import normalize_axes
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
        registers = [
            nest.register(op, FOLDS[kind_of(op)].buffer, accumulator_of(op)) for op in level
        ]
        firsts = [first_value(kind_of(op), r.dtype) for op, r in zip(level, registers, strict=True)]
        if all(axes[axis].size for axis in inner):
            reading = nest.read([(op.arguments[0], index) for op in level])
            nest.fill(registers, firsts)
            leaf = _reduce_leaf(reading, level, registers, inner)
            nest.plan.leaves.append(leaf)
            also |= dict.fromkeys(reading.values_at(index), index)
        else:
            nest.fill(registers, firsts)
        for op, register in zip(level, registers, strict=True):
            nest.anchor(op, register, _reduced_index(op, index, folded))
    return nest.finish(also)


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


def _reduce_leaf(
    reading: LeafReading,
    level: Sequence[TensorOp],
    registers: Sequence[Register],
    inner: tuple[int, ...],
) -> LeafPlan:
    """The leaf that folds what was read, one root for each reduction of a level."""
    body = reading.body
    held = [body.argument(scalar_type(r.dtype), r.name) for r in registers]
    folded: list[SSAValue] = []
    for op, register, old, element in zip(level, registers, held, reading.roots, strict=True):
        reading.at(op)
        dtype = spec_of(op.arguments[0].type).dtype
        wide = cast_scalar(body, element, dtype, register.dtype)
        folded.append(body.add(FOLDS[kind_of(op)].combine(register.dtype, old, wide)))
    return LeafPlan(
        "reduce",
        inner,
        inner,
        reading.inputs,
        [Access(register) for register in registers],
        body.finish(folded),
        list(dict.fromkeys([*level, *reading.ops])),
        tables=reading.tables,
    )
