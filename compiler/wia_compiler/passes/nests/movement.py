"""Index maps of movement ops: which element of the operand stands at an element of the result.

An index is a tuple of affine expressions over the axes of a nest. A partial index has ``None`` for
axes that nothing has fixed yet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.ir.affine import AffineExpr

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.dialects.wia.placement import cuts_of
from wia_compiler.passes.affine import floor_divide, modulo, simplify
from wia_compiler.passes.nests.refusal import NotOneNest
from wia_compiler.passes.nests.views import View, reshape_groups, row_major

Index = tuple[AffineExpr, ...]
PartialIndex = tuple[AffineExpr | None, ...]

ZERO = AffineExpr.constant(0)
MOVEMENT = ("reshape", "permute", "broadcast", "slice")
"""Ops whose element stands at an affine index of their one operand."""


def operand_index(op: TensorOp, index: Index, sizes: Sequence[int]) -> Index:
    """Where a movement op reads for the element of its result at ``index``."""
    shape = spec_of(op.arguments[0].type).shape
    match kind_of(op):
        case "permute":
            order = permutation(op)
            return tuple(index[order.index(axis)] for axis in range(len(order)))
        case "broadcast":
            return broadcast_index(index, shape)
        case "slice":
            cuts = cuts_of(spec_of(op.arguments[0].type), op.values)
            pairs = zip(index, cuts, strict=True)
            return tuple(simplify(each * cut.step + cut.start) for each, cut in pairs)
        case "reshape":
            moved = reshape_index(index, op.result_spec.shape, shape, sizes)
            return cast(Index, moved)
        case name:
            raise NotOneNest(f"{name} reads its operand at no one affine index")


def result_index(op: TensorOp, index: PartialIndex, sizes: Sequence[int]) -> PartialIndex:
    """Where in a movement op's result the element of its operand at ``index`` stands."""
    shape = spec_of(op.arguments[0].type).shape
    to = op.result_spec.shape
    match kind_of(op):
        case "permute":
            return tuple(index[axis] for axis in permutation(op))
        case "broadcast":
            padded = (ZERO,) * (len(to) - len(shape)) + index
            old = (1,) * (len(to) - len(shape)) + shape
            stretched = zip(padded, old, to, strict=True)
            return tuple(each if size == new else None for each, size, new in stretched)
        case "slice":
            raise NotOneNest("a part of a value is taken where one nest computes all of it")
        case "reshape":
            return reshape_index(index, shape, to, sizes)
        case name:
            raise NotOneNest(f"{name} follows a result that one nest computes")


def kind_of(op: TensorOp) -> str:
    """The op's name without its dialect."""
    return op.name.removeprefix("wia.")


def permutation(op: TensorOp) -> tuple[int, ...]:
    """The operand's axis at each axis of a permute's result."""
    dims = op.values["dims"]
    rank = len(op.result_spec.shape)
    return tuple(axis % rank for axis in cast("tuple[int, ...]", dims))


def broadcast_index(index: Index, shape: Sequence[int]) -> Index:
    """Where an operand of ``shape`` is read for a result's element, by numpy's broadcasting."""
    own = index[len(index) - len(shape) :]
    return tuple(ZERO if size == 1 else each for each, size in zip(own, shape, strict=True))


def reshape_index(
    index: PartialIndex, old: Sequence[int], new: Sequence[int], sizes: Sequence[int]
) -> PartialIndex:
    """The index into ``new`` of the element that stands at ``index`` in ``old``.

    ``sizes`` are those of the nest's axes, for simplification.
    """
    moved: list[AffineExpr | None] = [ZERO] * len(new)
    if math.prod(old) == 0:
        return tuple(moved)
    for before, after in reshape_groups(old, new):
        left = [axis for axis in before if old[axis] != 1]
        right = [axis for axis in after if new[axis] != 1]
        if len(left) == len(right) == 1:
            moved[right[0]] = index[left[0]]
            continue
        parts = [index[axis] for axis in left]
        if any(part is None for part in parts):
            for axis in right:
                moved[axis] = None
            continue
        strides = row_major([old[axis] for axis in left])
        linear = ZERO
        for part, stride in zip(cast("list[AffineExpr]", parts), strides, strict=True):
            linear = linear + part * stride
        _split(simplify(linear), right, new, sizes, moved)
    return tuple(moved)


def _split(
    linear: AffineExpr,
    axes: Sequence[int],
    shape: Sequence[int],
    sizes: Sequence[int],
    moved: list[AffineExpr | None],
) -> None:
    """Take a row-major position apart into indices of ``axes``."""
    strides = row_major([shape[axis] for axis in axes])
    for number, (axis, stride) in enumerate(zip(axes, strides, strict=True)):
        quotient = floor_divide(linear, stride, sizes) if stride != 1 else linear
        moved[axis] = quotient if number == 0 else modulo(quotient, shape[axis], sizes)


def moved_view(op: TensorOp, source: View) -> View | None:
    """A movement op's result as a view of its operand's memory, where strides can say so."""
    match kind_of(op):
        case "permute":
            return source.permuted(permutation(op))
        case "broadcast":
            return source.broadcast(op.result_spec.shape)
        case "reshape":
            return source.reshaped(op.result_spec.shape)
        case _:
            return None
