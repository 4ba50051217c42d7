"""Puts the steps of a composite op in its place."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.decomposing.rows import decomposition_of
from wia_compiler.passes.decomposing.steps import Steps
from wia_compiler.passes.rules import erase_unused


def write_out(op: TensorOp, chosen: Callable[[TensorOp], bool]) -> None:
    """Replace ``op``, and every step of it, by its steps as long as it is ``chosen``.

    Steps have the place in the source that the op has. What nothing reads afterwards goes.
    """
    rule, block = decomposition_of(op), op.parent_block()
    if rule is None or block is None or not chosen(op):
        return
    steps = Steps()
    value = rule(op, steps)
    for made in steps.ops:
        made.location = op.location
        block.insert_op_before(made, op)
    if isinstance(value.owner, TensorOp | ConstantOp) and value.owner in steps.ops:
        value.name_hint = op.result.name_hint
    op.result.replace_all_uses_with(value)
    erase_unused(op)  # with what only it read: a softmax without elements reads nothing
    for made in reversed(steps.ops):
        if _is_unused(made):
            made.detach()
            made.erase()
    for made in [each for each in steps.ops if each.parent is not None]:
        if isinstance(made, TensorOp):
            write_out(made, chosen)


def _is_unused(op: Operation) -> bool:
    return op.parent is not None and all(result.first_use is None for result in op.results)
