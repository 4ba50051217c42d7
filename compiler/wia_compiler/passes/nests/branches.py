"""The branches of a host function, with the copies that they make on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from xdsl.dialects.builtin import LocationAttr
from xdsl.dialects.cf import BranchOp, ConditionalBranchOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from wia_compiler.base.record import Decision
from wia_compiler.dialects.wia.ops import ConstantOp
from wia_compiler.passes.control_flow import Edge
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.nests.edge_copies import EdgeCopy, in_order, written_in_place
from wia_compiler.passes.nests.views import View


class HostWriter(Protocol):
    """What writes the rest of the host function: ``HostLowering``."""

    context: PassContext
    block: Block
    blocks: dict[Block, Block]
    arrays: dict[SSAValue, View]
    numbers: dict[SSAValue, ConstantOp]
    targets: dict[SSAValue, View]
    conditions: dict[SSAValue, SSAValue]

    def add(self, op: Operation, location: LocationAttr) -> None:
        """Append an op to the current block."""
        ...

    def allocate(self, value: SSAValue, location: LocationAttr) -> View:
        """A new array for a value."""
        ...

    def fill(self, value: SSAValue, constant: ConstantOp, target: View) -> None:
        """Write a number to an array."""
        ...

    def copy(self, value: SSAValue, source: View, target: View, maker: Operation) -> None:
        """Copy an array to another."""
        ...


class Branches:
    """Lowers ``cf.br`` and ``cf.cond_br`` of one kernel.

    What a block makes only to pass it on is written to the argument's array from the start where
    nothing reads that array in between (``edge_copies.written_in_place``).
    """

    def __init__(self, host: HostWriter, kernel: FuncOp):
        self.host = host
        self._between: dict[Block, list[Block]] = {}
        self._temporaries: dict[object, list[View]] = {}
        self.in_place = written_in_place(kernel)
        for value, argument in self.in_place.items():
            host.targets.setdefault(value, host.arrays[argument])
            self._record(value, argument)

    def lower(self, branch: BranchOp | ConditionalBranchOp) -> None:
        """Write a branch to the current block, after the copies of its edges."""
        if isinstance(branch, BranchOp):
            self._copies(Edge(branch, 0))
            self.host.add(BranchOp(self.host.blocks[branch.successor]), branch.location)
            return
        here = self.host.block
        ways = [self._way(Edge(branch, index), here) for index in (0, 1)]
        self.host.block = here
        condition = self.host.conditions[branch.cond]
        made = ConditionalBranchOp(condition, ways[0], [], ways[1], [])
        self.host.add(made, branch.location)

    def all_blocks(self, blocks: Iterable[Block]) -> list[Block]:
        """The blocks of the host function in order, those of edges after where they leave."""
        return [each for block in blocks for each in (block, *self._between.get(block, ()))]

    def _way(self, edge: Edge, here: Block) -> Block:
        """Where an edge of a conditional branch leads: a block of its own where it copies."""
        target = self.host.blocks[edge.target]
        self.host.block = Block()
        self._copies(edge)
        if self.host.block.first_op is None:
            return target
        self.host.add(BranchOp(target), edge.branch.location)
        self._between.setdefault(here, []).append(self.host.block)
        return self.host.block

    def _copies(self, edge: Edge) -> None:
        host, used = self.host, dict[object, int]()
        numbers: list[tuple[SSAValue, View]] = []
        copies: list[EdgeCopy] = []
        for value, argument in zip(edge.values, edge.target.args, strict=True):
            target = host.arrays[argument]
            if value in host.arrays:
                copies.append(EdgeCopy(target, host.arrays[value], value))
            else:
                numbers.append((value, target))
        for copy in in_order(copies, lambda copy: self._temporary(copy, used, edge)):
            maker = copy.value.owner if isinstance(copy.value.owner, Operation) else edge.branch
            host.copy(copy.value, copy.source, copy.target, maker)
        for value, target in numbers:
            host.fill(value, host.numbers[value], target)

    def _temporary(self, copy: EdgeCopy, used: dict[object, int], edge: Edge) -> View:
        """An array for what would be overwritten too early; branches share them."""
        key = (copy.target.shape, copy.target.dtype)
        known = self._temporaries.setdefault(key, [])
        number = used.get(key, 0)
        used[key] = number + 1
        if number == len(known):
            known.append(self.host.allocate(copy.value, edge.branch.location))
        return known[number]

    def _record(self, value: SSAValue, argument: BlockArgument) -> None:
        name = argument.name_hint or "a value"
        maker = value.owner
        subjects = [self.host.context.id_of(maker)]
        reason = f"nothing reads the array of {name} after its new value is made: no copy"
        self.host.context.decisions.append(
            Decision("in place", name, True, reason, {}, tuple(filter(None, subjects)))
        )
