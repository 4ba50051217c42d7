"""Plans of groups with a sliding window: the middle of the result without tests, edges with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir.affine import AffineExpr

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.windows import WindowAxis, windows_of
from wia_compiler.passes.affine import range_of, simplify
from wia_compiler.passes.nests.anchored import AnchoredNest, anchors_of
from wia_compiler.passes.nests.movement import Index
from wia_compiler.passes.nests.pieces import Part, Piece
from wia_compiler.passes.nests.plan import Axis, Group, NestPlan, Result, fresh_name
from wia_compiler.passes.nests.rows import fold_rows

_TAP_NAMES = "rst"


def plan_windows(group: Group) -> tuple[list[NestPlan], list[Result]]:
    """The nests of a group with one sliding window, and the results that do not depend on it.

    ::

        for i.0 in 5, for j.0 in 5:
          m = register           map m[i, j] = -inf
          reduce m[i, j] = max(m[i, j], x[i * 2 + r - 1, j * 2 + s - 1])   over r, s
          map out[i, j] = m[i, j]

    A window that reaches into padding has bounds: what they leave out takes no part. Where most
    of the result needs none, the edges are nests of their own.
    """
    (op,) = anchors_of(group)
    windows = windows_of(op.values)
    operand = spec_of(op.arguments[0].type).shape
    plans: list[NestPlan] = []
    others: list[Result] = []
    whole = Piece.whole(op.result_spec.shape)
    for piece in _pieces(whole, windows, operand[-len(windows) :]):
        axes, index = piece.axes(), piece.index()
        taps, inner = _taps(axes, windows)
        part = (piece.num_elements, whole.num_elements)
        nest = AnchoredNest(group, [*axes, *taps.made], part=part)
        place = _place(index, windows, taps.index)
        bounds = _bounds(place, operand, nest.plan.sizes)
        (register,), _ = fold_rows(nest, [op], place, inner, bounds)
        nest.anchor(op, register, index)
        plan, others = nest.finish({})
        plans.append(plan)
    return plans, others


class _Taps:
    """The axes of a window: their index along each windowed axis."""

    def __init__(self) -> None:
        self.made: list[Axis] = []
        self.index: list[AffineExpr] = []


def _taps(axes: Sequence[Axis], windows: Sequence[WindowAxis]) -> tuple[_Taps, tuple[int, ...]]:
    taps = _Taps()
    for window in windows:
        if window.size == 1:
            taps.index.append(AffineExpr.constant(0))
            continue
        taken = [axis.name for axis in (*axes, *taps.made)]
        taps.index.append(AffineExpr.dimension(len(taken)))
        taps.made.append(Axis(fresh_name(taken, _TAP_NAMES), window.size, "inner"))
    return taps, tuple(range(len(axes), len(axes) + len(taps.made)))


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


def _pieces(whole: Piece, windows: Sequence[WindowAxis], lengths: Sequence[int]) -> list[Piece]:
    """The result in parts: the middle, where no window leaves the operand, and edges around it.

    All of it is one part where the middle is less than half of it.
    """
    kept = len(whole.parts) - len(windows)
    middle, edges = whole, list[Piece]()
    for axis, (window, length) in enumerate(zip(windows, lengths, strict=True), start=kept):
        count = whole.parts[axis].size
        first = min(-(-window.before // window.stride), count)
        last = (length - window.reach + window.before) // window.stride
        end = max(min(last + 1, count), first)
        for start, stop in ((0, first), (end, count)):
            if stop > start:
                edges.append(_with_part(middle, axis, Part(start, 1, stop - start)))
        middle = _with_part(middle, axis, Part(first, 1, end - first))
    if not whole.num_elements:
        return []
    if middle.num_elements * 2 < whole.num_elements:
        return [whole]
    return [middle, *edges]


def _with_part(piece: Piece, axis: int, part: Part) -> Piece:
    return replace(piece, parts=(*piece.parts[:axis], part, *piece.parts[axis + 1 :]))
