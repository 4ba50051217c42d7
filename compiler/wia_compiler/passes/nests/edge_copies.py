"""What a branch passes on: the arrays of a block's arguments, and the order in which to fill them.

All arguments take their new values at once (``a, b = b, a + b``), while copies run one by one: an
array is overwritten after every other copy has read it, and a ring of copies goes through a
temporary array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from xdsl.dialects.cf import BranchOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from wia_compiler.dialects.wia.ops import ConstantOp, FusedOp, TensorOp
from wia_compiler.passes.control_flow import reachable_blocks
from wia_compiler.passes.nests.views import View


@dataclass(frozen=True)
class EdgeCopy:
    """``target`` becomes what ``source`` holds; ``value`` is the value that is passed."""

    target: View
    source: View
    value: SSAValue

    @property
    def overlaps(self) -> bool:
        """Whether an array is filled from itself in another order of its elements."""
        return self.source.value is self.target.value


def in_order(copies: Iterable[EdgeCopy], temporary: Callable[[EdgeCopy], View]) -> list[EdgeCopy]:
    """The copies in an order in which each reads what was there before the branch.

    ``temporary`` gives an array for a copy's source, where only that helps.
    """
    pending = [copy for copy in copies if copy.source != copy.target]
    ordered: list[EdgeCopy] = []
    while pending:
        ready = next((copy for copy in pending if _may_run(copy, pending)), None)
        if ready is not None:
            pending.remove(ready)
            ordered.append(ready)
            continue
        copy = pending[0]
        saved = temporary(copy)
        ordered.append(EdgeCopy(saved, copy.source, copy.value))
        pending[0] = replace(copy, source=saved)
    return ordered


def _may_run(copy: EdgeCopy, pending: list[EdgeCopy]) -> bool:
    read = (other.source.value for other in pending if other is not copy)
    return not copy.overlaps and all(memory is not copy.target.value for memory in read)


def written_in_place(function: FuncOp) -> Mapping[SSAValue, BlockArgument]:
    """Values that may be written straight to the array of the argument they are passed as.

    Such a value is made in the block that passes it on, used for nothing else, and nothing reads
    the argument's array from there to the end of the block.
    """
    found: dict[SSAValue, BlockArgument] = {}
    for block in reachable_blocks(function.body):
        branch = block.last_op
        if not isinstance(branch, BranchOp):
            continue
        for value, argument in zip(branch.arguments, branch.successor.args, strict=True):
            maker = value.owner
            if not isinstance(maker, Operation) or maker.parent is not block:
                continue
            if isinstance(maker, ConstantOp) or not value.has_one_use():
                continue
            if not _reads_after(maker, _aliases(argument), block):
                found[value] = argument
    return found


def _aliases(argument: BlockArgument) -> set[SSAValue]:
    """An argument and what may be a view of its array."""
    found: set[SSAValue] = {argument}
    pending: list[SSAValue] = [argument]
    while pending:
        for use in pending.pop().uses:
            for result in _views_made(use.operation, use.index):
                if result not in found:
                    found.add(result)
                    pending.append(result)
    return found


def _views_made(op: Operation, operand: int) -> list[SSAValue]:
    """The results of an op that may be another view of one of its operands."""
    if isinstance(op, TensorOp):
        return [op.result] if op.declaration.family == "movement" else []
    if not isinstance(op, FusedOp):
        return []
    moved: set[SSAValue] = {op.body.block.args[operand]}
    for inner in op.body.block.ops:
        if isinstance(inner, TensorOp) and inner.declaration.family == "movement":
            moved.update(inner.results if not moved.isdisjoint(inner.operands) else ())
    pairs = zip(op.yielded, op.outputs, strict=True)
    return [result for inner, result in pairs if inner in moved]


def _reads_after(maker: Operation, values: set[SSAValue], block: Block) -> bool:
    """Whether an op of the block reads one of the values, from ``maker`` on."""
    op: Operation | None = maker
    while op is not None:
        if any(operand in values for operand in op.operands):
            return True
        op = op.next_op
    return False
