"""Schedules of folds and norms on a CPU: rows walked in vectors, pass after pass.

One leaf walks a whole row; sums wait in several vectors, so that an addition does not wait for the
one before. What several passes compute alike is kept. Where the arrays fill the last cache, results
are stored past it.
"""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.ir.affine import AffineSymExpr

from wia_compiler.backends.cpu.caches import Caches
from wia_compiler.backends.cpu.lane_access import size_of
from wia_compiler.backends.cpu.lane_plan import flat_place, lies_along, steps_along
from wia_compiler.backends.cpu.schedule_maps import bytes_of, stream_results, vectors_in_flight
from wia_compiler.backends.cpu.vector_plan import element_bytes
from wia_compiler.base.schedule import Directive, directive
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import linear_form
from wia_compiler.passes.schedule import Chosen
from wia_compiler.passes.scheduling.nest import arrays_of
from wia_compiler.passes.tile_rewrites import leaves_of, loops_of

ACCUMULATORS = 4
"""Partial sums of a fold: an addition takes some four cycles, and one or two start in each."""
_SHORT = 4
"""Rows of fewer vectors than so many for each accumulator gain nothing from several."""


def choose_rows(
    nest: func.FuncOp, keep: tuple[Directive, ...], vector_bytes: int, caches: Caches
) -> Chosen:
    """How to walk a nest of folds along rows; ``keep`` goes first."""
    leaves = leaves_of(nest)
    folds = [leaf for leaf in leaves if leaf.folds]
    directives = list(keep)
    axis = next((each for leaf in folds if (each := _row_axis(leaf)) is not None), None)
    numbers: dict[str, float | int | str] = {}
    if axis is not None:
        row = max(_points(leaf, axis) for leaf in folds)
        lanes = vector_bytes // max(element_bytes(leaf) for leaf in folds)
        numbers = {"row": row, "lanes": lanes}
        ordered = any(leaf.is_ordered for leaf in folds)
        if row >= _SHORT * ACCUMULATORS * lanes and not ordered:
            directives.append(directive("accumulators", {axis: ACCUMULATORS}))
        maps = [leaf for leaf in leaves if not leaf.folds and _points(leaf, axis) > 1]
        count = vectors_in_flight(maps) if maps else 1
        if count > 1 and row >= 2 * count * lanes:
            directives.append(directive("unroll", {axis: count}))
    directives += stream_results(nest, caches)
    if axis is not None:
        directives += _next_rows(nest, axis, caches)
    reason = "values that several passes over a row need are computed once" if keep else ""
    if axis is not None:
        reason = reason or f"a row of {axis} is folded in vectors"
    return Chosen(tuple(directives), reason, numbers)


def _next_rows(nest: func.FuncOp, axis: str, caches: Caches) -> list[Directive]:
    """``prefetch`` of the row behind the one that is worked on, for arrays that come from memory.

    The hardware follows a row to the end of its page; the next row is often in another.
    """
    found: list[Directive] = []
    for name, value in arrays_of(nest).items():
        leaves = [leaf for leaf in leaves_of(nest) if value in leaf.inputs]
        readers = [leaf for leaf in leaves if _points(leaf, axis) > 1]
        if not readers or bytes_of(value) < caches.last // 2:
            continue
        leaf = readers[0]
        number = list(leaf.inputs).index(value)
        steps = steps_along(leaf, axis)
        row = _points(leaf, axis)
        size = row * size_of(value)
        if steps is None or steps[number] != 1 or not _follows(nest, leaf, number, row):
            continue
        if size <= caches.l1 // 2:
            found.append(directive("prefetch", {name: row}))
        elif size <= caches.l2 // 4:
            found.append(directive("prefetch", {name: row}, "L2"))
    return found


def _follows(nest: func.FuncOp, leaf: ComputeOp, number: int, row: int) -> bool:
    """Whether rows lie one behind the other: the innermost loop moves the array by one row."""
    loops = loops_of(nest)
    if not loops:
        return False
    place = linear_form(flat_place(leaf.inputs[number], leaf.input_maps[number]))
    inner = loops[-1].induction_variable
    moved = [
        factor
        for atom, factor in place.terms.items()
        if isinstance(atom, AffineSymExpr) and leaf.ivs[atom.position] is inner
    ]
    return moved == [row]


def _row_axis(leaf: ComputeOp) -> str | None:
    """The folded axis that vectors run along: the longest of those they can."""
    sizes = dict(zip(leaf.axis_names, leaf.sizes, strict=True))
    fitting = [
        name.data
        for name in leaf.reduce_axes
        if sizes[name.data] > 1 and lies_along(leaf, name.data)
    ]
    return max(reversed(fitting), key=lambda axis: sizes[axis], default=None)


def _points(leaf: ComputeOp, axis: str) -> int:
    return dict(zip(leaf.axis_names, leaf.sizes, strict=True)).get(axis, 1)
