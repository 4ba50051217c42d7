"""What a condition says of whole numbers where it holds, and where it does not."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import OpResult, SSAValue

from wia_compiler.dialects.loop_control import IfOp
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.loops.forms import Bounds, Fact, Form

_DEEPEST = 32


class Conditions:
    """Reads conditions over ``forms``, the sums that whole numbers are."""

    def __init__(self, forms: Mapping[SSAValue, Form]):
        self.forms = forms

    def facts(self, condition: SSAValue, truth: bool, here: Bounds, depth: int = 0) -> list[Fact]:
        """Sums that are not below 0 where ``condition`` is ``truth``, at a place with bounds."""
        if depth > _DEEPEST:
            return []
        match condition.owner:
            case TensorOp() as op:
                return self._op(op, truth, here, depth)
            case IfOp() as op if isinstance(condition, OpResult):
                return self._branch(op, condition.index, truth, here, depth)
            case _:
                return []

    def _op(self, op: TensorOp, truth: bool, here: Bounds, depth: int) -> list[Fact]:
        name, values = op.declaration.name, op.arguments
        if name == "logical_not":
            return self.facts(values[0], not truth, here, depth + 1)
        if name == ("logical_and" if truth else "logical_or"):
            return [fact for each in values for fact in self.facts(each, truth, here, depth + 1)]
        if len(values) != 2 or any(each not in self.forms for each in values):
            return []
        left, right = (self.forms[each] for each in values)
        return _compared(name, truth, left, right, here)

    def _branch(self, op: IfOp, position: int, truth: bool, here: Bounds, depth: int) -> list[Fact]:
        """``a && b`` that computes b only where a holds: ``a ? b : false``."""
        first, second = op.yielded()[position]
        if _is_constant(second, not truth):
            ways = (op.condition, True), (first, truth)
        elif _is_constant(first, not truth):
            ways = (op.condition, False), (second, truth)
        else:
            return []
        return [f for value, holds in ways for f in self.facts(value, holds, here, depth + 1)]


def _compared(name: str, truth: bool, left: Form, right: Form, here: Bounds) -> list[Fact]:
    below, above = right - left, left - right
    match name, truth:
        case ("lt", True) | ("ge", False):
            return [below - 1]
        case ("le", True) | ("gt", False):
            return [below]
        case ("gt", True) | ("le", False):
            return [above - 1]
        case ("ge", True) | ("lt", False):
            return [above]
        case ("eq", True) | ("ne", False):
            return [below, above]
        case ("eq", False) | ("ne", True):  # not at the end of its range
            return [each - 1 for each in (below, above) if here.low(each) == 0]
        case _:
            return []


def _is_constant(value: SSAValue, number: bool) -> bool:
    return isinstance(value.owner, ConstantOp) and value.owner.number is number
