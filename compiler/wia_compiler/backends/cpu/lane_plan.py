"""Which leaves a CPU walks in vectors, and how: the axis along the lanes, the order of the others.

Unlike a register tile (``vector_plan.py``), such a leaf may have any number of points: loops walk
it, whole vectors first and then one with a mask. Every operand either lies dense along the lanes,
forwards or backwards, or is the same in all of them; a position is a row of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, MemRefType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from wia_compiler.backends.cpu.vector_plan import Condition, element_bytes
from wia_compiler.dialects.leaf_hints import noted_lanes
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.dialects.tile_places import PositionsOp
from wia_compiler.passes.affine import atoms, linear_form, range_of
from wia_compiler.passes.emit_leaf import LeafContext, fold_op, is_carried, is_folded_into
from wia_compiler.passes.llvm.types import strides_of

Access = Literal["dense", "backwards", "same", "position"]

FOLDS = (
    *(arith.AddfOp, arith.MulfOp, arith.MaximumfOp, arith.MinimumfOp),
    *(arith.AddiOp, arith.MuliOp, arith.MaxSIOp, arith.MinSIOp, arith.MaxUIOp, arith.MinUIOp),
)
"""Ops whose partial results lanes can hold: each has a neutral element."""

_SCALAR_BODY = ("tile.lookup", "arith.remf", "arith.index_cast")
"""Body ops that have no form for vectors; so have sin and cos of f64, which branch."""
_BRANCHING = ("math.sin", "math.cos")


@dataclass(frozen=True)
class LanePlan:
    """How a leaf is walked.

    ``axis`` runs along ``lanes`` at a time. ``outer`` are the axes whose loops stand around that of
    the lanes, outermost first; ``inner`` those inside it (folds down columns). ``accesses`` has an
    entry for each input and output, ``ends`` what cuts each axis off.
    """

    context: LeafContext
    axis: int
    lanes: int
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    accesses: tuple[Access, ...]
    ends: dict[int, tuple[Condition, ...]]

    @property
    def leaf(self) -> ComputeOp:
        """The leaf."""
        return self.context.leaf

    @property
    def folds_lanes(self) -> bool:
        """Whether the lanes hold parts of one result."""
        return self.leaf.reductions[self.axis]


def plan_lanes(context: LeafContext, vector_bytes: int) -> LanePlan | None:
    """How to walk a leaf in vectors of ``vector_bytes``; ``None`` where its points are scalars."""
    leaf = context.leaf
    if leaf.kind.data not in ("map", "copy", "reduce") or not leaf.outputs:
        return None
    if not has_vector_body(leaf) or _is_padded(context):
        return None
    whole = vector_bytes // element_bytes(leaf)
    best: tuple[tuple[int, ...], LanePlan] | None = None
    wanted = noted_lanes(leaf)
    for axis, size in enumerate(leaf.sizes):
        if wanted is not None:
            if leaf.axis_names[axis] != wanted[0]:
                continue
            whole = wanted[1]
        lanes = min(whole, 1 << max(0, size - 1).bit_length())
        plan = _along(context, axis, lanes) if lanes > 1 else None
        if plan is None:
            continue
        dense = sum(each in ("dense", "position") for each in plan.accesses)
        backwards = sum(each == "backwards" for each in plan.accesses)
        score = (min(size, whole), dense, backwards, axis)
        if best is None or score > best[0]:
            best = score, plan
    return None if best is None else best[1]


def lies_along(leaf: ComputeOp, axis: str) -> bool:
    """Whether vectors can run along an axis of a leaf, however few points of it the leaf takes."""
    if axis not in leaf.axis_names or not has_vector_body(leaf):
        return False
    number = leaf.axis_names.index(axis)
    operands = (*leaf.inputs, *leaf.outputs)
    maps = (*leaf.input_maps, *leaf.output_maps)
    accesses = [_access(v, each, number) for v, each in zip(operands, maps, strict=True)]
    if any(access is None for access in accesses):
        return False
    return _outputs_fit(leaf, number, cast("list[Access]", accesses[len(leaf.inputs) :]))


def _along(context: LeafContext, axis: int, lanes: int) -> LanePlan | None:
    """The plan with the lanes along one axis."""
    leaf = context.leaf
    accesses: list[Access] = []
    operands = (*leaf.inputs, *leaf.outputs)
    maps = (*leaf.input_maps, *leaf.output_maps)
    for value, each in zip(operands, maps, strict=True):
        access = _access(value, each, axis)
        if access is None:
            return None
        accesses.append(access)
    folded = [number for number, reduced in enumerate(leaf.reductions) if reduced]
    kept = [number for number in range(len(leaf.sizes)) if number not in folded]
    if not _outputs_fit(leaf, axis, accesses[len(leaf.inputs) :]):
        return None
    if leaf.reductions[axis]:
        outer = [*kept, *(each for each in folded if each != axis)]
        inner: list[int] = []
    else:
        outer, inner = [each for each in kept if each != axis], folded
    walked = [number for number in (*outer, axis, *inner) if leaf.sizes[number] > 1]
    ends = _ends(context, axis, walked)
    if ends is None:
        return None
    return LanePlan(context, axis, lanes, tuple(outer), tuple(inner), tuple(accesses), ends)


def _outputs_fit(leaf: ComputeOp, axis: int, accesses: Sequence[Access]) -> bool:
    """Whether each output is one element a lane, or one result that all lanes fold."""
    for output, access in enumerate(accesses):
        if leaf.folds and is_folded_into(leaf, output):
            if not isinstance(fold_op(leaf, output), FOLDS) or not is_carried(leaf, output):
                return False
            if _element(leaf.outputs[output]) == i1 or leaf.is_ordered:
                return False
            if (access == "same") != leaf.reductions[axis]:
                return False
        elif access == "same":
            return False
    return True


def steps_along(leaf: ComputeOp, axis: str) -> tuple[int, ...] | None:
    """How far apart in memory neighbours along an axis are, for each input and output.

    ``None`` where that is not the same all along the axis.
    """
    number = leaf.axis_names.index(axis)
    operands = (*leaf.inputs, *leaf.outputs)
    maps = (*leaf.input_maps, *leaf.output_maps)
    found = [_step(value, each, number) for value, each in zip(operands, maps, strict=True)]
    return None if None in found else tuple(step for step in found if step is not None)


def _step(value: SSAValue, each: AffineMap, axis: int) -> int | None:
    own = AffineDimExpr(axis)
    forms = [linear_form(result) for result in each.results]
    if any(own in atoms(atom) and atom != own for form in forms for atom in form.terms):
        return None
    strides = strides_of(cast("MemRefType[Attribute]", value.type))
    return sum(stride * form.terms.get(own, 0) for stride, form in zip(strides, forms, strict=True))


def _access(value: SSAValue, each: AffineMap, axis: int) -> Access | None:
    """How an operand lies along an axis; ``None`` where it jumps."""
    step = _step(value, each, axis)
    if step is not None and isinstance(value.owner, PositionsOp):
        return "position" if step else "same"
    match step:
        case 1:
            return "dense"
        case -1:
            return "backwards"
        case 0:
            return "same"
        case _:
            return None


def _ends(
    context: LeafContext, axis: int, walked: Sequence[int]
) -> dict[int, tuple[Condition, ...]] | None:
    """The bounds by the axis whose loop they end, the innermost they read; ``None`` if unknown."""
    leaf = context.leaf
    found: dict[int, list[Condition]] = {}
    for expression, limit in zip(leaf.bounds.data.results, leaf.limit_values, strict=True):
        if context.is_within(expression, limit):
            continue
        form = linear_form(expression)
        inside = [number for number in walked if AffineDimExpr(number) in atoms(expression)]
        span = range_of(expression, context.dim_ranges, context.symbol_ranges)
        if not form.is_linear or not inside or span is None or span[0] < 0:
            return None
        if form.terms[AffineDimExpr(inside[-1])] != 1:
            return None
        found.setdefault(inside[-1], []).append(Condition(expression, limit))
    return {number: tuple(conditions) for number, conditions in found.items()}


def has_vector_body(leaf: ComputeOp) -> bool:
    """Whether every op of a leaf's body has a form for vectors."""
    for op in leaf.body.block.ops:
        if op.name in _SCALAR_BODY or not op.name.startswith(("arith.", "math.", "tile.yield")):
            return False
        if op.name in _BRANCHING and element_width(op.results[0].type) > 32:
            return False
    return True


