"""Schedules of folds and norms on a CPU: rows walked in vectors, pass after pass.

One leaf walks a whole row; sums wait in several vectors, so that an addition does not wait for the
one before. What several passes compute alike is kept. Where the arrays fill the last cache, results
are stored past it.
"""

from __future__ import annotations

from xdsl.dialects import func

from wia_compiler.backends.cpu.caches import Caches
from wia_compiler.backends.cpu.lane_plan import lies_along
from wia_compiler.backends.cpu.schedule_maps import stream_results, vectors_in_flight
from wia_compiler.backends.cpu.vector_plan import element_bytes
from wia_compiler.base.schedule import Directive, directive
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.schedule import Chosen
from wia_compiler.passes.tile_rewrites import leaves_of

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
    reason = "values that several passes over a row need are computed once" if keep else ""
    if axis is not None:
        reason = reason or f"a row of {axis} is folded in vectors"
    return Chosen(tuple(directives), reason, numbers)


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
