"""The memory of a host function: arrays, views of them, and the calls of nests that fill them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import IntegerAttr, LocationAttr, i64
from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.base.dtypes import DType
from wia_compiler.dialects.tile_places import LookupOp
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.walk import walk
from wia_compiler.dialects.wia.ops import ConstantOp, FusedOp
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.nests.attention import AttentionNest
from wia_compiler.passes.nests.attention_parts import JoinNest, PartNest
from wia_compiler.passes.nests.groups import plan_group
from wia_compiler.passes.nests.plan import Group, NestPlan, Result
from wia_compiler.passes.nests.repeats import Call
from wia_compiler.passes.nests.share import SharedNests
from wia_compiler.passes.nests.views import View, memref_type, row_major, view
from wia_compiler.passes.nests.writer import NestWriter

Plan = NestPlan | AttentionNest | PartNest | JoinNest


class HostArrays:
    """What values of a kernel are in memory: ``arrays``, or ``numbers`` that need none.

    Ops are added to ``block``; those that run once, however often the block does, to ``once``.
    """

    def __init__(self, name: str, context: PassContext, block: Block, once: Block):
        self.name = name
        self.context = context
        self.block = block
        self.once = once
        self.nests = SharedNests({name})
        self.arrays: dict[SSAValue, View] = {}
        self.numbers: dict[SSAValue, ConstantOp] = {}
        self.casts: dict[View, SSAValue] = {}
        self.checks = itertools.count()

    def add(self, op: Operation, location: LocationAttr) -> None:
        """Append an op to the block that is being written."""
        op.location = location
        self.block.add_op(op)

    def add_once(self, op: Operation, location: LocationAttr) -> None:
        """Append an op that runs once, however often the block that needs it does."""
        op.location = location
        self.once.add_op(op)

    def call(
        self,
        plan: Plan,
        name: str,
        ops: Sequence[Operation],
        location: LocationAttr,
    ) -> Call | None:
        """Call the plan's nest, which was made from ``ops``, or one that is equal to it.

        The call, where it may be made again on other arrays: checks have a number of their own.
        """
        written = NestWriter(plan) if isinstance(plan, NestPlan) else plan
        nest = written.function(name)
        checked = [op for op in walk(nest) if isinstance(op, LookupOp) and op.checked_axes]
        for lookup in checked:
            lookup.number = IntegerAttr(next(self.checks), i64)
        callee = self.nests.add(nest, self._subjects(ops))
        call = Call(callee, tuple(written.arrays))
        self._add_call(call, location)
        return None if checked else call

    def repeat(
        self, call: Call, before: Sequence[Operation], ops: Sequence[Operation], at: LocationAttr
    ) -> None:
        """Make a call for ``ops`` that was made for those ``before``; its arrays are theirs."""
        self.nests.repeat(call.callee, before, ops, self._subjects(ops))
        self._add_call(call, at)

    def _subjects(self, ops: Sequence[Operation]) -> list[str]:
        return [self.context.id_of(_listed(op)) for op in ops]

    def _add_call(self, call: Call, location: LocationAttr) -> None:
        arguments = [self.cast(array, location) for array in call.arrays]
        self.add(func.CallOp(call.callee, arguments, []), location)

    def cast(self, array: View, location: LocationAttr) -> SSAValue:
        """The array's memref; a ``memref.reinterpret_cast`` where its sizes or strides differ."""
        if array.value.type == array.type:
            return array.value
        known = self.casts.get(array)
        if known is None:
            cast = memref.ReinterpretCastOp(
                array.value, [], [], [], [0], array.shape, array.strides, array.type
            )
            cast.result.name_hint = array.value.name_hint
            self.add_once(cast, location)
            known = self.casts[array] = cast.result
        return known

    def allocate(self, value: SSAValue, location: LocationAttr) -> View:
        """A new array for a value of the kernel."""
        allocation = self.allocation(value)
        self.add_once(allocation, location)
        return self.whole(allocation.memref, value)

    def allocation(self, value: SSAValue) -> memref.AllocOp:
        """The op that makes an array for a value of the kernel."""
        spec = spec_of(value.type)
        type = memref_type(spec.shape, row_major(spec.shape), spec.dtype)
        op = memref.AllocOp([], [], type)
        op.memref.name_hint = value.name_hint
        return op

    def scratch(
        self, name: str, shape: Sequence[int], dtype: DType, location: LocationAttr
    ) -> View:
        """A new array for what one nest leaves to another."""
        op = memref.AllocOp([], [], memref_type(shape, row_major(shape), dtype))
        op.memref.name_hint = name
        self.add_once(op, location)
        return view(op.memref, shape, dtype)

    def whole(self, memory: SSAValue, value: SSAValue) -> View:
        """All of an array that was made for a value."""
        spec = spec_of(value.type)
        return view(memory, spec.shape, spec.dtype)

    def materialize(self, values: Iterable[SSAValue | None]) -> None:
        """Give numbers that a contraction reads an array: its leaf has two arrays as operands."""
        for value in values:
            if value is not None and value not in self.arrays:
                self.array(value)

    def array(self, value: SSAValue) -> View:
        """The array of a value; a number is written to one first, once."""
        if value not in self.arrays:
            constant = self.numbers[value]
            target = self.allocate(value, constant.location)
            here, self.block = self.block, self.once
            self.fill(value, constant, target)
            self.block = here
            self.arrays[value] = target
        return self.arrays[value]

    def fill(self, value: SSAValue, constant: ConstantOp, target: View) -> None:
        """Call a nest that writes a number to every element of an array."""
        numbers = {value: constant.number}
        group = Group("fill", [constant], {}, numbers, [Result(value, target)])
        for plan in plan_group(group):
            name = f"{self.name}_fill"
            self.call(plan, name, [constant], constant.location)

    def copy(self, value: SSAValue, source: View, target: View, maker: Operation) -> None:
        """Call a nest that copies one array to another, for what ``maker`` stands for."""
        group = Group("copy", [], {value: source}, {}, [Result(value, target)])
        for plan in plan_group(group):
            plan.leaves = [replace(leaf, ops=[maker]) for leaf in plan.leaves]
            for op in (op for leaf in plan.leaves for op in leaf.body.walk()):
                op.location = maker.location
            self.call(plan, f"{self.name}_copy", [maker], maker.location)


def _listed(op: Operation) -> Operation:
    """The op that decisions speak of: a fused group for what it holds."""
    parent = op.parent_op()
    return parent if isinstance(parent, FusedOp) else op
