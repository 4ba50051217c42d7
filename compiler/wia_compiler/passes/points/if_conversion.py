"""Branches of point code as choices between values, where both ways may be computed."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, MemRefType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from wia_compiler.passes.loops.forms import Form
from wia_compiler.passes.points.forms import Access, PointForms
from wia_compiler.passes.points.loop_axes import is_lazy

_NEUTRAL: dict[type[Operation], float] = {arith.AddfOp: -0.0, arith.MulfOp: 1.0}
"""What leaves any number as it is, bit for bit: also -0 + -0 is -0."""
_NEUTRAL_WHOLE: dict[type[Operation], int] = {
    arith.AddiOp: 0,
    arith.SubiOp: 0,
    arith.MuliOp: 1,
}


def convert_branches(nest: func.FuncOp) -> None:
    """Write branches as ``arith.select`` wherever both ways are straight code that is safe to run.

    ::

        if (A[i] > 0.0) { C[i] = A[i]; } else { C[i] = 0.0; }   →   C[i] = A[i] > 0.0 ? A[i] : 0.0
        if (A[i] > 0.0) { s += A[i]; }                          →   s += A[i] > 0.0 ? A[i] : -0.0

    Safe are loads that lie in their arrays whatever the condition is. An element that one way alone
    stores to is stored anew with what it holds; the iteration is the only one to touch it, or they
    run in order. A sum of which one way adds nothing adds what changes no number.
    """
    while True:
        forms = PointForms(nest)
        branches = [op for op in nest.walk() if isinstance(op, scf.IfOp)]
        ready = [op for op in branches if _is_plain(op, forms)]
        if not ready:
            return
        for op in ready:
            _convert(op, forms)
        for op in reversed(list(nest.walk())):
            if is_lazy(op) and all(result.first_use is None for result in op.results):
                op.detach()
                op.erase()


def _is_plain(op: scf.IfOp, forms: PointForms) -> bool:
    for region in op.regions:
        stored: set[tuple[SSAValue, tuple[Form, ...]]] = set()
        for inner in region.block.ops if region.blocks else ():
            if isinstance(inner, memref.LoadOp | memref.StoreOp):
                key = (inner.memref, forms.accesses[inner])
                if not _is_inside(inner, forms) or (inner.memref in {each for each, _ in stored}):
                    return False
                if isinstance(inner, memref.StoreOp):
                    stored.add(key)
            elif not isinstance(inner, scf.YieldOp) and not is_lazy(inner):
                return False
    return all(_is_number(each.type) for each in op.results)


def _is_number(type_: Attribute) -> bool:
    return type_.name != "index"


def _is_inside(access: Access, forms: PointForms) -> bool:
    shape = cast("MemRefType[Attribute]", access.memref.type).get_shape()
    return all(
        forms.low(form) >= 0 and forms.high(form) < size
        for form, size in zip(forms.accesses[access], shape, strict=True)
    )


def _convert(op: scf.IfOp, forms: PointForms) -> None:
    block = op.parent
    assert block is not None
    ways: list[dict[tuple[SSAValue, tuple[Form, ...]], memref.StoreOp]] = []
    yielded: list[list[SSAValue]] = []
    for region in op.regions:
        stores: dict[tuple[SSAValue, tuple[Form, ...]], memref.StoreOp] = {}
        values: list[SSAValue] = []
        for inner in list(region.block.ops) if region.blocks else ():
            if isinstance(inner, scf.YieldOp):
                values = list(inner.operands)
                continue
            inner.detach()
            if isinstance(inner, memref.StoreOp):
                stores[inner.memref, forms.accesses[inner]] = inner
            else:
                block.insert_op_before(inner, op)
        ways.append(stores)
        yielded.append(values)
    for key in dict.fromkeys([*ways[0], *ways[1]]):
        _store(op, ways[0].get(key), ways[1].get(key), block)
    for number, result in enumerate(op.results):
        chosen = _choose(op, yielded[0][number], yielded[1][number], block)
        chosen.name_hint = result.name_hint
        result.replace_all_uses_with(chosen)
    op.detach()
    op.erase()


def _insert(block: Block, made: Operation, op: scf.IfOp) -> SSAValue:
    made.location = op.location
    block.insert_op_before(made, op)
    return made.results[0]


def _store(
    op: scf.IfOp, then: memref.StoreOp | None, otherwise: memref.StoreOp | None, block: Block
) -> None:
    first = then or otherwise
    assert first is not None
    values: list[SSAValue] = []
    if then is None or otherwise is None:
        held = memref.LoadOp.get(first.memref, list(first.indices))
        held.res.name_hint = first.memref.name_hint
        kept = _insert(block, held, op)
        values = [then.value if then else kept, otherwise.value if otherwise else kept]
    else:
        values = [then.value, otherwise.value]
    value = _choose(op, values[0], values[1], block)
    made = memref.StoreOp.get(value, first.memref, list(first.indices))
    made.location = first.location
    block.insert_op_before(made, op)


def _choose(op: scf.IfOp, then: SSAValue, otherwise: SSAValue, block: Block) -> SSAValue:
    """The value of the way that is taken; of two ways to go on with a sum, the sum of a choice."""
    if then is otherwise:
        return then
    then, otherwise = (_as_sum(op, each, block) for each in (then, otherwise))
    both = _folds_alike(then.owner, otherwise.owner)
    if both is not None:
        fold, first, second = both
        element = _insert(block, arith.SelectOp(op.cond, first, second), op)
        made = fold.clone({first: element})
        made.location = fold.location
        block.insert_op_before(made, op)
        return made.results[0]
    for one, other, is_then in ((then, otherwise, True), (otherwise, then, False)):
        fold = one.owner
        neutral = _neutral_of(fold, other)
        if neutral is not None and isinstance(fold, Operation):
            nothing = _insert(block, arith.ConstantOp(neutral), op)
            added = fold.operands[1] if fold.operands[0] is other else fold.operands[0]
            pair = (added, nothing) if is_then else (nothing, added)
            element = _insert(block, arith.SelectOp(op.cond, *pair), op)
            made = fold.clone({added: element})
            made.location = fold.location
            block.insert_op_before(made, op)
            return made.results[0]
    return _insert(block, arith.SelectOp(op.cond, then, otherwise), op)


def _as_sum(op: scf.IfOp, value: SSAValue, block: Block) -> SSAValue:
    """``a - b`` as ``a + -b``, which is the same number, so that both ways may add."""
    difference = value.owner
    if not isinstance(difference, arith.SubfOp):
        return value
    negative = _insert(block, arith.NegfOp(difference.rhs), op)
    made = arith.AddfOp(difference.lhs, negative)
    made.location = difference.location
    block.insert_op_before(made, op)
    return made.result


def _folds_alike(then: object, otherwise: object) -> tuple[Operation, SSAValue, SSAValue] | None:
    """Two ops that combine one value with others alike: the first of them, and both others."""
    if not isinstance(then, Operation) or not isinstance(otherwise, Operation):
        return None
    if type(then) is not type(otherwise) or type(then) not in (*_NEUTRAL, *_NEUTRAL_WHOLE):
        return None
    if then.operands[0] is otherwise.operands[0] and then.operands[0] is not then.operands[1]:
        return then, then.operands[1], otherwise.operands[1]
    return None


def _neutral_of(fold: object, held: SSAValue) -> Any:
    """The number that changes nothing, where an op only combines what is held with another."""
    if not isinstance(fold, Operation) or len(fold.operands) != 2 or held not in fold.operands:
        return None
    same = fold.operands[0] is fold.operands[1]
    subtracts = isinstance(fold, arith.SubiOp) and fold.operands[0] is not held
    if same or subtracts:
        return None
    if type(fold) in _NEUTRAL:
        return FloatAttr(_NEUTRAL[type(fold)], cast("Any", held.type))
    if type(fold) in _NEUTRAL_WHOLE:
        return IntegerAttr(_NEUTRAL_WHOLE[type(fold)], cast("Any", held.type))
    return None
