"""``accumulators``: a sum in several partial sums, which do not wait for each other."""

from __future__ import annotations

from xdsl.dialects import scf

from wia_compiler.base.schedule import Directive, Entry
from wia_compiler.passes.emit_leaf import is_carried, is_folded_into
from wia_compiler.passes.scf_rewrites.accumulators import fold_of
from wia_compiler.passes.scheduling.hints import (
    Place,
    all_loops,
    check_count,
    find_places,
    has_empty_array,
    loop_name,
)
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import IllegalRewrite

SYNTAX = "accumulators [AXIS] COUNT"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Fold an axis into ``COUNT`` partial results, which are combined at the end.

    ``accumulators 4``::

        for %i = 0 to 1000 step 1         for %i = 0 to 1000 step 4
          sum += a[%i]               →      sum0 += a[%i]       sum1 += a[%i + 1]   …
                                          sum = sum0 + sum1 + sum2 + sum3

    Iteration n goes to number n mod ``COUNT``. It is legal for every fold: of floats it changes the
    roundings, which the numerics contract leaves open for tensor ops, and which this line announces
    where the text writes the sum out. A bare number means the innermost loop that folds.
    """
    if len(directive.entries) != 1:
        raise IllegalRewrite("one loop and one number are expected", hint=SYNTAX)
    (entry,) = directive.entries
    if entry.name is None:
        axis = _innermost_fold(nest)
        if axis is None:
            if _may_fold(nest):
                return
            raise IllegalRewrite(
                "the nest folds nothing",
                hint="accumulators are for sums of many elements",
                span=entry.span,
            )
        entry = Entry(axis, entry.number, entry.span)
    count = number_of(directive, entry, "count")
    hint = "accumulators are for sums, products and extremes that a loop carries"
    for place in find_places(nest, entry, _why_not, hint):
        check_count(place, entry, count, "accumulators")
        place.note(accumulators=count)


def _innermost_fold(nest: ScheduledNest) -> str | None:
    for leaf in reversed(nest.leaves()):
        sizes = dict(zip(leaf.axis_names, leaf.sizes, strict=True))
        folded = [name.data for name in leaf.reduce_axes if sizes[name.data] > 1]
        if folded:
            return folded[-1]
    for loop in reversed(all_loops(nest)):
        if isinstance(loop, scf.ForOp) and _folds_all(loop):
            return loop_name(loop)
    return None


def _may_fold(nest: ScheduledNest) -> bool:
    """Whether the nest would fold something if its axes were longer."""
    return any(leaf.folds for leaf in nest.leaves()) or has_empty_array(nest)


def _why_not(place: Place) -> str | None:
    if place.leaf is not None:
        if place.independent:
            return f"{place.name} is not folded: each of its points has a result of its own"
        # What a leaf writes beside its sums (a row that is kept) is no matter of their order.
        outputs = range(len(place.leaf.outputs))
        folded = [n for n in outputs if is_folded_into(place.leaf, n)]
        if not folded or not all(is_carried(place.leaf, n) for n in folded):
            return f"a leaf writes an element at each point of {place.name}"
        return None
    if isinstance(place.loop, scf.ForOp) and _folds_all(place.loop):
        return None
    if isinstance(place.loop, scf.ForOp) and place.loop.iter_args:
        names = [each.name_hint or "a value" for each in place.loop.body.block.args[1:]]
        return f"{place.name} carries {', '.join(names)}, not all of which are folded"
    return f"{place.name} carries no sum from one iteration to the next"


def _folds_all(loop: scf.ForOp) -> bool:
    count = len(loop.iter_args)
    return count > 0 and all(fold_of(loop, number) is not None for number in range(count))
