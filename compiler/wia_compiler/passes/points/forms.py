"""What the indices of point code are: sums over the variables of the loops around them.

The same sums (``loops/forms.py``) that tell which accesses of a text are in range, read from the
mid level, where every bound and every size is a number or an op. Index arithmetic that might wrap
is not taken for a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from wia_compiler.dialects import tile
from wia_compiler.passes.loops.forms import Atom, Atoms, Bounds, Fact, Form

Access: TypeAlias = "memref.LoadOp | memref.StoreOp"
Loop: TypeAlias = "tile.ForOp | scf.ForOp"
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


class PointForms:
    """``forms`` has the sum that each index and i64 of a nest is, ``accesses`` the indices of each
    load and store, ``atoms`` the variable of each loop, ``facts`` what holds at an op. ``once``
    is the variable of a loop of one iteration, which no nest has.
    """

    def __init__(self, nest: func.FuncOp):
        self.forms: dict[SSAValue, Form] = {}
        self.accesses: dict[Operation, tuple[Form, ...]] = {}
        self.atoms: dict[Operation, Atom] = {}
        self.loops: dict[Atom, Loop] = {}
        self.facts: dict[Operation, tuple[Fact, ...]] = {}
        self._make = Atoms()
        self.once = self._make.make("once", 0, 0).terms[0][0]
        self._holding: tuple[Fact, ...] = ()
        self._bounds: dict[tuple[Fact, ...], Bounds] = {}
        self._block(nest.body.block)

    def form(self, value: SSAValue) -> Form:
        """The sum that a whole number is; an unknown number of its own where it is no sum."""
        if value not in self.forms:
            self.forms[value] = self._unknown(value)
        return self.forms[value]

    def bounds_at(self, op: Operation) -> Bounds:
        """Bounds of sums where a loop or an access stands."""
        return self._bounds_of(self.facts.get(op, ()))

    def low(self, form: Form) -> int:
        """A number that a sum is never below, whatever branches say."""
        return self._bounds_of(()).low(form)

    def high(self, form: Form) -> int:
        """A number that a sum never exceeds, whatever branches say."""
        return self._bounds_of(()).high(form)

    def constant(self, value: SSAValue) -> int | None:
        """The number that a value always is, or ``None``."""
        return self.form(value).number if _is_whole(value.type) else None

    def _bounds_of(self, facts: tuple[Fact, ...]) -> Bounds:
        if facts not in self._bounds:
            self._bounds[facts] = Bounds(facts)
        return self._bounds[facts]

    def _unknown(self, value: SSAValue) -> Form:
        is_integer = value.type.name == IntegerType.name
        bits = cast("IntegerType", value.type).width.data if is_integer else 64
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        return self._make.make(value.name_hint or "?", low, high)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case tile.ForOp():
                    last = max(op.trip_count - 1, 0) * op.step.value.data
                    name = op.induction_variable.name_hint or op.axis.data
                    self._enter(op, self._make.make(name, 0, last), ())
                case scf.ForOp():
                    self._serial_loop(op)
                case memref.LoadOp() | memref.StoreOp():
                    self.facts[op] = self._holding
                    self.accesses[op] = tuple(self.form(index) for index in op.indices)
                case _ if op.regions and not isinstance(op, tile.ComputeOp):
                    for region in op.regions:
                        for inner in region.blocks:
                            self._block(inner)
                case _:
                    self._scalar(op)

    def _enter(self, loop: Loop, variable: Form, entered: tuple[Fact, ...]) -> None:
        self.facts[loop] = self._holding
        block = loop.body.block
        self.forms[block.args[0]] = variable
        if variable.terms:
            atom = variable.terms[0][0]
            self.atoms[loop], self.loops[atom] = atom, loop
        before = self._holding
        self._holding = (*before, *entered)
        self._block(block)
        self._holding = before

    def _serial_loop(self, op: scf.ForOp) -> None:
        lower, upper, step = (self.form(each) for each in (op.lb, op.ub, op.step))
        name = op.body.block.args[0].name_hint or "?"
        first, last = lower.number, upper.number
        if first is not None and last is not None and step.number is not None:
            stride = max(step.number, 1)
            last = first + max(last - 1 - first, 0) // stride * stride
            self._enter(op, self._make.make(name, first, last), ())
            return
        here = self._bounds_of(self._holding)
        low, high = here.low(lower), here.high(upper) - 1
        variable = self._make.make(name, low, high, [lower], [upper - 1])
        entered = (upper - lower - 1,) if lower.terms or upper.terms else ()
        self._enter(op, variable, entered)

    def _scalar(self, op: Operation) -> None:
        if len(op.results) != 1 or not _is_whole(op.results[0].type):
            return
        rule = _RULES.get(type(op))
        made = rule(self, op) if rule is not None else None
        if made is not None and self._fits(made):
            self.forms[op.results[0]] = made

    def _fits(self, form: Form) -> bool:
        here = self._bounds_of(self._holding)
        return here.low(form) >= _LOWEST and here.high(form) <= _HIGHEST

    def number(self, op: Operation) -> Form | None:
        """A constant."""
        value = op.properties.get("value")
        return Form((), value.value.data) if isinstance(value, IntegerAttr) else None

    def cast(self, op: Operation) -> Form | None:
        """An index and an i64 are the same number."""
        return self.form(op.operands[0]) if _is_whole(op.operands[0].type) else None

    def add(self, op: Operation) -> Form:
        """A sum."""
        return self.form(op.operands[0]) + self.form(op.operands[1])

    def subtract(self, op: Operation) -> Form:
        """A difference."""
        return self.form(op.operands[0]) - self.form(op.operands[1])

    def multiply(self, op: Operation) -> Form | None:
        """A product with a number."""
        left, right = (self.form(each) for each in op.operands)
        if left.number is not None:
            return right * left.number
        return left * right.number if right.number is not None else None

    def minimum(self, op: Operation) -> Form:
        """The smaller of two: a number below both sums."""
        left, right = (self.form(each) for each in op.operands)
        here = self._bounds_of(self._holding)
        if here.high(left - right) <= 0:
            return left
        if here.high(right - left) <= 0:
            return right
        low, high = (min(f(left), f(right)) for f in (here.low, here.high))
        return self._make.make("min", low, high, (), (left, right))

    def maximum(self, op: Operation) -> Form:
        """The larger of two: a number above both sums."""
        left, right = (self.form(each) for each in op.operands)
        here = self._bounds_of(self._holding)
        if here.low(left - right) >= 0:
            return left
        if here.low(right - left) >= 0:
            return right
        low, high = (max(f(left), f(right)) for f in (here.low, here.high))
        return self._make.make("max", low, high, (left, right), ())


def _is_whole(type: Attribute) -> bool:
    return isinstance(type, IndexType) or type == i64


_Rule: TypeAlias = "Callable[[PointForms, Operation], Form | None]"
_RULES: dict[type[Operation], _Rule] = {
    arith.ConstantOp: PointForms.number,
    arith.IndexCastOp: PointForms.cast,
    arith.AddiOp: PointForms.add,
    arith.SubiOp: PointForms.subtract,
    arith.MuliOp: PointForms.multiply,
    arith.MinSIOp: PointForms.minimum,
    arith.MaxSIOp: PointForms.maximum,
}
"""What each op on indices gives; any other gives a number of which nothing is known."""
