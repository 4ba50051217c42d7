"""Who reads a value: ops that may share a kernel, ops that may not, and what leaves the block."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from wia_compiler.dialects.wia.ops import TensorOp, label_of


class Members(Protocol):
    """Ops that run together."""

    @property
    def members(self) -> Collection[TensorOp]:
        """The ops."""
        ...


def users_of(op: TensorOp) -> list[TensorOp]:
    """The ops of the language in the same block that read an op's result, each once."""
    users = (use.operation for use in op.result.uses)
    alike = (each for each in users if isinstance(each, TensorOp) and each.parent is op.parent)
    return list(dict.fromkeys(alike))


def written_for(op: TensorOp) -> list[str]:
    """For whom an op's result reaches memory whatever is fused: results, branches, other blocks.

    Nothing of the op's block waits for them, so a kernel may write the value on the way.
    """
    found: dict[str, None] = {}
    for use in op.result.uses:
        user = use.operation
        if isinstance(user, ReturnOp):
            found[_result_name(op.result)] = None
        elif user.has_trait(IsTerminator):
            found["the branch to another block"] = None
        elif user.parent is not op.parent:
            found[f"{label_of(user)} of another block"] = None
    return list(found)


def opaque_users(op: TensorOp) -> list[str]:
    """Ops of the block that read the result and that no kernel of tensor ops can hold."""
    users = (use.operation for use in op.result.uses)
    opaque = (
        each
        for each in users
        if not isinstance(each, TensorOp)
        and each.parent is op.parent
        and not each.has_trait(IsTerminator)
    )
    return [label_of(each) for each in dict.fromkeys(opaque)]


def _result_name(value: SSAValue) -> str:
    return f"the result {value.name_hint or ''}".strip()


def leads_to(sources: Members, targets: Members, kernels: Mapping[TensorOp, Members]) -> bool:
    """Whether ``targets`` need, directly or through other kernels, what ``sources`` compute."""
    wanted: set[Operation] = set(targets.members)
    seen: set[Operation] = set(sources.members)
    pending: list[Operation] = list(sources.members)
    while pending:
        for user in _readers(pending.pop()):
            if user in wanted:
                return True
            if user in seen:
                continue
            kernel = kernels.get(user) if isinstance(user, TensorOp) else None
            together: Collection[Operation] = (user,) if kernel is None else kernel.members
            fresh = [each for each in together if each not in seen]
            if not wanted.isdisjoint(fresh):
                return True
            seen.update(fresh)
            pending += fresh
    return False


def _readers(op: Operation) -> Iterator[Operation]:
    """Ops of the same block that read what an op makes; of a nested reader, the op around it."""
    for result in op.results:
        for use in result.uses:
            user: Operation | None = use.operation
            while user is not None and user.parent is not op.parent:
                user = user.parent_op()
            if user is not None:
                yield user


def depends_on(value: SSAValue, ops: Collection[Operation]) -> bool:
    """Whether a value is computed, through other ops, from results of ``ops``."""
    pending, seen = [value.owner], set[object]()
    while pending:
        op = pending.pop()
        if op in seen or isinstance(op, Block):
            continue
        if op in ops:
            return True
        seen.add(op)
        pending += [operand.owner for operand in op.operands]
    return False


def sort_block(block: Block) -> None:
    """Put each op after those whose results it needs, else in the order in which they stand."""
    ops = list(block.ops)
    position = {op: number for number, op in enumerate(ops)}
    needs: dict[Operation, set[Operation]] = {}
    readers: dict[Operation, list[Operation]] = {}
    for op in ops:
        made = {operand.owner for inner in op.walk() for operand in inner.operands}
        needs[op] = {each for each in made if isinstance(each, Operation) and each in position}
        needs[op].discard(op)
        for each in needs[op]:
            readers.setdefault(each, []).append(op)
    ready = [position[op] for op in ops if not needs[op]]
    heapq.heapify(ready)
    order: list[Operation] = []
    while ready:
        op = ops[heapq.heappop(ready)]
        order.append(op)
        for reader in readers.get(op, ()):
            needs[reader].discard(op)
            if not needs[reader]:
                heapq.heappush(ready, position[reader])
    if len(order) != len(ops):
        raise ValueError("kernels that wait for each other were made")
    if order == ops:
        return
    for op in ops:
        op.detach()
    block.add_ops(order)
