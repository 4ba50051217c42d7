"""Checks of a lookup, and what they are computed from, moved out of loops that do not change them.

A row that is looked up is checked once, not at each of its elements; LLVM keeps a check where it
stands, and a loop with a branch in it is not vectorised.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from wia_compiler.dialects.tile_check import CheckOp
from wia_compiler.dialects.walk import walk


def hoist_checks(nest: func.FuncOp) -> None:
    """Move the checks of a lowered nest as far out as their operands allow.

    ::

        for %i { for %j { %n = load %index[%i]   check %n < 50   … } }
          →  for %i { %n = load %index[%i]   check %n < 50   for %j { … } }

    The nest may hold no code of the user's own loops: there the order of checks is the text's.
    """
    if not any(isinstance(op, CheckOp) for op in walk(nest)):
        return
    written = {op.memref for op in walk(nest) if isinstance(op, memref.StoreOp)}
    for loop in reversed([op for op in walk(nest) if isinstance(op, scf.ForOp)]):
        if _runs(loop):
            _hoist_from(loop, written)


def _runs(loop: scf.ForOp) -> bool:
    """Whether a loop certainly has an iteration."""
    ends = [_constant(value) for value in (loop.lb, loop.ub)]
    return ends[0] is not None and ends[1] is not None and ends[0] < ends[1]


def _hoist_from(loop: scf.ForOp, written: Iterable[SSAValue]) -> None:
    for op in list(loop.body.block.ops):
        if not _may_move(op, written) or any(_is_inside(v, loop.body.block) for v in op.operands):
            continue
        block = loop.parent_block()
        assert block is not None
        op.detach()
        block.insert_op_before(op, loop)


def _may_move(op: Operation, written: Iterable[SSAValue]) -> bool:
    if isinstance(op, memref.LoadOp):
        return isinstance(op.memref, BlockArgument) and op.memref not in set(written)
    return isinstance(op, CheckOp) or op.name.startswith(f"{arith.Arith.name}.")


def _is_inside(value: SSAValue, block: Block) -> bool:
    owner = value.owner
    return (owner.parent if isinstance(owner, Operation) else owner) is block


def _constant(value: SSAValue) -> int | None:
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    return None