def element_width(scalar: Attribute) -> int:
    """Bits of a scalar type."""
    if isinstance(scalar, IntegerType):
        return cast("IntegerType", scalar).width.data
    return getattr(scalar, "bitwidth", 64)


def _is_padded(context: LeafContext) -> bool:
    """Whether an input is read outside of its array, where it is 0."""
    leaf = context.leaf
    for value, each, padded in zip(leaf.inputs, leaf.input_maps, leaf.is_padded, strict=True):
        if not padded:
            continue
        shape = cast("MemRefType[Attribute]", value.type).get_shape()
        if not all(context.is_within(e, n) for e, n in zip(each.results, shape, strict=True)):
            return True
    return False


def _element(value: SSAValue) -> Attribute:
    return cast("MemRefType[Attribute]", value.type).element_type


def points_of(leaf: ComputeOp, axes: Sequence[int]) -> int:
    """How many points some axes have together."""
    return math.prod(leaf.sizes[axis] for axis in axes)


def flat_place(value: SSAValue, each: AffineMap) -> AffineExpr:
    """Where an operand's element lies, counted in elements from that at [0, 0, …]."""
    strides = strides_of(cast("MemRefType[Attribute]", value.type))
    total: AffineExpr = AffineExpr.constant(0)
    for stride, result in zip(strides, each.results, strict=True):
        total = total + result * stride
    return total
