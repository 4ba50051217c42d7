"""``pipeline``: loads run iterations ahead of what uses them."""

from __future__ import annotations

import math

from xdsl.dialects import memref, scf
from xdsl.ir import Operation, SSAValue

from wia_compiler.base.schedule import Directive
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.points.dependence import why_in_order
from wia_compiler.passes.scf_rewrites.loops import CannotExpand
from wia_compiler.passes.scf_rewrites.stages import split_stages
from wia_compiler.passes.scheduling.hints import LONGEST_TILE, Place, check_count, find_places
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import IllegalRewrite

SYNTAX = "pipeline AXIS STAGES, …"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Load what an iteration needs ``STAGES - 1`` iterations before it computes.

    ``pipeline i 2``::

        for %i = 0 to 100                 next = load a[0]                       prologue
          x = load a[%i]                  for %i = 0 to 99                       steady state
          compute(x)                 →      x = next    next = load a[%i + 1]
                                            compute(x)
                                          compute(next)                          epilogue

    Of a loop whose body fills buffers (``cache A at k.0``) the fills run ahead, into as many
    buffers as there are stages. Legal where no iteration writes what a later one loads: where
    iterations are independent, or where the loop does not write to the arrays that it loads from.
    """
    if not directive.entries:
        raise IllegalRewrite("no loop is named", hint=SYNTAX)
    for entry in directive.entries:
        stages = number_of(directive, entry, "number of stages", least=2)
        hint = "choose a loop that reads arrays which it does not write to"
        for place in find_places(nest, entry, _why_not, hint):
            check_count(place, entry, stages, "stages")
            place.note(pipeline=stages)


def _why_not(place: Place) -> str | None:
    if place.leaf is not None:
        return None if place.independent else _conflict(place.leaf, [place.leaf], [place.leaf])
    assert place.loop is not None
    leaves = [op for op in place.loop.walk() if isinstance(op, ComputeOp)]
    if not leaves and isinstance(place.loop, scf.ForOp):
        try:
            split_stages(place.loop)
        except CannotExpand as refusal:
            return why_in_order(place.loop) or f"{place.name}: {refusal}"
        return None
    loading = [op for op in place.loop.body.block.ops if _loads(op, place.loop)]
    if not loading:
        return f"the body of {place.name} loads nothing by itself, but in the loops inside it"
    own = [op for op in loading if isinstance(op, ComputeOp)]
    return None if place.independent or not own else _conflict(place.loop, own, leaves)


def _loads(op: Operation, loop: Operation) -> bool:
    """Whether an op of a loop's body loads from outside of it, and in no loop of its own, or fills
    a buffer of the body.
    """
    if not isinstance(op, ComputeOp):
        return isinstance(op, memref.LoadOp)
    if op.folds or (op.kind.data != "copy" and math.prod(op.sizes) > LONGEST_TILE):
        return False
    return any(not _is_made_in(value, loop) for value in op.inputs)


def _conflict(where: Operation, loading: list[ComputeOp], leaves: list[ComputeOp]) -> str | None:
    """What a loop writes of all that its loads read, so that a load ahead may be too early."""
    written: set[SSAValue] = {value for leaf in leaves for value in leaf.outputs}
    outside = [v for leaf in loading for v in leaf.inputs if not _is_made_in(v, where)]
    if not outside or any(value not in written for value in outside):
        return None
    names = ", ".join(sorted({value.name_hint or "an array" for value in outside}))
    return f"iterations write to {names}, which later ones read: a load ahead might come too early"


def _is_made_in(value: SSAValue, where: Operation) -> bool:
    return isinstance(value.owner, Operation) and where.is_ancestor(value.owner)
