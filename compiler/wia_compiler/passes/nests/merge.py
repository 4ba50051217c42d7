"""Joining axes: neighbours that every array walks contiguously become one axis.

``out[i, j] = a[i, j] + 1`` over 8 × 3 is one loop of 24, so that a short inner axis does not keep
code from being vectorised, and a matmul with leading batch axes on one side is one matmul.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir.affine import AffineDimExpr, AffineExpr

from wia_compiler.passes.affine import atoms, linear_form, simplify
from wia_compiler.passes.nests.plan import (
    Access,
    Axis,
    LeafPlan,
    NestPlan,
    Positions,
    Register,
)
from wia_compiler.passes.nests.views import View, view


@dataclass(frozen=True)
class Walk:
    """How an access moves through memory: elements per step of each axis it reads.

    ``strides`` is ``None`` where that is not a constant, or where the indices themselves matter
    (padding); ``axes`` are then the axes that must stay as they are.
    """

    axes: frozenset[int]
    strides: Mapping[int, int] | None


def merge_axes(plan: NestPlan) -> NestPlan:
    """The nest with every mergeable run of neighbouring axes of one role as one axis.

    ::

        for i.0 in 8, for j.0 in 3: map out[i, j] = f(a[i, j])
          →  for i.0 in 24: map out[i] = f(a[i])
    """
    walks = [
        _walk(access, plan.axes)
        for leaf in plan.leaves
        for access in (*leaf.inputs, *leaf.outputs)
        if not isinstance(access.buffer, Register)
    ]
    walks += [Walk(_dims_of([bound]), None) for leaf in plan.leaves for bound, _ in leaf.bounds]
    runs: list[list[int]] = []
    for axis in range(len(plan.axes)):
        if runs and _joins(plan, walks, runs[-1][-1], axis):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    if len(runs) == len(plan.axes):
        return plan
    axes = [_joined_axis([plan.axes[axis] for axis in run]) for run in runs]
    place = {axis: number for number, run in enumerate(runs) for axis in run}
    leaves = [_moved_leaf(leaf, plan, runs, axes, place) for leaf in plan.leaves]
    return NestPlan(axes, leaves, plan.registers)


def _walk(access: Access, axes: Sequence[Axis]) -> Walk:
    array = access.buffer
    assert not isinstance(array, Register)
    read = _dims_of(access.index)
    forms = [linear_form(expression) for expression in access.index]
    plain = all(form.is_linear and form.constant == 0 for form in forms)
    if access.padded or not plain:
        return Walk(read, None)
    strides = dict.fromkeys(read, 0)
    steps = array.strides if isinstance(array, View) else (1,)
    for form, stride in zip(forms, steps, strict=True):
        for atom, factor in form.terms.items():
            assert isinstance(atom, AffineDimExpr)
            strides[atom.position] += factor * stride
    return Walk(read, strides)


def _dims_of(index: Sequence[AffineExpr]) -> frozenset[int]:
    read = (atom for expression in index for atom in atoms(expression))
    return frozenset(atom.position for atom in read if isinstance(atom, AffineDimExpr))


def _joins(plan: NestPlan, walks: Sequence[Walk], outer: int, inner: int) -> bool:
    size = plan.axes[inner].size
    if plan.axes[outer].role != plan.axes[inner].role or 0 in (size, plan.axes[outer].size):
        return False
    if any((outer in leaf.inner) != (inner in leaf.inner) for leaf in plan.leaves):
        return False
    if any((outer in leaf.reduce) != (inner in leaf.reduce) for leaf in plan.leaves):
        return False
    for walk in walks:
        if walk.strides is None:
            if outer in walk.axes or inner in walk.axes:
                return False
        elif walk.strides.get(outer, 0) != walk.strides.get(inner, 0) * size:
            return False
    return True


def _joined_axis(axes: Sequence[Axis]) -> Axis:
    """A run as one axis, under its first name; rows of a matmul stay ``i`` with batches joined."""
    names = [axis.name for axis in axes]
    name = "i" if "i" in names else names[0]
    return Axis(name, math.prod(axis.size for axis in axes), axes[0].role)


def _moved_leaf(
    leaf: LeafPlan,
    plan: NestPlan,
    runs: Sequence[Sequence[int]],
    axes: Sequence[Axis],
    place: Mapping[int, int],
) -> LeafPlan:
    dims = [AffineExpr.dimension(place[axis]) for axis in range(len(plan.axes))]

    def moved(access: Access) -> Access:
        if isinstance(access.buffer, Register):
            return access
        walk = _walk(access, plan.axes)
        if all(len(runs[place[axis]]) == 1 for axis in walk.axes):
            index = tuple(e.replace_dims_and_symbols(dims, ()) for e in access.index)
            return Access(access.buffer, index, access.padded)
        return _flattened(access, walk, runs, axes, place)

    return LeafPlan(
        leaf.kind,
        tuple(dict.fromkeys(place[axis] for axis in leaf.inner)),
        tuple(dict.fromkeys(place[axis] for axis in leaf.reduce)),
        [moved(access) for access in leaf.inputs],
        [moved(access) for access in leaf.outputs],
        leaf.body,
        leaf.ops,
        [(bound.replace_dims_and_symbols(dims, ()), limit) for bound, limit in leaf.bounds],
        leaf.tables,
        leaf.is_ordered,
        leaf.multiplies,
    )


def _flattened(
    access: Access,
    walk: Walk,
    runs: Sequence[Sequence[int]],
    axes: Sequence[Axis],
    place: Mapping[int, int],
) -> Access:
    """The access through a view with one dimension for each joined axis it moves along."""
    array = access.buffer
    assert not isinstance(array, Register) and walk.strides is not None
    read = [
        atom.position
        for expression in access.index
        for atom in linear_form(expression).terms
        if isinstance(atom, AffineDimExpr)
    ]
    new_axes = dict.fromkeys(place[axis] for axis in read)
    # A run whose last axis the access does not read is one along which it stands still.
    strides = {new: walk.strides.get(runs[new][-1], 0) for new in new_axes}
    walked = [new for new in new_axes if strides[new]]
    if isinstance(array, Positions):
        steps = (AffineExpr.dimension(new) * strides[new] for new in walked)
        return Access(array, (simplify(sum(steps, AffineExpr.constant(0))),))
    flat = view(
        array.value,
        [axes[new].size for new in walked],
        array.dtype,
        [strides[new] for new in walked],
    )
    return Access(flat, tuple(AffineExpr.dimension(new) for new in walked))
