"""``vectorize`` on point code: iterations of an independent loop in the lanes of vectors."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.points.dependence import why_in_order
from wia_compiler.passes.points.loop_axes import is_independent
from wia_compiler.passes.points.vectorise import LANES, why_no_vectors
from wia_compiler.passes.scheduling.hints import Place, find_places
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import IllegalRewrite

SYNTAX = "vectorize AXIS LANES"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Run ``LANES`` iterations of a loop at once, each in a lane of vectors.

    ``vectorize j 16``::

        for j in 0..N {                            for j in 0..N step 16 {
          for k in 0..j + 1 { s += A[k, j]; }        16 sums; a lane stops where its own k ends
          C[j] = s; }                          →     C[j], …, C[j + 15] = the sums }

    Every lane computes what its iteration did, in that order. Legal where no iteration touches what
    another writes; neighbours must read and write neighbours, or all the same element. Where a
    branch is taken by some lanes, both ways are computed.
    """
    if len(directive.entries) != 1:
        raise IllegalRewrite("vectors run along one axis", hint=SYNTAX)
    (entry,) = directive.entries
    lanes = number_of(directive, entry, "number of lanes", least=2)

    def why_not(place: Place) -> str | None:
        if place.loop is None:
            return "a leaf beside other code has no lanes of its own"
        if not is_independent(place.loop) and (reason := why_in_order(place.loop)) is not None:
            return reason
        return why_no_vectors(nest.function, place.loop, nest.facts.vector_bytes)

    for place in find_places(nest, entry, why_not, "choose an independent loop along memory"):
        assert place.loop is not None
        place.loop.attributes[LANES] = IntegerAttr(lanes, i64)
