"""Runs a typed ``loop.nest`` in the order in which it is written, one element at a time.

Each scalar op rounds once to its dtype, as the same op over tensors does. Arrays that the nest
changes are copies of its operands. An access outside its array is an ``OutOfRangeError``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.base.errors import OutOfRangeError
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_arrays import LocalOp
from wia_compiler.dialects.loop_control import ForOp, IfOp, WhileOp
from wia_compiler.dialects.loop_elements import ConditionOp, LoadOp, StoreOp, YieldOp
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.reference.meaning import evaluate
from wia_compiler.reference.rounding import Array

Values: TypeAlias = "list[Any]"
"""What every value of a nest is at a moment: numpy scalars and arrays, by number of the value."""
Step: TypeAlias = Callable[[Values], None]

_EXACT = ("f32", "f64", "i64", "i32", "i16", "i8", "u8")
"""Dtypes whose numpy scalars compute as the contract says: rounded or wrapped once."""
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def run_loop_nest(nest: NestOp, operands: Sequence[Array]) -> list[Array]:
    """The results of a nest: the arrays that it changes, then the scalars that it yields."""
    with np.errstate(all="ignore"):
        return _Nest(nest).run(operands)


class _Nest:
    """A nest as steps over a list of values: what an op is, is looked up once."""

    def __init__(self, nest: NestOp):
        self.nest = nest
        self.numbers: dict[SSAValue, int] = {}

    def run(self, operands: Sequence[Array]) -> list[Array]:
        """Run the nest on its operands."""
        block = self.nest.body.block
        step = self._block(block)
        yielded = [self._number(each) for each in self.nest.yielded]
        arguments = [self._number(each) for each in block.args]
        values: Values = [None] * len(self.numbers)
        written = set(self.nest.written)
        for position, (number, operand) in enumerate(zip(arguments, operands, strict=True)):
            kept = np.array(operand, order="C") if position in written else np.asarray(operand)
            values[number] = kept if kept.ndim else kept[()]
        step(values)
        arrays = [values[arguments[position]] for position in self.nest.written]
        return [np.asarray(each) for each in (*arrays, *(values[n] for n in yielded))]

    def _number(self, value: SSAValue) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def _block(self, block: Block) -> Step:
        steps = [self._step(op) for op in block.ops if not isinstance(op, YieldOp | ConditionOp)]

        def run(values: Values) -> None:
            for step in steps:
                step(values)

        return run

    def _step(self, op: Operation) -> Step:
        match op:
            case ForOp():
                return self._for(op)
            case WhileOp():
                return self._while(op)
            case IfOp():
                return self._if(op)
            case LoadOp():
                return self._load(op)
            case StoreOp():
                return self._store(op)
            case LocalOp():
                return self._local(op)
            case ConstantOp():
                return self._constant(op)
            case TensorOp():
                return self._scalar(op)
            case _:
                raise TypeError(f"no meaning inside a nest for {op.name}")

    def _constant(self, op: ConstantOp) -> Step:
        number = self._number(op.result)
        value = np.asarray(op.number).astype(spec_of(op.result.type).dtype.numpy)[()]

        def step(values: Values) -> None:
            values[number] = value

        return step

    def _scalar(self, op: TensorOp) -> Step:
        name, number = op.declaration.name, self._number(op.result)
        operands = [self._number(each) for each in op.arguments]
        dtype = spec_of(op.arguments[0].type).dtype
        plain = _OPERATORS.get(name) if dtype.name in _EXACT else None
        if plain is not None:
            left, right = operands

            def compute(values: Values) -> None:
                values[number] = plain(values[left], values[right])

            return compute
        names, attributes = op.given, op.values

        def step(values: Values) -> None:
            arrays = [np.asarray(values[each]) for each in operands]
            by_name = dict(zip(names, arrays, strict=True))
            values[number] = evaluate(name, by_name, attributes)[()]

        return step

    def _place(self, op: LoadOp | StoreOp) -> Callable[[Values], tuple[int, ...]]:
        """The indices of an access; an index outside the array is an error."""
        sizes = spec_of(op.array.type).shape
        numbers = [self._number(each) for each in op.indices]
        name = op.array.name_hint or "an array"
        span = next(iter(spans_of(op)), None)

        def place(values: Values) -> tuple[int, ...]:
            index = tuple([int(values[each]) for each in numbers])
            for each, size in zip(index, sizes, strict=True):
                if not 0 <= each < size:
                    raise OutOfRangeError(name, index, sizes, span)
            return index

        return place

    def _load(self, op: LoadOp) -> Step:
        place, array, number = self._place(op), self._number(op.array), self._number(op.result)

        def step(values: Values) -> None:
            values[number] = values[array][place(values)]

        return step

    def _store(self, op: StoreOp) -> Step:
        place, array, value = self._place(op), self._number(op.array), self._number(op.value)

        def step(values: Values) -> None:
            values[array][place(values)] = values[value]

        return step

    def _local(self, op: LocalOp) -> Step:
        spec, start, number = (
            spec_of(op.result.type),
            self._number(op.start),
            self._number(op.result),
        )

        def step(values: Values) -> None:
            values[number] = np.full(spec.shape, values[start], spec.dtype.numpy)

        return step

    def _for(self, op: ForOp) -> Step:
        bounds = [self._number(each) for each in (op.lower, op.upper, op.step)]
        body, variable = self._block(op.body.block), self._number(op.variable)
        arguments = [self._number(each) for each in op.body.block.args[1:]]
        starts, yielded, results = self._carried(op)
        name, span = op.axis.data, next(iter(spans_of(op)), None)

        def step(values: Values) -> None:
            lower, upper, stride = (int(values[each]) for each in bounds)
            if stride <= 0:
                raise OutOfRangeError(f"step of {name}", (stride,), (0,), span)
            held = [values[each] for each in starts]
            for position in range(lower, upper, stride):
                values[variable] = np.int64(position)
                _put(values, arguments, held)
                body(values)
                held = [values[each] for each in yielded]
            _put(values, results, held)

        return step

    def _while(self, op: WhileOp) -> Step:
        test, body = self._block(op.test.block), self._block(op.body.block)
        tested = [self._number(each) for each in op.test.block.args]
        arguments = [self._number(each) for each in op.body.block.args]
        condition = self._number(op.condition)
        starts, yielded, results = self._carried(op)

        def step(values: Values) -> None:
            held = [values[each] for each in starts]
            while True:
                _put(values, tested, held)
                test(values)
                if not values[condition]:
                    break
                _put(values, arguments, held)
                body(values)
                held = [values[each] for each in yielded]
            _put(values, results, held)

        return step

    def _carried(self, op: ForOp | WhileOp) -> tuple[list[int], list[int], list[int]]:
        ends = (op.carried, op.yielded, op.outputs)
        starts, yielded, results = ([self._number(each) for each in end] for end in ends)
        return starts, yielded, results

    def _if(self, op: IfOp) -> Step:
        condition = self._number(op.condition)
        ways = [self._block(region.block) for region in (op.otherwise, op.then)]
        pairs = [(self._number(first), self._number(second)) for first, second in op.yielded()]
        results = [self._number(each) for each in op.outputs]

        def step(values: Values) -> None:
            taken = bool(values[condition])
            ways[taken](values)
            chosen = [values[first if taken else second] for first, second in pairs]
            _put(values, results, chosen)

        return step


def _put(values: Values, numbers: Sequence[int], new: Sequence[Any]) -> None:
    for number, value in zip(numbers, new, strict=True):
        values[number] = value
