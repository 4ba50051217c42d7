"""Folds of point code: numbers that loops carry, elements of memory that loops add to."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith, func, memref, scf
from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.dialects import tile
from wia_compiler.passes.loops.forms import Atom
from wia_compiler.passes.points.forms import PointForms
from wia_compiler.passes.points.leaf_body import Fold
from wia_compiler.passes.points.loop_axes import NotRaised, is_independent, is_lazy
from wia_compiler.passes.points.segments import Segment

FOLDS = (
    arith.AddfOp,
    arith.SubfOp,
    arith.MulfOp,
    arith.MaximumfOp,
    arith.MinimumfOp,
    arith.AddiOp,
    arith.MuliOp,
    arith.MaxSIOp,
    arith.MinSIOp,
    arith.MaxUIOp,
    arith.MinUIOp,
)
"""Ops that combine what is held with an element; of a difference the held value is the first."""


def fold_of(value: SSAValue, held: SSAValue, body: Block) -> Operation:
    """The op of a body that makes the next held value of the current one and an element."""
    op = value.owner
    name = held.name_hint or "a value"
    if not isinstance(op, FOLDS) or op.parent is not body or held not in op.operands:
        raise NotRaised(f"{name} is carried from one iteration to the next, and is no fold")
    if len(list(held.uses)) != 1 or op.operands[0] is op.operands[1]:
        raise NotRaised(f"{name} is used in other ways than by its fold")
    if isinstance(op, arith.SubfOp) and op.operands[0] is not held:
        raise NotRaised(f"{name} is what is subtracted, which is no fold")
    if len(list(value.uses)) != 1:
        raise NotRaised(f"{name} is used at each of its steps")
    return op


def memory_folds(
    segment: Segment, folded: set[Atom], forms: PointForms
) -> Mapping[memref.StoreOp, Fold]:
    """Stores of a body that fold into an element of memory, which the folded loops share."""
    found: dict[memref.StoreOp, Fold] = {}
    for store in segment.stores:
        if any(form.factor(atom) for form in forms.accesses[store] for atom in folded):
            continue
        name = store.memref.name_hint or "an array"
        loads = [
            load
            for load in segment.loads
            if load.memref is store.memref and forms.accesses[load] == forms.accesses[store]
        ]
        body = store.parent
        if len(loads) != 1 or body is None:
            raise NotRaised(f"{name} is written again and again, and does not fold")
        found[store] = Fold(fold_of(store.value, loads[0].res, body), loads[0].res)
    return found


def sink_accumulators(nest: func.FuncOp) -> None:
    """Let a sum that starts from an element and ends in it be added up in memory.

    ::

        %s = load %C[%i, %j]                          for %k … {
        %t = for %k … iter_args(%sum = %s) {     →      %c = load %C[%i, %j]
          yield %sum + %x }                             store %c + %x, %C[%i, %j] }
        store %t, %C[%i, %j]

    Only inside a loop that adds to the same elements again: its other loops are then all that it
    holds, as in a product in tiles. Each step computes what it did.
    """
    for store in [op for op in nest.walk() if isinstance(op, memref.StoreOp)]:
        if _runs_on(store) and (parts := _accumulator(store)) is not None:
            _sink(store, *parts)


def _runs_on(op: Operation) -> bool:
    """Whether a loop around an op runs in order, and carries nothing."""
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ForOp) and not is_independent(parent) and not parent.results:
            return True
        parent = parent.parent_op()
    return False


def _accumulator(store: memref.StoreOp) -> tuple[memref.LoadOp, scf.ForOp] | None:
    loop = store.value.owner
    if not isinstance(loop, scf.ForOp) or len(loop.results) != 1 or loop.parent is not store.parent:
        return None
    load = loop.iter_args[0].owner
    if not isinstance(load, memref.LoadOp) or load.parent is not store.parent:
        return None
    same = load.memref is store.memref and list(load.indices) == list(store.indices)
    alone = len(list(load.res.uses)) == 1 and len(list(loop.results[0].uses)) == 1
    inside = any(
        isinstance(op, memref.LoadOp | memref.StoreOp) and op.memref is store.memref
        for op in loop.body.walk()
    )
    others = [
        op
        for op in (store.parent.ops if store.parent is not None else ())
        if op not in (load, loop, store) and not is_lazy(op) and not isinstance(op, scf.YieldOp)
    ]
    if not same or not alone or inside or others or isinstance(store.parent_op(), func.FuncOp):
        return None
    flat = all(not isinstance(op, tile.ForOp | scf.ForOp) for op in loop.body.block.ops)
    return (load, loop) if flat else None


def _sink(store: memref.StoreOp, load: memref.LoadOp, loop: scf.ForOp) -> None:
    body = loop.body.block
    last = body.last_op
    assert isinstance(last, scf.YieldOp)
    inner = memref.LoadOp.get(load.memref, list(load.indices))
    inner.res.name_hint = load.res.name_hint
    inner.location = load.location
    first = body.first_op
    assert first is not None
    body.insert_op_before(inner, first)
    body.args[1].replace_all_uses_with(inner.res)
    value = last.operands[0]
    written = memref.StoreOp.get(value, store.memref, list(store.indices))
    written.location = store.location
    body.insert_op_before(written, last)
    end = scf.YieldOp()
    end.location = last.location
    body.insert_op_before(end, last)
    last.detach()
    last.erase()
    body.erase_arg(body.args[1])
    plain = scf.ForOp(loop.lb, loop.ub, loop.step, [], loop.detach_region(loop.body))
    plain.location = loop.location
    plain.attributes = dict(loop.attributes)
    block = loop.parent
    assert block is not None
    block.insert_op_before(plain, loop)
    for op in (store, loop, load):
        op.detach()
        op.erase()
