"""Blocks of a function: the order to visit them in, the edges between them, what dominates what.

A function of the high level holds one block, or several that end with ``cf.br``, ``cf.cond_br`` or
the function's one ``func.return``. Passes ask here, so that none of them minds which it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.cf import BranchOp, ConditionalBranchOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from wia_compiler.dialects.wia.ops import FusedOp


@dataclass(frozen=True)
class Edge:
    """One way from a block to the next: a branch and which of its successors."""

    branch: Operation
    index: int

    @property
    def source(self) -> Block:
        """The block that the branch ends."""
        block = self.branch.parent
        assert block is not None
        return block

    @property
    def target(self) -> Block:
        """The block that follows."""
        return self.branch.successors[self.index]

    @property
    def values(self) -> tuple[SSAValue, ...]:
        """What the target's arguments become, in order."""
        return tuple(edge_values(self.branch)[self.index])

    def set_values(self, values: Sequence[SSAValue]) -> None:
        """Pass these instead; the branch op stays the same object where it can."""
        match self.branch:
            case BranchOp():
                self.branch.operands = list(values)
            case ConditionalBranchOp():
                lists = [list(each) for each in edge_values(self.branch)]
                lists[self.index] = list(values)
                _replace_conditional(self.branch, lists[0], lists[1])
            case _:
                raise TypeError(f"{self.branch.name} passes nothing on")

    def set_value(self, position: int, value: SSAValue) -> None:
        """Pass another value for one argument of the target."""
        self.branch.operands[self._first_operand + position] = value

    @property
    def _first_operand(self) -> int:
        before = edge_values(self.branch)[: self.index]
        return (isinstance(self.branch, ConditionalBranchOp)) + sum(map(len, before))


def edge_values(branch: Operation) -> Sequence[Sequence[SSAValue]]:
    """For each successor of a block's last op, what it passes on."""
    match branch:
        case BranchOp():
            return [tuple(branch.arguments)]
        case ConditionalBranchOp():
            return [tuple(branch.then_arguments), tuple(branch.else_arguments)]
        case _:
            return []


def _replace_conditional(
    branch: ConditionalBranchOp, then_values: list[SSAValue], else_values: list[SSAValue]
) -> None:
    """Operands of other counts: the sizes of the segments are a property of the op."""
    then_block, else_block = branch.successors
    made = ConditionalBranchOp(branch.cond, then_block, then_values, else_block, else_values)
    branch.operands = list(made.operands)
    branch.properties = dict(made.properties)
    made.erase()


def copy_function(function: FuncOp) -> FuncOp:
    """A copy that also keeps what blocks are called."""
    copy = function.clone()
    for before, after in zip(function.body.blocks, copy.body.blocks, strict=True):
        after.name_hint = before.name_hint
    return copy


def reachable_blocks(region: Region) -> list[Block]:
    """The blocks that control reaches, each after those that dominate it (reverse post-order)."""
    first = region.blocks.first
    if first is None:
        return []
    if first.next_block is None:
        return [first]
    finished: list[Block] = []
    seen = {first}
    pending: list[tuple[Block, Iterator[Block]]] = [(first, _successors(first))]
    while pending:
        block, following = pending[-1]
        fresh = next((each for each in following if each not in seen), None)
        if fresh is None:
            finished.append(block)
            pending.pop()
        else:
            seen.add(fresh)
            pending.append((fresh, _successors(fresh)))
    return finished[::-1]


def _successors(block: Block) -> Iterator[Block]:
    """The last first, so that in the order of visits the first way comes first."""
    last = block.last_op
    return reversed(last.successors) if last is not None else iter(())


def walk_ops(function: FuncOp) -> Iterator[Operation]:
    """Every op of a function, producers before their users, with those in loops, not in kernels.

    The op that is given may be replaced or removed meanwhile.
    """
    for block in reachable_blocks(function.body):
        yield from _walk_block(block)


def _walk_block(block: Block) -> Iterator[Operation]:
    for op in list(block.ops):
        if op.parent is not block:
            continue
        yield op
        if op.parent is block and not isinstance(op, FusedOp):
            for region in op.regions:
                for inner in list(region.blocks):
                    yield from _walk_block(inner)


def edges_into(region: Region) -> Mapping[Block, tuple[Edge, ...]]:
    """The edges that lead to each block, from blocks that control reaches."""
    blocks = reachable_blocks(region)
    found: dict[Block, list[Edge]] = {block: [] for block in blocks}
    for block in blocks:
        last = block.last_op
        for index, target in enumerate(last.successors if last is not None else ()):
            assert last is not None
            found[target].append(Edge(last, index))
    return {block: tuple(edges) for block, edges in found.items()}


def immediate_dominators(region: Region) -> Mapping[Block, Block | None]:
    """For each reachable block, the closest other block that every way to it leads through.

    Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm (2001).
    """
    blocks = reachable_blocks(region)
    place = {block: number for number, block in enumerate(blocks)}
    edges = edges_into(region)
    found: dict[Block, Block] = {blocks[0]: blocks[0]} if blocks else {}

    def common(one: Block, other: Block) -> Block:
        while one is not other:
            while place[one] > place[other]:
                one = found[one]
            while place[other] > place[one]:
                other = found[other]
        return one

    changed = True
    while changed:
        changed = False
        for block in blocks[1:]:
            before = [edge.source for edge in edges[block] if edge.source in found]
            closest = before[0]
            for each in before[1:]:
                closest = common(closest, each)
            if found.get(block) is not closest:
                found[block] = closest
                changed = True
    return {block: None if found[block] is block else found[block] for block in blocks}


@dataclass(frozen=True)
class Dominance:
    """Which blocks of a region every way to a block leads through."""

    closest: Mapping[Block, Block | None]

    @staticmethod
    def of(region: Region) -> Dominance:
        """The dominance between the reachable blocks of a region."""
        return Dominance(immediate_dominators(region))

    def dominates(self, one: Block, other: Block) -> bool:
        """Whether every way to ``other`` leads through ``one``; a block dominates itself."""
        each: Block | None = other
        while each is not None:
            if each is one:
                return True
            each = self.closest.get(each)
        return False


def has_loop(region: Region) -> bool:
    """Whether an edge leads back to a block that comes before it or to itself."""
    place = {block: number for number, block in enumerate(reachable_blocks(region))}
    return any(
        place[edge.source] >= place[block]
        for block, edges in edges_into(region).items()
        for edge in edges
    )


def remove_unreachable(region: Region) -> int:
    """Remove the blocks that control does not reach; how many there were."""
    kept = set(reachable_blocks(region))
    dead = [block for block in region.blocks if block not in kept]
    for op in [op for block in dead for op in block.walk()]:
        op.operands = []
        op.successors = []
    for block in dead:
        region.detach_block(block)
        block.erase(safe_erase=False)
    return len(dead)


def used_outside(value: SSAValue, block: Block) -> bool:
    """Whether the last op of its block, or an op of another block, reads a value."""
    return any(
        use.operation.parent is not block or use.operation is block.last_op for use in value.uses
    )
