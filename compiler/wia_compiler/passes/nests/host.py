"""The host function: arrays for intermediates, views, and a call for each nest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import FunctionType, LocationAttr, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from wia_compiler.base.record import Decision
from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import ConstantOp, FusedOp, TensorOp, label_of
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.nests.groups import plan_group
from wia_compiler.passes.nests.movement import moved_view
from wia_compiler.passes.nests.plan import Group, NestPlan, NotOneNest, Result
from wia_compiler.passes.nests.share import SharedNests
from wia_compiler.passes.nests.views import View, memref_type, row_major, view
from wia_compiler.passes.nests.writer import NestWriter, arrays_of

HOST = "wia.host"
"""Attribute of the function that allocates and calls nests."""


class HostLowering:
    """Lowers one kernel; ``strides`` are those of its inputs (``None``: C order)."""

    def __init__(
        self,
        kernel: func.FuncOp,
        strides: Sequence[tuple[int, ...] | None],
        context: PassContext,
    ):
        self.kernel = kernel
        self.context = context
        self.block = Block()
        self.nests = SharedNests({kernel.sym_name.data})
        self.arrays: dict[SSAValue, View] = {}
        self.numbers: dict[SSAValue, ConstantOp] = {}
        self.targets: dict[SSAValue, View] = {}
        self.casts: dict[View, SSAValue] = {}
        body = kernel.body.block
        padded = [*strides, *([None] * (len(body.args) - len(strides)))]
        for argument, each in zip(body.args, padded, strict=True):
            self.arrays[argument] = self._parameter(argument, each)
        last = body.last_op
        self.returned = tuple(last.operands) if isinstance(last, func.ReturnOp) else ()
        self.outputs = [self._parameter(value, None) for value in self.returned]
        for value, output in zip(self.returned, self.outputs, strict=True):
            if isinstance(value.owner, Operation) and not isinstance(value.owner, ConstantOp):
                self.targets.setdefault(value, output)

    def run(self) -> tuple[func.FuncOp, list[func.FuncOp]]:
        """The host function and the nests it calls; equal ones are one function."""
        name = self.kernel.sym_name.data
        for op in self.kernel.body.block.ops:
            self._lower(op, f"{name}_{label_of(op)}")
        self._add(func.ReturnOp(), self.kernel.location)
        type = FunctionType.from_lists([argument.type for argument in self.block.args], [])
        host = func.FuncOp(name, type, Region(self.block))
        host.attributes[HOST] = UnitAttr()
        host.location = self.kernel.location
        nests, decisions = self.nests.finish()
        self.context.decisions += decisions
        return host, nests

    def _parameter(self, value: SSAValue, strides: tuple[int, ...] | None) -> View:
        spec = spec_of(value.type)
        type = view(value, spec.shape, spec.dtype, strides).type
        argument = self.block.insert_arg(type, len(self.block.args))
        argument.name_hint = value.name_hint
        return view(argument, spec.shape, spec.dtype, strides)

    def _add(self, op: Operation, location: LocationAttr) -> None:
        op.location = location
        self.block.add_op(op)

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
            case func.ReturnOp():
                self._return(op)
            case _:
                raise ValueError(f"{op.name} cannot stand in a kernel that becomes nests")

    def _movement(self, op: TensorOp, name: str) -> None:
        """A movement op alone is another view of the same memory, where strides can say so."""
        source = op.arguments[0]
        if source in self.numbers:
            self.numbers[op.result] = self.numbers[source]
            return
        moved = moved_view(op, self.arrays[source])
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
            self.arrays[result] = self._array(inner)

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
                self._materialize(outer.get(value) for value in op.arguments)
        allocations: list[memref.AllocOp] = []
        targets: dict[SSAValue, View] = {}
        for inner, value in results.items():
            target = self.targets.get(value)
            if target is None:
                allocations.append(self._allocation(value))
                target = self._whole(allocations[-1].memref, value)
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
        plans = plan_group(group)
        location = merge_locations(ops)
        for allocation in allocations:
            self._add(allocation, location)
        for inner, value in results.items():
            self.arrays[value] = targets[inner]
        for plan in plans:
            self._call(plan, name, ops, location)

    def _call(
        self, plan: NestPlan, name: str, ops: Sequence[Operation], location: LocationAttr
    ) -> None:
        """Call the plan's nest, which was made from ``ops``, or one that is equal to it."""
        subjects = [self.context.id_of(_listed(op)) for op in ops]
        callee = self.nests.add(NestWriter(plan).function(name), subjects)
        arguments = [self._cast(array, location) for array in arrays_of(plan)]
        self._add(func.CallOp(callee, arguments, []), location)

    def _cast(self, array: View, location: LocationAttr) -> SSAValue:
        """The array's memref; a ``memref.reinterpret_cast`` where its sizes or strides differ."""
        if array.value.type == array.type:
            return array.value
        known = self.casts.get(array)
        if known is None:
            cast = memref.ReinterpretCastOp(
                array.value, [], [], [], [0], array.shape, array.strides, array.type
            )
            cast.result.name_hint = array.value.name_hint
            self._add(cast, location)
            known = self.casts[array] = cast.result
        return known

    def _allocation(self, value: SSAValue) -> memref.AllocOp:
        spec = spec_of(value.type)
        type = memref_type(spec.shape, row_major(spec.shape), spec.dtype)
        op = memref.AllocOp([], [], type)
        op.memref.name_hint = value.name_hint
        return op

    def _whole(self, memory: SSAValue, value: SSAValue) -> View:
        spec = spec_of(value.type)
        return view(memory, spec.shape, spec.dtype)

    def _materialize(self, values: Iterable[SSAValue | None]) -> None:
        """Give numbers that a contraction reads an array: its leaf has two arrays as operands."""
        for value in values:
            if value is not None and value not in self.arrays:
                self._array(value)

    def _array(self, value: SSAValue) -> View:
        """The array of a value; a number is written to one first."""
        if value not in self.arrays:
            constant = self.numbers[value]
            allocation = self._allocation(value)
            self._add(allocation, constant.location)
            target = self._whole(allocation.memref, value)
            self._fill(value, constant, target)
            self.arrays[value] = target
        return self.arrays[value]

    def _fill(self, value: SSAValue, constant: ConstantOp, target: View) -> None:
        numbers = {value: constant.number}
        group = Group("fill", [constant], {}, numbers, [Result(value, target)])
        for plan in plan_group(group):
            name = f"{self.kernel.sym_name.data}_fill"
            self._call(plan, name, [constant], constant.location)

    def _return(self, op: func.ReturnOp) -> None:
        """Copy to an output what no nest has written there."""
        for value, output in zip(self.returned, self.outputs, strict=True):
            if value not in self.arrays:
                self._fill(value, self.numbers[value], output)
                continue
            array = self.arrays[value]
            if array == output:
                continue
            group = Group("copy", [], {value: array}, {}, [Result(value, output)])
            for plan in plan_group(group):
                name, maker = f"{self.kernel.sym_name.data}_copy", _maker(value, op)
                self._call(plan, name, [maker], maker.location)


def _listed(op: Operation) -> Operation:
    """The op that decisions speak of: a fused group for what it holds."""
    parent = op.parent_op()
    return parent if isinstance(parent, FusedOp) else op


def _maker(value: SSAValue, otherwise: Operation) -> Operation:
    return value.owner if isinstance(value.owner, Operation) else otherwise
