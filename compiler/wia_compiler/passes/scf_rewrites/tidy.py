"""Index arithmetic made plain again after loops were written out, for whoever reads the text."""

from __future__ import annotations

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Attribute, Block, SSAValue

from wia_compiler.dialects.walk import walk
from wia_compiler.passes.emit_index import INDEX, constant_of


def tidy_indices(function: func.FuncOp) -> None:
    """Join additions of constants, and keep one constant of each kind where several are in sight.

    ::

        %1 = %i + 4   %2 = %1 + 3   →   %2 = %i + 7
    """
    for op in list(walk(function)):
        if isinstance(op, arith.AddiOp) and op.result.type == INDEX:
            _join(op, function.body.blocks[0])
    for block in function.body.blocks:
        _merge_constants(block, {})
    for op in reversed(list(walk(function))):
        is_index = isinstance(op, arith.AddiOp | arith.ConstantOp) and op.results[0].type == INDEX
        if is_index and op.results[0].first_use is None:
            op.detach()
            op.erase()
        elif isinstance(op, arith.ConstantOp) and op.result.name_hint is None:
            number = constant_of(op.result)
            op.result.name_hint = f"c{number}" if number is not None and number >= 0 else None


def _join(op: arith.AddiOp, entry: Block) -> None:
    """``(x + a) + b`` becomes ``x + (a + b)``, ``x + 0`` ``x`` and ``a + b`` a constant.

    Constants go to the start of the function, where all can use them.
    """
    base, offset = _parts(op.lhs)
    other, added = _parts(op.rhs)
    if base is not None and other is not None:
        return
    kept, total = base if base is not None else other, offset + added
    if kept is not None and total == 0:
        op.result.replace_all_uses_with(kept)
        return
    if kept is op.lhs and total == constant_of(op.rhs):
        return
    constant = arith.ConstantOp(IntegerAttr(total, IndexType()))
    constant.location = op.location
    assert entry.first_op is not None and op.parent is not None
    entry.insert_op_before(constant, entry.first_op)
    if kept is None:
        op.result.replace_all_uses_with(constant.result)
        return
    made = arith.AddiOp(kept, constant.result)
    made.location, made.result.name_hint = op.location, op.result.name_hint
    op.parent.insert_op_before(made, op)
    op.result.replace_all_uses_with(made.result)


def _parts(value: SSAValue) -> tuple[SSAValue | None, int]:
    """A value as another plus a number; ``None`` where it is a number alone."""
    known = constant_of(value)
    if known is not None:
        return None, known
    op = value.owner
    if isinstance(op, arith.AddiOp) and (number := constant_of(op.rhs)) is not None:
        return op.lhs, number
    return value, 0


def _merge_constants(block: Block, seen: dict[Attribute, SSAValue]) -> None:
    """Use a constant of the block, or of one around it, for each equal one that follows."""
    own = dict(seen)
    for op in list(block.ops):
        if isinstance(op, arith.ConstantOp):
            first = own.setdefault(op.value, op.result)
            if first is not op.result:
                op.result.replace_all_uses_with(first)
                op.detach()
                op.erase()
        for region in op.regions:
            for inside in region.blocks:
                _merge_constants(inside, own)
