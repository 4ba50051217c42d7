"""Plans of groups with a sliding window: nests without tests, for the middle and for each edge."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir.affine import AffineExpr

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.windows import WindowAxis, windows_of
from wia_compiler.passes.affine import range_of, simplify
from wia_compiler.passes.nests.anchored import AnchoredNest, anchors_of
from wia_compiler.passes.nests.movement import Index
from wia_compiler.passes.nests.pieces import Part, Piece
from wia_compiler.passes.nests.plan import Axis, Group, NestPlan, Result, fresh_name
from wia_compiler.passes.nests.rows import fold_rows

MOST_EDGES = 12
"""Nests of one window; where there would be more, edges share one that tests each element."""
_TAP_NAMES = "rst"


def plan_windows(group: Group, *, masks_edges: bool = False) -> tuple[list[NestPlan], list[Result]]:
    """The nests of a group with one sliding window, and the results that do not depend on it.

    ::

        for i.0 in 5, for j.0 in 5:
          m = register           map m[i, j] = -inf
          reduce m[i, j] = max(m[i, j], x[i * 2 + r - 1, j * 2 + s - 1])   over r, s
          map out[i, j] = m[i, j]

    Where a window reaches into padding, only the taps inside the array are folded: each row and
    column of the result at an edge is a nest of its own, with fewer taps. Wide edges are one nest,
    whose bounds leave taps out element by element; so is all of it for a target that
    ``masks_edges``.
    """
    (op,) = anchors_of(group)
    windows = windows_of(op.values)
    operand = spec_of(op.arguments[0].type).shape
    plans: list[NestPlan] = []
    others: list[Result] = []
    whole = Piece.whole(op.result_spec.shape)
    lengths = operand[-len(windows) :]
    for piece, taps in _pieces(whole, windows, lengths, masks_edges=masks_edges):
        axes, index = piece.axes(), piece.index()
        made, inner, tap = _tap_axes(axes, taps)
        part = (piece.num_elements, whole.num_elements)
        nest = AnchoredNest(group, [*axes, *made], part=part)
        place = _place(index, windows, tap)
        bounds = _bounds(place, operand, nest.plan.sizes)
        (register,), _ = fold_rows(nest, [op], place, inner, bounds)
        nest.anchor(op, register, index)
        plan, others = nest.finish({})
        plans.append(plan)
    return plans, others


@dataclass(frozen=True)
class Taps:
    """Elements of a window along one axis: ``count`` of them from number ``first``."""

    first: int
    count: int


def _tap_axes(
    axes: Sequence[Axis], taps: Sequence[Taps]
) -> tuple[list[Axis], tuple[int, ...], list[AffineExpr]]:
    """The axes of a window, their positions, and the number of the tap along each."""
    made: list[Axis] = []
    numbers: list[AffineExpr] = []
    for each in taps:
        if each.count == 1:
            numbers.append(AffineExpr.constant(each.first))
            continue
        taken = [axis.name for axis in (*axes, *made)]
        numbers.append(AffineExpr.dimension(len(taken)) + each.first)
        made.append(Axis(fresh_name(taken, _TAP_NAMES), each.count, "inner"))
    return made, tuple(range(len(axes), len(axes) + len(made))), numbers


def _place(index: Index, windows: Sequence[WindowAxis], taps: Sequence[AffineExpr]) -> Index:
    """Where in the operand a tap of the window at an index of the result reads."""
    kept = len(index) - len(windows)
    slid = (
        simplify(each * window.stride + tap * window.dilation - window.before)
        for each, window, tap in zip(index[kept:], windows, taps, strict=True)
    )
    return (*index[:kept], *slid)


def _bounds(
    place: Index, operand: Sequence[int], sizes: Sequence[int]
) -> list[tuple[AffineExpr, int]]:
    """The expressions that may leave the operand, each with its axis's size."""
    found: list[tuple[AffineExpr, int]] = []
    for each, size in zip(place, operand, strict=True):
        extent = range_of(each, [(0, max(length - 1, 0)) for length in sizes])
        assert extent is not None
        if extent[0] < 0 or extent[1] >= size:
            found.append((each, size))
    return found


def _pieces(
    whole: Piece, windows: Sequence[WindowAxis], lengths: Sequence[int], *, masks_edges: bool
) -> list[tuple[Piece, tuple[Taps, ...]]]:
    """The result in parts, each with the taps that its windows have.

    The middle, where no window leaves the operand, and for each row at an edge a part; or, where
    these are too many, the middle and edges as wide as they are. All of it is one part where the
    middle is less than half of it, or the target ``masks_edges``.
    """
    if not whole.num_elements:
        return []
    kept = len(whole.parts) - len(windows)
    everything = tuple(Taps(0, window.size) for window in windows)
    if masks_edges:
        return [(whole, everything)]
    columns = [
        _divided(whole.parts[axis].size, window, length)
        for axis, (window, length) in enumerate(zip(windows, lengths, strict=True), start=kept)
    ]
    middle = [column[0][0] for column in columns]
    if 2 * math.prod(part.size for part in middle) < math.prod(
        part.size for part in whole.parts[kept:]
    ):
        return [(whole, everything)]
    leading = whole.parts[:kept]
    if math.prod(len(column) for column in columns) <= MOST_EDGES:
        return [
            (Piece((*leading, *(part for part, _ in each))), tuple(taps for _, taps in each))
            for each in itertools.product(*columns)
            if all(part.size for part, _ in each)
        ]
    return [(piece, everything) for piece in _frame(whole, middle, kept)]


def _divided(count: int, window: WindowAxis, length: int) -> list[tuple[Part, Taps]]:
    """The parts of one axis: its middle first, then each element at an edge."""
    first = min(-(-window.before // window.stride), count)
    last = (length - window.reach + window.before) // window.stride
    end = max(min(last + 1, count), first)
    parts = [(Part(first, 1, end - first), Taps(0, window.size))]
    for place in (*range(first), *range(end, count)):
        start = place * window.stride - window.before
        low = max(-(start // window.dilation), 0)
        high = min((length - 1 - start) // window.dilation, window.size - 1)
        parts.append((Part(place, 1, 1), Taps(low, max(high - low + 1, 0))))
    return parts


def _frame(whole: Piece, middle: Sequence[Part], kept: int) -> list[Piece]:
    """The middle and, before and after it along each axis, all that is left there."""
    inside, edges = whole, list[Piece]()
    for axis, part in enumerate(middle, start=kept):
        end = part.start + part.size
        for start, stop in ((0, part.start), (end, whole.parts[axis].size)):
            if stop > start:
                edges.append(_with_part(inside, axis, Part(start, 1, stop - start)))
        inside = _with_part(inside, axis, part)
    return [inside, *edges]


def _with_part(piece: Piece, axis: int, part: Part) -> Piece:
    return Piece((*piece.parts[:axis], part, *piece.parts[axis + 1 :]))
