"""Fewer blocks with the same meaning: ways that are never taken, joins that join nothing."""

from __future__ import annotations

from xdsl.dialects.cf import BranchOp, ConditionalBranchOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, SSAValue

from wia_compiler.base.record import Decision
from wia_compiler.dialects.wia.control import ConditionOp
from wia_compiler.dialects.wia.ops import ConstantOp
from wia_compiler.passes.control_flow import (
    Edge,
    edge_values,
    edges_into,
    reachable_blocks,
    remove_unreachable,
)
from wia_compiler.passes.framework import PassContext


def simplify_blocks(function: FuncOp, context: PassContext) -> bool:
    """Apply every rule until none holds; whether anything changed.

    ::

        cond_br true, ^a, ^b   →  br ^a            and blocks that nothing reaches go
        ^b(%x) with one way to it, or the same value on every way  →  that value
        br ^b, the only way to ^b  →  the ops of ^b in its place
        ^b: br ^c(%v)  →  who went to ^b goes to ^c(%v)

    An endless loop keeps its way out, by which the function returns.
    """
    if len(function.body.blocks) == 1:
        return False
    changed = remove_unreachable(function.body) > 0
    while _step(function, context):
        changed = True
    return changed


def _step(function: FuncOp, context: PassContext) -> bool:
    return (
        _decide_branches(function, context)
        or _drop_joins(function)
        or _pass_through(function)
        or _merge_chains(function)
    )


def _decide_branches(function: FuncOp, context: PassContext) -> bool:
    """A branch on a constant, or two ways that are one, become a plain branch."""
    for block in reachable_blocks(function.body):
        branch = block.last_op
        if not isinstance(branch, ConditionalBranchOp):
            continue
        taken = _always(branch)
        ways = edge_values(branch)
        if taken is None and branch.successors[0] is branch.successors[1] and ways[0] == ways[1]:
            taken = 0
        if taken is None or not _returns_without(function, Edge(branch, 1 - taken)):
            continue
        _record(branch, taken, context)
        plain = BranchOp(branch.successors[taken], *ways[taken])
        plain.location = branch.location
        block.insert_op_before(plain, branch)
        condition = branch.cond.owner
        branch.detach()
        branch.erase()
        if isinstance(condition, ConditionOp) and condition.result.first_use is None:
            condition.detach()
            condition.erase()
        remove_unreachable(function.body)
        return True
    return False


def _always(branch: ConditionalBranchOp) -> int | None:
    """Which successor a branch on a constant takes."""
    condition = branch.cond.owner
    constant = condition.input.owner if isinstance(condition, ConditionOp) else None
    return (0 if constant.number else 1) if isinstance(constant, ConstantOp) else None


def _returns_without(function: FuncOp, edge: Edge) -> bool:
    """Whether the function's return is reached without an edge."""
    first = function.body.blocks.first
    pending, seen = [first], {first}
    while pending:
        block = pending.pop()
        last = block.last_op if block is not None else None
        if isinstance(last, ReturnOp):
            return True
        for index, target in enumerate(last.successors if last is not None else ()):
            if target not in seen and not (last is edge.branch and index == edge.index):
                seen.add(target)
                pending.append(target)
    return False


def _record(branch: ConditionalBranchOp, taken: int, context: PassContext) -> None:
    if _always(branch) is None:
        return
    condition = branch.cond.owner
    subjects = tuple(filter(None, [context.id_of(condition), context.id_of(branch)]))
    word = "true" if taken == 0 else "false"
    reason = f"the condition is {word} for every input, the other way is never taken"
    context.decisions.append(Decision("branch", "cond_br", True, reason, {}, subjects))


def _drop_joins(function: FuncOp) -> bool:
    """An argument that is the same value on every way to its block is that value."""
    for block, edges in edges_into(function.body).items():
        if not edges:
            continue
        for argument in block.args:
            value = _only_value(argument, edges)
            if value is None:
                continue
            if isinstance(value.owner, ConstantOp):
                value = _constant_here(value.owner, block)
            value.name_hint = value.name_hint or argument.name_hint
            argument.replace_all_uses_with(value)
            remove_argument(argument, edges)
            return True
    return False


def _only_value(argument: BlockArgument, edges: tuple[Edge, ...]) -> SSAValue | None:
    passed = [edge.values[argument.index] for edge in edges]
    others = [value for value in passed if value is not argument]
    first = others[0] if others else None
    if first is None or not all(value is first or _equal(value, first) for value in others):
        return None
    return first


def _equal(one: SSAValue, other: SSAValue) -> bool:
    left, right = one.owner, other.owner
    if not isinstance(left, ConstantOp) or not isinstance(right, ConstantOp):
        return False
    return left.value == right.value and one.type == other.type


def _constant_here(constant: ConstantOp, block: Block) -> SSAValue:
    """The constant at the start of a block: those of the ways to it need not dominate it."""
    copy = constant.clone()
    copy.location = constant.location
    first = block.first_op
    assert first is not None
    block.insert_op_before(copy, first)
    return copy.result


def remove_argument(argument: BlockArgument, edges: tuple[Edge, ...]) -> None:
    """Remove an argument that nothing uses, and what every edge passes for it."""
    position = argument.index
    for edge in edges:
        edge.set_values([v for n, v in enumerate(edge.values) if n != position])
    argument.block.erase_arg(argument)


def _pass_through(function: FuncOp) -> bool:
    """Who goes to a block that only branches on goes where it goes."""
    edges = edges_into(function.body)
    for block in reachable_blocks(function.body)[1:]:
        branch = block.last_op
        if not isinstance(branch, BranchOp) or branch is not block.first_op or block.args:
            continue
        target = branch.successors[0]
        if target is block:
            continue
        for edge in edges[block]:
            ways = list(edge.branch.successors)
            ways[edge.index] = target
            edge.branch.successors = ways
            edge.set_values(list(branch.arguments))
        remove_unreachable(function.body)
        return True
    return False


def _merge_chains(function: FuncOp) -> bool:
    """A block that is reached from one ``cf.br`` alone continues the block of that."""
    for block, edges in edges_into(function.body).items():
        if len(edges) != 1 or not isinstance(edges[0].branch, BranchOp):
            continue
        source = edges[0].source
        if source is block:
            continue
        for argument, value in zip(block.args, edges[0].values, strict=True):
            value.name_hint = value.name_hint or argument.name_hint
            argument.replace_all_uses_with(value)
        branch = edges[0].branch
        branch.detach()
        branch.erase()
        for op in list(block.ops):
            op.detach()
            source.add_op(op)
        region = function.body
        region.detach_block(block)
        block.erase()
        return True
    return False
