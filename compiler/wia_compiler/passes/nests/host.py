"""The host function: arrays for intermediates, views, a call for each nest, and branches.

A kernel of several blocks becomes a host function of several: an argument of a block is an array
that is made once, every branch copies to it what it passes on, and a condition is read from an
array of rank 0. What is done once (arrays, views, constants) stands at the start.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import FunctionType, UnitAttr
from xdsl.dialects.cf import BranchOp, ConditionalBranchOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from wia_compiler.base.record import Decision
from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.control import ConditionOp
from wia_compiler.dialects.wia.ops import ConstantOp, FusedOp, TensorOp, label_of
from wia_compiler.passes.control_flow import reachable_blocks
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.kernel_function import entry_of, return_of
from wia_compiler.passes.nests.attention import plan_attention
from wia_compiler.passes.nests.branches import Branches
from wia_compiler.passes.nests.groups import plan_group
from wia_compiler.passes.nests.host_arrays import HostArrays, Plan
from wia_compiler.passes.nests.loop_memory import lower_loop_nest, share_targets
from wia_compiler.passes.nests.movement import MOVEMENT, kind_of, moved_view
from wia_compiler.passes.nests.plan import Group, Result
from wia_compiler.passes.nests.refusal import NotOneNest
from wia_compiler.passes.nests.repeats import Written, shape_of, written
from wia_compiler.passes.nests.views import View, view

HOST = "wia.host"
"""Attribute of the function that allocates and calls nests."""


class HostLowering(HostArrays):
    """Lowers one kernel; ``strides`` are those of its inputs (``None``: C order)."""

    def __init__(
        self,
        kernel: func.FuncOp,
        strides: Sequence[tuple[int, ...] | None],
        context: PassContext,
    ):
        blocks = reachable_blocks(kernel.body)
        self.blocks = {block: Block() for block in blocks}
        for block, made in self.blocks.items():
            made.name_hint = block.name_hint
        self.entry = self.blocks[blocks[0]]
        once = self.entry if len(blocks) == 1 else Block()
        super().__init__(kernel.sym_name.data, context, self.entry, once)
        self.kernel = kernel
        self.targets: dict[SSAValue, View] = {}
        self.conditions: dict[SSAValue, SSAValue] = {}
        parameters = entry_of(kernel).args
        padded = [*strides, *([None] * (len(parameters) - len(strides)))]
        for argument, each in zip(parameters, padded, strict=True):
            self.arrays[argument] = self._parameter(argument, each)
        self.returned = tuple(return_of(kernel).operands)
        self.outputs = [self._parameter(value, None) for value in self.returned]
        for value, output in zip(self.returned, self.outputs, strict=True):
            if value.owner is not blocks[0] and not isinstance(value.owner, ConstantOp):
                self.targets.setdefault(value, output)
        share_targets(blocks, self.targets)
        for block in blocks[1:]:
            for argument in block.args:
                self.arrays[argument] = self._kept(argument)
        self.branches = Branches(self, kernel)
        self.written: dict[Hashable, Written] = {}

    def run(self) -> tuple[func.FuncOp, list[func.FuncOp]]:
        """The host function and the nests it calls; equal ones are one function."""
        name = self.kernel.sym_name.data
        for block, made in self.blocks.items():
            self.block = made
            for op in block.ops:
                self._lower(op, f"{name}_{label_of(op)}")
        if self.once is not self.entry:
            _prepend(self.once, self.entry)
        type = FunctionType.from_lists([argument.type for argument in self.entry.args], [])
        host = func.FuncOp(name, type, Region(self.branches.all_blocks(self.blocks.values())))
        host.attributes[HOST] = UnitAttr()
        host.location = self.kernel.location
        nests, decisions = self.nests.finish()
        self.context.decisions += decisions
        return host, nests

    def _kept(self, argument: BlockArgument) -> View:
        """The array of a block's argument: an output of the kernel, or one of its own."""
        target = self.targets.get(argument)
        return target if target is not None else self.allocate(argument, argument.location)

    def _parameter(self, value: SSAValue, strides: tuple[int, ...] | None) -> View:
        spec = spec_of(value.type)
        type = view(value, spec.shape, spec.dtype, strides).type
        argument = self.entry.insert_arg(type, len(self.entry.args))
        argument.name_hint = value.name_hint
        return view(argument, spec.shape, spec.dtype, strides)

    def _lower(self, op: Operation, name: str) -> None:
        match op:
            case ConstantOp():
                self.numbers[op.result] = op
            case FusedOp():
                self._fused(op)
            case TensorOp() if op.declaration.family == "movement":
                self._movement(op, name)
            case TensorOp():
                self._lone(op, name)
            case NestOp():
                lower_loop_nest(self, op, name)
            case ConditionOp():
                self.conditions[op.result] = self._condition(op)
            case func.ReturnOp():
                self._return(op)
            case BranchOp() | ConditionalBranchOp():
                self.branches.lower(op)
            case _:
                raise ValueError(f"{op.name} cannot stand in a kernel that becomes nests")

    def _condition(self, op: ConditionOp) -> SSAValue:
        """The bool that a nest has left in an array of rank 0."""
        load = memref.LoadOp.get(self.cast(self.array(op.input), op.location), [])
        load.res.name_hint = op.result.name_hint
        self.add(load, op.location)
        return load.res

    def _movement(self, op: TensorOp, name: str) -> None:
        """A movement op alone is another view of the same memory, where strides can say so."""
        number = self.numbers.get(op.arguments[0]) if op.arguments else None
        if number is not None and kind_of(op) in MOVEMENT:
            self.numbers[op.result] = number
            return
        source = self.arrays.get(op.arguments[0]) if op.arguments else None
        moved = moved_view(op, source) if source is not None else None
        if moved is None:
            self._lone(op, name)
        else:
            self.arrays[op.result] = moved

    def _lone(self, op: TensorOp, name: str) -> None:
        operands = {value: value for value in op.arguments}
        self._group(name, [op], operands, {op.result: op.result})

    def _fused(self, op: FusedOp) -> None:
        """One nest for a fused group; where one cannot express it, one for each of its ops."""
        name = op.kernel_name.data
        members = [each for each in op.body.block.ops if isinstance(each, TensorOp | ConstantOp)]
        outer: dict[SSAValue, SSAValue] = dict(zip(op.body.block.args, op.arguments, strict=True))
        pairs = list(zip(op.yielded, op.outputs, strict=True))
        results: dict[SSAValue, SSAValue] = {}
        for inner, result in pairs:
            results.setdefault(inner, result)
        try:
            self._group(name, members, outer, results)
        except NotOneNest as reason:
            subjects = (self.context.id_of(op),)
            refused = Decision("nest", name, False, str(reason), subjects=subjects)
            self.context.decisions.append(refused)
            self._split(name, members, outer, results)
        for inner, result in pairs:
            self.arrays[result] = self.arrays[results[inner]]

    def _split(
        self,
        name: str,
        members: Sequence[TensorOp | ConstantOp],
        outer: Mapping[SSAValue, SSAValue],
        results: Mapping[SSAValue, SSAValue],
    ) -> None:
        for inner, value in outer.items():
            if value in self.numbers:
                self.numbers[inner] = self.numbers[value]
            else:
                self.arrays[inner] = self.arrays[value]
        for inner, result in results.items():
            if result in self.targets:
                self.targets[inner] = self.targets[result]
        for member in members:
            self._lower(member, f"{name}_{label_of(member)}")
        for inner, result in results.items():
            self.arrays[result] = self.array(inner)

    def _group(
        self,
        name: str,
        ops: Sequence[TensorOp | ConstantOp],
        outer: Mapping[SSAValue, SSAValue],
        results: Mapping[SSAValue, SSAValue],
    ) -> None:
        """Plan a group, then add its intermediates, its nests and their calls."""
        for op in ops:
            if isinstance(op, TensorOp) and op.declaration.family == "contraction":
                self.materialize(outer.get(value) for value in op.arguments)
        location = merge_locations(ops)
        targets: dict[SSAValue, View] = {}
        allocations: dict[SSAValue, memref.AllocOp] = {}
        for inner, value in results.items():
            target = self.targets.get(value)
            if target is None:
                allocations[inner] = self.allocation(value)
                target = self.whole(allocations[inner].memref, value)
            targets[inner] = target
        group = Group(
            name,
            ops,
            {inner: self.arrays[value] for inner, value in outer.items() if value in self.arrays},
            {
                inner: self.numbers[value].number
                for inner, value in outer.items()
                if value not in self.arrays
            },
            [Result(inner, target) for inner, target in targets.items()],
        )
        shape, memory = shape_of(group)
        known = self.written.get(shape)
        plans = self._plans(group) if known is None else ()
        for allocation in allocations.values():
            self.add_once(allocation, location)
        for inner, value in results.items():
            self.arrays[value] = targets[inner]
        if known is not None:
            for call in known.again(memory):
                self.repeat(call, known.ops, ops, location)
            return
        made = written(group, [self.call(plan, name, ops, location) for plan in plans])
        if made is not None and not self.context.options.schedules:  # which may name one nest
            self.written[shape] = made

    def _plans(self, group: Group) -> Sequence[Plan]:
        facts = self.context.facts
        attention = plan_attention(group, facts, self.context.options.schedules, self.scratch)
        return attention or plan_group(group, masks_edges=facts.masks_edges)

    def _return(self, op: func.ReturnOp) -> None:
        """Copy to an output what no nest has written there."""
        for value, output in zip(self.returned, self.outputs, strict=True):
            if value not in self.arrays:
                self.fill(value, self.numbers[value], output)
            elif self.arrays[value] != output:
                self.copy(value, self.arrays[value], output, _maker(value, op))
        self.add(func.ReturnOp(), self.kernel.location)


def _maker(value: SSAValue, otherwise: Operation) -> Operation:
    return value.owner if isinstance(value.owner, Operation) else otherwise


def _prepend(first: Block, block: Block) -> None:
    """Move the ops of a block to the start of another."""
    start = block.first_op
    for op in list(first.ops):
        op.detach()
        if start is None:
            block.add_op(op)
        else:
            block.insert_op_before(op, start)
