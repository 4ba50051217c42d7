"""Which folds a CPU slides over their input in vectors, and how: pools and thin convolutions.

::

    reduce m[j] = max(m[j], x[j * 2 + r - 1])   over r = 3     →   16 windows beside one another,
                                                                   every tap a vector of x

Windows beside one another are lanes; every tap of a window reads the input where it lies, with a
stride, and what neighbours share is loaded once. Taps outside of the input are masked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from wia_compiler.backends.cpu.flat import Tests, places_of, tests_of
from wia_compiler.backends.cpu.lane_plan import flat_place, has_vector_body
from wia_compiler.backends.cpu.vector_plan import element_bytes
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import LinearForm, linear_form
from wia_compiler.passes.emit_leaf import LeafContext, is_carried, is_folded_into

MOST_STRIDE = 4
"""Windows further apart share too little: a vector of them is so many vectors of the input."""
_MOST_TAPS = 64
_MOST_SUMS = 28


@dataclass(frozen=True)
class SlidePlan:
    """How a leaf is spelled.

    ``axis`` runs along the lanes, ``chunks`` vectors of ``lanes``; ``rows`` are the other kept
    axes, ``taps`` the folded ones that are written out, ``loops`` those that loops walk outside of
    them. ``places`` has the place of each operand's element, counted from its first.
    """

    context: LeafContext
    axis: int
    lanes: int
    rows: tuple[int, ...]
    loops: tuple[int, ...]
    taps: tuple[int, ...]
    places: tuple[LinearForm, ...]
    tests: Tests

    @property
    def leaf(self) -> ComputeOp:
        """The leaf."""
        return self.context.leaf

    @property
    def chunks(self) -> int:
        """Vectors along the axis; the last one may be cut off by the axis's end."""
        return -(-self.leaf.sizes[self.axis] // self.lanes)

    def step(self, operand: int) -> int:
        """Elements from one lane to the next."""
        return self.places[operand].terms.get(AffineDimExpr(self.axis), 0)


def plan_slide(context: LeafContext, vector_bytes: int) -> SlidePlan | None:
    """How to slide a leaf with vectors of ``vector_bytes``; ``None`` where it does not slide."""
    leaf = context.leaf
    outputs = range(len(leaf.outputs))
    if not leaf.folds or not leaf.inputs or not has_vector_body(leaf):
        return None
    if not all(is_folded_into(leaf, n) and is_carried(leaf, n) for n in outputs):
        return None
    axis, places, tests = sliding_axis(leaf), places_of(leaf), tests_of(context)
    if axis is None or places is None or tests is None or not _grow(tests):
        return None
    own = AffineDimExpr(axis)
    steps = [place.terms.get(own, 0) for place in places]
    inputs = len(leaf.inputs)
    if not all(0 <= step <= MOST_STRIDE for step in steps) or any(s != 1 for s in steps[inputs:]):
        return None
    lanes = min(vector_bytes // element_bytes(leaf), 1 << (leaf.sizes[axis] - 1).bit_length())
    folded = [n for n, reduced in enumerate(leaf.reductions) if reduced and leaf.sizes[n] > 1]
    rows = tuple(n for n in range(len(leaf.sizes)) if n != axis and not leaf.reductions[n])
    sums = math.prod(leaf.sizes[n] for n in rows) * -(-leaf.sizes[axis] // lanes)
    if lanes < 2 or sums * len(leaf.outputs) > _MOST_SUMS:
        return None
    taps: list[int] = []
    while folded and math.prod(leaf.sizes[n] for n in (*taps, folded[-1])) <= _MOST_TAPS:
        taps.insert(0, folded.pop())
    return SlidePlan(context, axis, lanes, rows, tuple(folded), tuple(taps), places, tests)


def _grow(tests: Tests) -> bool:
    """Whether all conditions grow along every axis and loop, so that their ends are extreme."""
    forms = [linear_form(each.expression) for each in tests.every]
    return all(factor > 0 for form in forms for factor in form.terms.values())


def sliding_axis(leaf: ComputeOp) -> int | None:
    """The last kept axis, if an input's index adds a folded axis to it."""
    kept = [n for n, folded in enumerate(leaf.reductions) if not folded]
    kept = [n for n in kept if leaf.sizes[n] > 1] or kept
    if not kept:
        return None
    axis, folded = kept[-1], {n for n, reduced in enumerate(leaf.reductions) if reduced}
    for value, each in zip(leaf.inputs, leaf.input_maps, strict=True):
        if _slides(value, each, axis, folded):
            return axis
    return None


def _slides(value: SSAValue, each: AffineMap, axis: int, folded: set[int]) -> bool:
    """Whether windows beside one another along an axis lie in the same rows of an input."""
    form = linear_form(flat_place(value, each))
    own = form.terms.get(AffineDimExpr(axis), 0)
    taps = [form.terms.get(AffineDimExpr(n), 0) for n in folded]
    return 0 < own <= MOST_STRIDE and any(0 < step <= 2 * MOST_STRIDE for step in taps)
