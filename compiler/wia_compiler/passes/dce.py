"""Dead code: removes what no result needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.wia.control import ConditionOp
from wia_compiler.dialects.wia.ops import ConstantOp, FusedOp, TensorOp, label_of
from wia_compiler.passes.control_flow import (
    edge_values,
    edges_into,
    reachable_blocks,
    walk_ops,
)
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.kernel_function import entry_of, kernel_function

_PURE = ConditionOp | ConstantOp | FusedOp | NestOp | TensorOp


@dataclass(frozen=True)
class Dce:
    """Removes what neither a result nor a branch needs, from the last op to the first.

    ``%1 = wia.exp %x`` with no use of ``%1`` → nothing. An argument of a block that only its own
    loop passes on (``n = n + 1``) goes with what computes it. All ops of the level are pure.
    """

    name: ClassVar[str] = "dce"
    level: ClassVar[Level] = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Remove the dead ops and arguments of the context's kernel."""
        function = kernel_function(module, context.kernel)
        needed = _needed(function)
        dead = _drop_from_edges(function, needed)
        for op in reversed(list(walk_ops(function))):
            if isinstance(op, _PURE) and all(result.first_use is None for result in op.results):
                _record(op, context)
                op.detach()
                op.erase()
        for argument in dead:
            name = argument.name_hint or "a value"
            reason = f"no result of the kernel needs {name}, which branches pass on"
            context.decisions.append(Decision("dce", name, True, reason))
            argument.block.erase_arg(argument)


def _needed(function: FuncOp) -> set[SSAValue]:
    """What results and conditions are computed from, through every way that leads to it."""
    edges = edges_into(function.body)
    pending: list[SSAValue] = []
    for block in reachable_blocks(function.body):
        last = block.last_op
        if last is not None:
            passed = sum(map(len, edge_values(last)))
            pending += last.operands[: len(last.operands) - passed]
    needed: set[SSAValue] = set()
    while pending:
        value = pending.pop()
        if value in needed:
            continue
        needed.add(value)
        if isinstance(value.owner, Operation):
            pending += value.owner.operands
        elif isinstance(value, BlockArgument):
            pending += [edge.values[value.index] for edge in edges.get(value.block, ())]
    return needed


def _drop_from_edges(function: FuncOp, needed: set[SSAValue]) -> list[BlockArgument]:
    """Pass nothing for arguments that nothing needs; these, the last of each block first."""
    entry, dead = entry_of(function), list[BlockArgument]()
    for block, edges in edges_into(function.body).items():
        unneeded = [argument for argument in block.args if argument not in needed]
        if block is entry or not unneeded:
            continue
        positions = {argument.index for argument in unneeded}
        for edge in edges:
            edge.set_values([v for n, v in enumerate(edge.values) if n not in positions])
        dead += reversed(unneeded)
    return dead


def _record(op: Operation, context: PassContext) -> None:
    if isinstance(op, ConstantOp | ConditionOp):
        return
    name = op.results[0].name_hint if op.results else None
    name = name or label_of(op)
    subjects = tuple(filter(None, [context.id_of(op)]))
    reason = f"no result of the kernel needs {name}"
    context.decisions.append(Decision("dce", name, True, reason, {}, subjects))
