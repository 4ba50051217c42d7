"""Straight code between two loops: what it loads, stores, and leaves for later code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.passes.points.forms import Loop, PointForms
from wia_compiler.passes.points.loop_axes import NotRaised


@dataclass
class Segment:
    """Ops in order. ``known`` has what a load gives that was just stored."""

    ops: list[Operation] = field(default_factory=list[Operation])
    loads: list[memref.LoadOp] = field(default_factory=list[memref.LoadOp])
    stores: list[memref.StoreOp] = field(default_factory=list[memref.StoreOp])
    known: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def add(self, op: memref.LoadOp | memref.StoreOp, forms: PointForms) -> None:
        """The next access; ``NotRaised`` where its order with one before it must be kept."""
        self.ops.append(op)
        if isinstance(op, memref.StoreOp):
            self.stores.append(op)
            return
        for store in reversed(self.stores):
            if store.memref is not op.memref:
                continue
            if forms.accesses[store] == forms.accesses[op]:
                self.known[op.res] = store.value
                return
            if not are_apart(store, op, forms):
                name = op.memref.name_hint or "an array"
                raise NotRaised(f"{name} is read after it is written, at another index")
        self.loads.append(op)

    def kept_stores(self, forms: PointForms) -> list[memref.StoreOp]:
        """The stores, of several to one element the last."""
        last: dict[tuple[object, ...], memref.StoreOp] = {}
        terms: dict[SSAValue, set[tuple[object, ...]]] = {}
        for store in self.stores:
            places = forms.accesses[store]
            last.pop((store.memref, places), None)
            last[store.memref, places] = store
            terms.setdefault(store.memref, set()).add(tuple(each.terms for each in places))
        kept = list(last.values())
        # Places that differ by numbers alone are apart; of others it must be seen, pair by pair.
        unlike = [store for store in kept if len(terms[store.memref]) > 1]
        for number, store in enumerate(unlike):
            for other in unlike[number + 1 :]:
                if other.memref is store.memref and not are_apart(store, other, forms):
                    name = store.memref.name_hint or "an array"
                    raise NotRaised(f"{name} is written twice, at indices that may be the same")
        return kept


def are_apart(
    one: memref.LoadOp | memref.StoreOp, other: memref.LoadOp | memref.StoreOp, forms: PointForms
) -> bool:
    """Whether two accesses of one iteration certainly reach different elements."""
    pairs = zip(forms.accesses[one], forms.accesses[other], strict=True)
    return any((a - b).number not in (None, 0) for a, b in pairs)


def check_reads(
    segment: Segment, folds: Mapping[memref.StoreOp, object], in_fold: bool, forms: PointForms
) -> None:
    """Refuse loads of arrays that the same loops write, but of the element that is written.

    Independent loops touch other elements in other iterations; loops of a fold are exchanged with
    those around and inside, so that no iteration may read what another writes.
    """
    if not in_fold:
        return
    for number, store in enumerate(segment.stores):
        if any(each.memref is store.memref for each in segment.stores[:number]):
            name = store.memref.name_hint or "an array"
            raise NotRaised(f"{name} is written at several places of a loop that runs in order")
        for load in segment.loads:
            if load.memref is not store.memref:
                continue
            same = forms.accesses[load] == forms.accesses[store]
            if not same or (store not in folds and not _all_wide(store, forms)):
                name = load.memref.name_hint or "an array"
                raise NotRaised(f"{name} is read and written in a fold")


def _all_wide(store: memref.StoreOp, forms: PointForms) -> bool:
    return all(len(form.terms) <= 1 for form in forms.accesses[store])


def crossing(
    segment: Segment, loop: Loop | None, written: Iterable[SSAValue], forms: PointForms
) -> dict[SSAValue, bool]:
    """Values of a segment that later code needs, which must be computed here.

    ``True`` where only the next loop needs a value, to start a sum from. Numbers of the text, sums
    over loops and elements of arrays that never change are taken where they are needed.
    """
    own = set(segment.ops)
    found: dict[SSAValue, bool] = {}
    for op in segment.ops:
        if isinstance(op, arith.ConstantOp) or not op.results:
            continue
        value = op.results[0]
        if isinstance(op, memref.LoadOp) and op.memref not in written:
            if not _starts_alone(value, loop, own):
                continue
        elif isinstance(value.type, IndexType) or _is_sum(value, forms):
            continue
        if any(not _is_within(use.operation, own, op.parent) for use in value.uses):
            found[value] = _starts_alone(value, loop, own)
    return found


def _starts_alone(value: SSAValue, loop: Loop | None, own: set[Operation]) -> bool:
    later = [use for use in value.uses if use.operation not in own]
    return loop is not None and len(later) == 1 and later[0].operation is loop


def _is_sum(value: SSAValue, forms: PointForms) -> bool:
    form = forms.forms.get(value)
    return form is not None and all(atom in forms.loops for atom, _ in form.terms)


def _is_within(op: Operation, own: set[Operation], block: Block | None) -> bool:
    return op in own and op.parent is block
