"""What the whole numbers of a nest can be: each as a sum over loop variables and the like.

Walks a typed nest in order, once; loops that carry whole numbers are walked again until what is
assumed of these (not below where it starts, not above, growing by a constant) is confirmed.
Arithmetic that might wrap is not taken for a sum. Shared by the checks of accesses and by the
question which loops are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.base.dtypes import DType
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_control import ForOp, IfOp, WhileOp
from wia_compiler.dialects.loop_elements import LoadOp, StoreOp
from wia_compiler.dialects.types import as_tensor, dtype_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.loops.carried import Carried, Progress
from wia_compiler.passes.loops.facts_of_conditions import Conditions
from wia_compiler.passes.loops.forms import Atoms, Bounds, Fact, Form
from wia_compiler.passes.loops.integer_forms import FORMS

INTEGERS = (-(2**63), 2**63 - 1)
_MOST_ROUNDS = 8
"""Walks of a loop's body before nothing is assumed of what it carries."""


class Ranges:
    """``forms`` has the sum that each whole number is, ``accesses`` the indices of each access,
    ``facts`` what holds where an access or a loop stands.
    """

    def __init__(self, nest: NestOp):
        self.atoms = Atoms()
        self.forms: dict[SSAValue, Form] = {}
        self.accesses: dict[LoadOp | StoreOp, tuple[Form, ...]] = {}
        self.facts: dict[Operation, tuple[Fact, ...]] = {}
        self.conditions = Conditions(self.forms)
        self._holding: tuple[Fact, ...] = ()
        self._bounds: dict[tuple[Fact, ...], Bounds] = {}
        for argument in nest.body.block.args:
            self._opaque(argument)
        self._block(nest.body.block)

    def bounds_at(self, op: Operation) -> Bounds:
        """Bounds of sums where an access or a loop stands."""
        return self._bounds_of(self.facts[op])

    def _bounds_of(self, facts: tuple[Fact, ...]) -> Bounds:
        if facts not in self._bounds:
            self._bounds[facts] = Bounds(facts)
        return self._bounds[facts]

    @property
    def here(self) -> Bounds:
        """Bounds at the place that the walk has reached."""
        return self._bounds_of(self._holding)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case ForOp():
                    self._for(op)
                case WhileOp():
                    self._while(op)
                case IfOp():
                    self._if(op)
                case LoadOp() | StoreOp():
                    self.facts[op] = self._holding
                    self.accesses[op] = tuple(self._form(index) for index in op.indices)
                    if isinstance(op, LoadOp):
                        at = ", ".join(str(form) for form in self.accesses[op])
                        self._opaque(op.result, f"{op.array.name_hint or 'an array'}[{at}]")
                case ConstantOp() | TensorOp():
                    self._simple(op)
                case _:
                    for result in op.results:
                        self._opaque(result)

    def _form(self, value: SSAValue) -> Form:
        if value not in self.forms:
            self._opaque(value)
        return self.forms.get(value, Form())

    def _opaque(self, value: SSAValue, name: str | None = None) -> None:
        """A whole number of which nothing is known but its dtype."""
        dtype = _integer_dtype(value)
        if dtype is not None:
            low, high = limits(dtype)
            self.forms[value] = self.atoms.make(name or value.name_hint or "?", low, high)

    def _simple(self, op: ConstantOp | TensorOp) -> None:
        dtype = _integer_dtype(op.result)
        if dtype is None:
            return
        if isinstance(op, ConstantOp):
            self.forms[op.result] = Form((), int(op.number))
            return
        rule = FORMS.get(op.declaration.name)
        form = None
        if rule is not None and all(v in self.forms for v in op.arguments[-2:]):
            form = rule(self, op)
        if form is None or not self._fits(form, dtype):
            self._opaque(op.result)
        else:
            self.forms[op.result] = form

    def _fits(self, form: Form, dtype: DType) -> bool:
        low, high = limits(dtype)
        return self.here.low(form) >= low and self.here.high(form) <= high

    def _inside(self, facts: Sequence[Fact], block: Block) -> None:
        before = self._holding
        self._holding = (*before, *facts)
        self._block(block)
        self._holding = before

    def _for(self, op: ForOp) -> None:
        self.facts[op] = self._holding
        lower, upper, step = (self._form(each) for each in (op.lower, op.upper, op.step))
        stride = step.number if step.number is not None and step.number > 0 else 1
        first, last = lower.number, upper.number
        here = self.here
        if first is not None and last is not None:
            last = first + (last - 1 - first) // stride * stride
            variable = self.atoms.make(op.axis.data, first, last)
        else:
            low, high = here.low(lower), here.high(upper) - 1
            variable = self.atoms.make(op.axis.data, low, high, [lower], [upper - 1])
        self.forms[op.variable] = variable
        entered = [] if not (lower.terms or upper.terms) else [upper - lower - 1]
        progress = Progress(variable, lower, stride) if step.number is not None else None
        trips = -(-max(here.high(upper - lower), 0) // stride)
        arguments = [[each] for each in op.body.block.args[1:]]
        self._carry(op, arguments, lambda: self._inside(entered, op.body.block), progress, trips)

    def _while(self, op: WhileOp) -> None:
        self.facts[op] = self._holding
        arguments = [
            list(pair) for pair in zip(op.test.block.args, op.body.block.args, strict=True)
        ]

        def walk() -> None:
            self._inside([], op.test.block)
            # The body's arguments are the test's: what the test found of one holds of the other.
            facts = self.conditions.facts(op.condition, True, self.here)
            self._inside(facts, op.body.block)

        self._carry(op, arguments, walk)

    def _carry(
        self,
        op: ForOp | WhileOp,
        arguments: Sequence[Sequence[SSAValue]],
        walk: Callable[[], None],
        progress: Progress | None = None,
        trips: int | None = None,
    ) -> None:
        """Walk a loop, assuming of each whole number that it carries what the walk confirms.

        ``arguments`` are those of its regions that stand for each number.
        """
        numbers: dict[int, Carried] = {}
        for n, result in enumerate(op.outputs):
            dtype = _integer_dtype(result)
            if dtype is not None:
                start = self._form(op.carried[n])
                name = result.name_hint or "?"
                numbers[n] = Carried(name, start, self.here, limits(dtype))
        for attempt in range(_MOST_ROUNDS + 1):
            if attempt == _MOST_ROUNDS:
                for number in numbers.values():
                    number.give_up()
            current = {n: self._assumed(number) for n, number in numbers.items()}
            for n, form in current.items():
                self.forms.update(dict.fromkeys(arguments[n], form))
            walk()
            facts = list(self._holding)
            if isinstance(op, WhileOp):
                facts += self.conditions.facts(op.condition, True, self.here)
            bounds = self._bounds_of(tuple(facts))
            refuted = [
                number.refute(current[n], self._form(op.yielded[n]), bounds, progress)
                for n, number in numbers.items()
            ]
            if not any(refuted):
                break
        for n, number in numbers.items():
            low, high = number.after(trips)
            self.forms[op.outputs[n]] = self.atoms.make(number.name, low, high)

    def _assumed(self, number: Carried) -> Form:
        if number.exact is not None:
            return number.exact
        return self.atoms.make(number.name, number.low, number.high)

    def _if(self, op: IfOp) -> None:
        ends: list[Bounds] = []
        for region, truth in ((op.then, True), (op.otherwise, False)):
            facts = self.conditions.facts(op.condition, truth, self.here)
            self._inside(facts, region.block)
            ends.append(self._bounds_of((*self._holding, *facts)))
        for result, values in zip(op.outputs, op.yielded(), strict=True):
            if _integer_dtype(result) is None:
                continue
            forms = [self._form(each) for each in values]
            if forms[0] == forms[1]:
                self.forms[result] = forms[0]
                continue
            low = min(end.low(form) for end, form in zip(ends, forms, strict=True))
            high = max(end.high(form) for end, form in zip(ends, forms, strict=True))
            self.forms[result] = self.atoms.make(result.name_hint or "?", low, high)


def _integer_dtype(value: SSAValue) -> DType | None:
    tensor = as_tensor(value.type)
    if tensor is not None and tensor.get_shape():
        return None
    try:
        dtype = dtype_of(value.type)
    except KeyError:
        return None
    return dtype if dtype.is_integer else None


def limits(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest number of an integer dtype."""
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)
