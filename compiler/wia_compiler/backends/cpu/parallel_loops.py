"""Tile loops at level ``@thread``: what the threads of the pool share, and what each has alone."""

from __future__ import annotations

import math

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, Region

from wia_compiler.dialects.tile import ForOp
from wia_compiler.dialects.tile_check import CheckOp
from wia_compiler.dialects.walk import walk
from wia_compiler.passes.llvm.memory import SCRATCH
from wia_compiler.passes.llvm.types import num_elements, size_bytes

_ALIGNMENT = 64


def shared_loops(op: ForOp) -> list[ForOp]:
    """The loops whose iterations the pool's threads share together, outermost first.

    Those are the loop and what it holds and nothing else, as long as that is a loop at level
    ``@thread`` too. None for a loop of another level, or inside of one that is shared already:
    there the thread that is there runs it.
    """
    if op.level.data != "thread" or _is_shared(op):
        return []
    if any(isinstance(inner, CheckOp) for inner in walk(op)):
        return []  # the first check that fails in order is the one to report
    found = [op]
    while (inner := only_loop_in(found[-1])) is not None and inner.level.data == "thread":
        found.append(inner)
    return found


def only_loop_in(loop: ForOp) -> ForOp | None:
    """The loop that a loop holds and nothing else."""
    inner = loop.body.block.first_op
    alone = inner is loop.body.block.last_op
    return inner if isinstance(inner, ForOp) and alone else None


def lower_shared_loops(loops: list[ForOp]) -> scf.ParallelOp:
    """``scf.parallel`` in the place of loops; its body is that of the innermost, not lowered.

    ::

        tile.for %i0 in 64 step 8 @thread { tile.for %j0 in 9 step 3 @thread { … } }
          →  scf.parallel (%i0, %j0) = (0, 0) to (64, 9) step (8, 3) { … }
    """
    outer, inner = loops[0], loops[-1]
    bounds: list[list[arith.ConstantOp]] = [
        [
            arith.ConstantOp(IntegerAttr.from_index_int_value(value))
            for value in (0, loop.extent.value.data, loop.step.value.data)
        ]
        for loop in loops
    ]
    body = inner.body.detach_block(0)
    for position, loop in enumerate(loops[:-1]):
        variable = loop.induction_variable
        argument = body.insert_arg(variable.type, position)
        argument.name_hint = variable.name_hint
        variable.replace_all_uses_with(argument)
    body.add_op(scf.ReduceOp())
    lower, upper, step = ([each[part] for each in bounds] for part in range(3))
    made = scf.ParallelOp(lower, upper, step, Region(body))
    constants = [constant for each in bounds for constant in each]
    for op in (*constants, made, body.last_op):
        assert op is not None
        op.location = outer.location
    block = outer.parent
    assert block is not None
    block.insert_ops_before([*constants, made], outer)
    outer.detach()
    outer.erase()
    return made


def give_scratch(loop: scf.ParallelOp, stack_bytes: int) -> set[Operation]:
    """Say where the buffers of a shared loop lie; the ops that make them.

    The first ``stack_bytes`` of them are on each thread's stack. The others get a place in memory
    that each thread has of its own, and the loop says how large that is.
    """
    on_stack = total = 0
    buffers: set[Operation] = set()
    for op in walk(loop):
        if not isinstance(op, memref.AllocOp | memref.AllocaOp):
            continue
        buffers.add(op)
        type_ = op.memref.type
        size = num_elements(type_) * size_bytes(type_.element_type)
        if on_stack + size <= stack_bytes:
            on_stack += size
            continue
        op.attributes[SCRATCH] = IntegerAttr(total, 64)
        total += math.ceil(size / _ALIGNMENT) * _ALIGNMENT
    if total:
        loop.attributes[SCRATCH] = IntegerAttr(total, 64)
    return buffers


def _is_shared(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ParallelOp):
            return True
        if isinstance(parent, ForOp) and parent.level.data == "thread":
            return True
        parent = parent.parent_op()
    return False
