"""A ``loop.nest`` as a nest function of point code: ``scf``, ``memref``, ``arith`` and ``math``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import FunctionType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.record import Decision
from wia_compiler.dialects import tile
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_arrays import LocalOp
from wia_compiler.dialects.loop_control import ForOp, IfOp, WhileOp
from wia_compiler.dialects.loop_elements import ConditionOp, LoadOp, StoreOp, YieldOp
from wia_compiler.dialects.tile_points import SCALAR_DIALECTS, axis_loop
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.loops.independence import Independence
from wia_compiler.passes.loops.values import integer_of
from wia_compiler.passes.nests.body import scalar_type
from wia_compiler.passes.nests.casts import cast_scalar
from wia_compiler.passes.nests.loop_trips import counted_range
from wia_compiler.passes.nests.point_access import PointAccess
from wia_compiler.passes.nests.point_body import INDEX, PointBody
from wia_compiler.passes.nests.scalars import apply_scalar
from wia_compiler.passes.nests.views import View
from wia_compiler.passes.nests.writer import NEST


@dataclass
class LoopNest:
    """One nest on its way to a function.

    ``arrays`` are the memory of each operand that is read (``numbers`` of one that is a number),
    ``targets`` the memory of each result; an array that the nest changes is its target. ``checks``
    numbers the checks of the module, ``debug`` checks every access, ``id_of`` is the context's.
    ``axis_names`` has the name in the text of each axis of the function, once that is made.
    """

    op: NestOp
    arrays: Mapping[SSAValue, View]
    numbers: Mapping[SSAValue, ConstantOp]
    targets: Sequence[View]
    checks: Iterator[int]
    id_of: Callable[[object], str]
    debug: bool = False
    decisions: list[Decision] = field(default_factory=list[Decision])
    axis_names: dict[str, str] = field(default_factory=dict[str, str])

    def memory(self) -> list[View]:
        """The arguments of the function: what is read, then what is written."""
        written = set(self.op.written)
        read = [
            self.arrays[value]
            for position, value in enumerate(self.op.arguments)
            if position not in written and value in self.arrays
        ]
        return [*dict.fromkeys(read), *self.targets]

    def function(self, name: str) -> func.FuncOp:
        """The nest as ``func.func @name`` over ``memory()``."""
        arguments = self.memory()
        block = Block(arg_types=[each.type for each in arguments])
        for argument, each in zip(block.args, arguments, strict=True):
            argument.name_hint = each.value.name_hint
        memory = dict(zip(arguments, block.args, strict=True))
        for target, result in zip(self.targets, self.op.outputs, strict=True):
            memory[target].name_hint = result.name_hint
        _Writer(self, block, memory).run()
        made_type = FunctionType.from_lists([each.type for each in arguments], [])
        made = func.FuncOp(name, made_type, Region(block))
        made.attributes[NEST] = UnitAttr()
        made.location = self.op.location
        return made


class _Writer:
    def __init__(self, nest: LoopNest, block: Block, memory: Mapping[View, SSAValue]):
        self.nest = nest
        self.memory = memory
        self.body = PointBody(block)
        self.body.location = nest.op.location
        self.axes: list[str] = []
        self.access = PointAccess(self.body, nest.checks, nest.debug, self._axis)
        self.values, self.buffers = self.access.values, self.access.buffers
        self.independence = Independence(nest.op, nest.id_of)

    def run(self) -> None:
        """Write the whole nest."""
        op = self.nest.op
        inner = op.body.block.args
        written = op.written
        for place, position in enumerate(written):
            self.buffers[inner[position]] = self.memory[self.nest.targets[place]]
        for position, value in enumerate(op.arguments):
            if position not in written:
                self._operand(inner[position], value)
        self._block(op.body.block)
        for value, target in zip(op.yielded, self.nest.targets[len(written) :], strict=True):
            self._add(memref.StoreOp.get(self.values[value], self.memory[target], []))
        self._add(func.ReturnOp())
        _remove_unused(self.body.entry)
        self.nest.decisions += self.independence.decisions

    def _operand(self, inner: SSAValue, value: SSAValue) -> None:
        spec = spec_of(inner.type)
        number = self.nest.numbers.get(value)
        if value not in self.nest.arrays and number is not None:
            self.values[inner] = self.body.constant(number.number, spec.dtype)
        elif spec.rank:
            self.buffers[inner] = self.memory[self.nest.arrays[value]]
        else:
            load = memref.LoadOp.get(self.memory[self.nest.arrays[value]], [])
            load.res.name_hint = inner.name_hint
            self.values[inner] = self.body.add(load)

    def _add(self, op: Operation) -> None:
        op.location = self.body.location
        self.body.block.add_op(op)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self.body.location = op.location
            match op:
                case ForOp():
                    self._for(op)
                case WhileOp():
                    self._while(op)
                case IfOp():
                    self._if(op)
                case LoadOp():
                    self.access.load(op)
                case StoreOp():
                    self.access.store(op)
                case LocalOp():
                    self.access.local(op)
                case YieldOp() | ConditionOp():
                    pass
                case ConstantOp():
                    number = self.body.constant(op.number, spec_of(op.result.type).dtype)
                    self.values[op.result] = number
                case TensorOp():
                    self._scalar(op)
                case _:
                    raise ValueError(f"{op.name} cannot stand in a nest that becomes point code")

    def _scalar(self, op: TensorOp) -> None:
        operands = [self.values[each] for each in op.arguments]
        dtype = spec_of(op.arguments[-1].type).dtype
        if op.declaration.name == "cast":
            made = cast_scalar(self.body, operands[0], dtype, DTYPES[str(op.values["dtype"])])
        else:
            made = apply_scalar(self.body, op.declaration.name, dtype, operands)
        self._name(made, op.result, operands)
        self.values[op.result] = made

    def _name(self, made: SSAValue, value: SSAValue, operands: Sequence[SSAValue]) -> None:
        if made.name_hint is None and made not in operands:
            made.name_hint = value.name_hint

    def _axis(self, name: str) -> str:
        """A name for an axis that no other loop of the nest has."""
        names = itertools.chain((name,), (f"{name}{number}" for number in itertools.count(2)))
        unique = next(each for each in names if each not in self.axes)
        self.axes.append(unique)
        self.nest.axis_names[unique] = name
        return unique

    def _for(self, op: ForOp) -> None:
        bounds = [integer_of(each) for each in (op.lower, op.upper, op.step)]
        lower, upper, step = bounds
        if lower is not None and upper is not None and upper <= lower:
            for result, start in zip(op.outputs, op.carried, strict=True):
                self.values[result] = self.values[start]
            return
        independent = self.independence.of(op)
        known = lower is not None and upper is not None and step is not None
        block = self.body.block
        at_top = block is self.body.entry or isinstance(block.parent_op(), tile.ForOp)
        if independent and known and at_top and not op.carried:
            assert lower is not None and upper is not None and step is not None
            self._parallel(op, lower, upper - lower, step)
        else:
            self._serial(op, independent)

    def _parallel(self, op: ForOp, first: int, extent: int, step: int) -> None:
        loop = tile.ForOp(f"{self._axis(op.axis.data)}.0", extent, step)
        self._add(loop)
        here, self.body.block = self.body.block, loop.body.block
        place = loop.induction_variable
        if first:
            place = self.body.add(arith.AddiOp(place, self.body.index(first)))
        place.name_hint = op.axis.data
        self.values[op.variable] = self.body.from_index(place)
        self._block(op.body.block)
        self.body.block = here
        self.body.location = op.location

    def _serial(self, op: ForOp, independent: bool) -> None:
        span = counted_range(self.body, op, self.access.index, self.access.check)
        types = [INDEX, *(scalar_type(spec_of(each.type).dtype) for each in op.carried)]
        starts = [self.values[each] for each in op.carried]
        with self.body.region(types) as block:
            variable, *carried = block.args
            variable.name_hint = op.axis.data
            self.values[op.variable] = span.value(self.body, variable)
            self._carry(op.body.block.args[1:], carried)
            self._block(op.body.block)
            self.body.location = op.location
            self._add(scf.YieldOp(*(self.values[each] for each in op.yielded)))
        loop = axis_loop(
            scf.ForOp(span.lower, span.upper, span.step, starts, Region(block)),
            self._axis(op.axis.data),
        )
        if independent:
            loop.attributes["wia.independent"] = UnitAttr()
        self._add(loop)
        self._results(op.outputs, loop.results)

    def _carry(self, inner: Sequence[SSAValue], made: Sequence[SSAValue]) -> None:
        for value, each in zip(inner, made, strict=True):
            each.name_hint = value.name_hint
            self.values[value] = each

    def _results(self, results: Sequence[SSAValue], made: Sequence[SSAValue]) -> None:
        self._carry(results, made)

    def _while(self, op: WhileOp) -> None:
        types: list[Attribute] = [scalar_type(spec_of(each.type).dtype) for each in op.carried]
        starts = [self.values[each] for each in op.carried]
        with self.body.region(types) as test:
            self._carry(op.test.block.args, test.args)
            self._block(op.test.block)
            self.body.location = op.location
            self._add(scf.ConditionOp(self.values[op.condition], *test.args))
        with self.body.region(types) as block:
            self._carry(op.body.block.args, block.args)
            self._block(op.body.block)
            self.body.location = op.location
            self._add(scf.YieldOp(*(self.values[each] for each in op.yielded)))
        loop = scf.WhileOp(starts, types, Region(test), Region(block))
        self._add(loop)
        self._results(op.outputs, loop.results)

    def _if(self, op: IfOp) -> None:
        types = [scalar_type(spec_of(each.type).dtype) for each in op.outputs]
        regions: list[Region] = []
        for number, region in enumerate((op.then, op.otherwise)):
            with self.body.region() as block:
                self._block(region.block)
                self.body.location = op.location
                values = [pair[number] for pair in op.yielded()]
                self._add(scf.YieldOp(*(self.values[each] for each in values)))
            regions.append(Region(block))
        branch = scf.IfOp(self.values[op.condition], types, regions[0], regions[1])
        self._add(branch)
        self._results(op.outputs, branch.results)


def _remove_unused(block: Block) -> None:
    """Remove scalar ops that nothing uses: a loop's variable as an i64, constants of indices."""
    for op in reversed(list(block.walk())):
        scalar = op.name.partition(".")[0] in SCALAR_DIALECTS
        if scalar and all(result.first_use is None for result in op.results):
            op.detach()
            op.erase()
