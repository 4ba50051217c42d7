"""From a leaf's index map to the window of a tensor that a DMA moves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import MemRefType, NoneAttr
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)

from wia_compiler.backends.tpu.tile_axes import TileAxes
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.dialects.tpu.window import ONE_INDEX, WindowSpec
from wia_compiler.passes.affine import LinearForm, linear_form


class NotAWindow(Exception):
    """A map that no rectangle of rows and columns says; the message is the reason."""


def window_of(
    leaf: ComputeOp,
    affine: AffineMap,
    tensor: SSAValue,
    axes: TileAxes,
    ivs: Mapping[SSAValue, SSAValue],
) -> WindowSpec:
    """The part of ``tensor`` that ``leaf`` reads or writes through ``affine``.

    ``ivs`` maps the leaf's induction variables to those of the program. An axis of extent 1 is a
    single index; others must be the rows or the columns and walk the tensor in steps of 1.
    """
    shape = cast("MemRefType[Attribute]", tensor.type).get_shape()
    return _window(leaf, affine.results, shape, axes, ivs)


@dataclass(frozen=True)
class FlatView:
    """A tensor's memory under other sizes and strides, and the window to take of that."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    window: WindowSpec


def flat_view_of(
    leaf: ComputeOp,
    affine: AffineMap,
    tensor: SSAValue,
    axes: TileAxes,
    ivs: Mapping[SSAValue, SSAValue],
) -> FlatView:
    """The same part of a tensor in C order, by the positions of its elements in memory.

    That is what a reshape reads: ``A[i floordiv 5, i mod 5]`` of 6 × 5 elements is element ``i``,
    and ``A[5 * i + j]`` of 30 is element ``[i, j]`` of a view with strides 5 and 1.
    """
    type = cast("MemRefType[Attribute]", tensor.type)
    if not isinstance(type.layout, NoneAttr):
        raise NotAWindow("its elements do not lie in one row")
    place: AffineExpr = AffineExpr.constant(0)
    for expression, size in zip(affine.results, type.get_shape(), strict=True):
        place = place * size + expression
    form = _linear(leaf, _joined(place))
    if form.constant:
        raise NotAWindow(f"it is read from its element {form.constant} on")
    groups: dict[int, list[AffineExpr]] = {}
    for atom, factor in form.terms.items():
        if not isinstance(atom, AffineDimExpr) or leaf.sizes[atom.position] != 1:
            groups.setdefault(factor, []).append(atom)
    strides = tuple(sorted(groups, reverse=True)) or (1,)
    indices = [LinearForm(dict.fromkeys(groups.get(each, ()), 1), 0) for each in strides]
    shape = tuple(_size_of(leaf, index) for index in indices)
    results = [index.expression() for index in indices]
    return FlatView(shape, strides, _window(leaf, results, shape, axes, ivs))


def _size_of(leaf: ComputeOp, index: LinearForm) -> int:
    """How many values an index takes: up to its bound, else to the last of its loops and tile."""
    for bound, limit in zip(leaf.bounds.data.results, leaf.limit_values, strict=True):
        bounded = linear_form(bound)
        if dict(bounded.terms) == dict(index.terms):
            return limit - bounded.constant
    last = 0
    for atom in index.terms:
        if isinstance(atom, AffineDimExpr):
            last += leaf.sizes[atom.position] - 1
        elif isinstance(atom, AffineSymExpr):
            last += _last_value(leaf.ivs[atom.position])
    return last + 1


def _last_value(iv: SSAValue) -> int:
    loop = iv.owner.parent_op() if isinstance(iv.owner, Block) else None
    assert isinstance(loop, ForOp)
    return (loop.trip_count - 1) * loop.step.value.data


def _joined(expression: AffineExpr) -> AffineExpr:
    """``e floordiv n * n + e mod n`` is ``e``."""
    form = linear_form(expression)
    terms = dict(form.terms)
    for atom, factor in form.terms.items():
        if not (isinstance(atom, AffineBinaryOpExpr) and atom.kind == AffineBinaryOpKind.Mod):
            continue
        quotient = atom.lhs // atom.rhs
        size = atom.rhs
        if isinstance(size, AffineConstantExpr) and terms.get(quotient) == factor * size.value:
            del terms[atom], terms[quotient]
            rest = LinearForm(terms, form.constant).expression()
            return _joined(rest + atom.lhs * factor)
    return expression


def _window(
    leaf: ComputeOp,
    results: Sequence[AffineExpr],
    sizes: Sequence[int],
    axes: TileAxes,
    ivs: Mapping[SSAValue, SSAValue],
) -> WindowSpec:
    starts: list[AffineExpr] = []
    lengths: list[int] = []
    clips: list[bool] = []
    order: list[str] = []
    for expression, size in zip(results, sizes, strict=True):
        form = _linear(leaf, expression)
        walked = [
            atom.position
            for atom in form.terms
            if isinstance(atom, AffineDimExpr) and leaf.sizes[atom.position] != 1
        ]
        starts.append(_start(form))
        if not walked:
            lengths.append(ONE_INDEX)
            clips.append(False)
            continue
        (axis, *others) = walked
        if others or form.terms[AffineDimExpr(axis)] != 1:
            raise NotAWindow(f"its index {_said(leaf, expression)} does not go row by row")
        name = leaf.axis_names[axis]
        if name not in (axes.rows, axes.columns) or name in order:
            raise NotAWindow("its tile has other axes than rows and columns")
        order.append(name)
        lengths.append(leaf.sizes[axis])
        clips.append(_is_clipped(leaf, axis, form, size))
    # One run alone is a row, so a column of one is turned.
    transposed = order in ([axes.columns, axes.rows], [axes.rows])
    used = [ivs[iv] for iv in leaf.ivs]
    return WindowSpec(used, AffineMap(0, len(used), tuple(starts)), lengths, clips, transposed)


def _linear(leaf: ComputeOp, expression: AffineExpr) -> LinearForm:
    form = linear_form(expression)
    if not form.is_linear:
        raise NotAWindow(f"its index {_said(leaf, expression)} takes no rectangle of memory")
    if form.constant < 0 or any(factor < 0 for factor in form.terms.values()):
        raise NotAWindow(f"its index {_said(leaf, expression)} goes backwards")
    return form


def _said(leaf: ComputeOp, expression: AffineExpr) -> str:
    """An index in the names of the leaf's axes."""
    names = {f"d{number}": name for number, name in enumerate(leaf.axis_names)}
    names |= {f"s{number}": f"%{iv.name_hint}" for number, iv in enumerate(leaf.ivs)}
    return re.sub(r"\b[ds]\d+\b", lambda found: names[found[0]], str(expression))


def _start(form: LinearForm) -> AffineExpr:
    """The index at the leaf's first point: dims are 0."""
    terms: dict[AffineExpr, int] = {
        atom: n for atom, n in form.terms.items() if isinstance(atom, AffineSymExpr)
    }
    return LinearForm(terms, form.constant).expression()


def _is_clipped(leaf: ComputeOp, axis: int, form: LinearForm, size: int) -> bool:
    """Whether the tile may reach over the axis's end; the tensor must end there too."""
    dim = AffineDimExpr(axis)
    for bound, limit in zip(leaf.bounds.data.results, leaf.limit_values, strict=True):
        bounded = linear_form(bound)
        if dim not in bounded.terms:
            continue
        same = dict(bounded.terms) == dict(form.terms)
        if not same or size - form.constant != limit - bounded.constant:
            raise NotAWindow("the last tile along an axis ends inside the array")
        return True
    return False
