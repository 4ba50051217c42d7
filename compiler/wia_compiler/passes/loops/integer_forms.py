"""The sum that each integer op gives, from the sums that its operands are."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

from xdsl.ir import SSAValue

from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.loops.forms import Atoms, Bounds, Form


class Analysis(Protocol):
    """What a rule may ask."""

    atoms: Atoms
    forms: dict[SSAValue, Form]

    @property
    def here(self) -> Bounds:
        """Bounds at the op's place."""
        ...


Rule = Callable[[Analysis, TensorOp], "Form | None"]


def _operands(analysis: Analysis, op: TensorOp) -> tuple[Form, Form]:
    left, right = op.arguments
    return analysis.forms[left], analysis.forms[right]


def _add(analysis: Analysis, op: TensorOp) -> Form:
    left, right = _operands(analysis, op)
    return left + right


def _sub(analysis: Analysis, op: TensorOp) -> Form:
    left, right = _operands(analysis, op)
    return left - right


def _neg(analysis: Analysis, op: TensorOp) -> Form:
    return analysis.forms[op.arguments[0]] * -1


def _cast(analysis: Analysis, op: TensorOp) -> Form:
    return analysis.forms[op.arguments[0]]


def _mul(analysis: Analysis, op: TensorOp) -> Form:
    left, right = _operands(analysis, op)
    if left.number is not None:
        return right * left.number
    if right.number is not None:
        return left * right.number
    here = analysis.here
    ends = [
        a * b
        for a in (here.low(left), here.high(left))
        for b in (here.low(right), here.high(right))
    ]
    return analysis.atoms.make("*", min(ends), max(ends))


def _floordiv(analysis: Analysis, op: TensorOp) -> Form | None:
    left, right = _operands(analysis, op)
    by = right.number
    if by is None or by <= 0:
        return None
    if all(factor % by == 0 for _, factor in left.terms) and left.constant % by == 0:
        terms = tuple((atom, int(factor // by)) for atom, factor in left.terms)
        return Form(terms, int(left.constant // by))
    low, high = analysis.here.low(left) // by, analysis.here.high(left) // by
    part = Fraction(1, by)
    return analysis.atoms.make("//", low, high, [(left - (by - 1)) * part], [left * part])


def _mod(analysis: Analysis, op: TensorOp) -> Form | None:
    left, right = _operands(analysis, op)
    here = analysis.here
    low, high = here.low(right), here.high(right)
    if low <= 0:
        # By 0 it is 0, by a negative number it is not above 0.
        return analysis.atoms.make("%", min(low + 1, 0), max(high - 1, 0))
    if right.number is not None and here.low(left) >= 0 and here.high(left) < right.number:
        return left
    return analysis.atoms.make("%", 0, high - 1)


def _min(analysis: Analysis, op: TensorOp) -> Form:
    left, right = _operands(analysis, op)
    here = analysis.here
    low = min(here.low(left), here.low(right))
    high = min(here.high(left), here.high(right))
    if here.high(left - right) <= 0:
        return left
    if here.high(right - left) <= 0:
        return right
    return analysis.atoms.make("min", low, high, (), (left, right))


def _max(analysis: Analysis, op: TensorOp) -> Form:
    left, right = _operands(analysis, op)
    here = analysis.here
    low = max(here.low(left), here.low(right))
    high = max(here.high(left), here.high(right))
    if here.low(left - right) >= 0:
        return left
    if here.low(right - left) >= 0:
        return right
    return analysis.atoms.make("max", low, high, (left, right), ())


def _where(analysis: Analysis, op: TensorOp) -> Form:
    first, second = (analysis.forms[each] for each in op.arguments[1:])
    here = analysis.here
    low = min(here.low(first), here.low(second))
    return analysis.atoms.make("?:", low, max(here.high(first), here.high(second)))


def _abs(analysis: Analysis, op: TensorOp) -> Form | None:
    form = analysis.forms[op.arguments[0]]
    low, high = analysis.here.low(form), analysis.here.high(form)
    if low >= 0:
        return form
    return analysis.atoms.make("abs", 0, max(-low, high))


def _clamp(analysis: Analysis, op: TensorOp) -> Form | None:
    form, here = analysis.forms.get(op.arguments[0]), analysis.here
    if form is None:
        return None
    low, high = here.low(form), here.high(form)
    floor, ceiling = op.argument("min"), op.argument("max")
    if floor is not None:
        bound = analysis.forms[floor]
        low, high = max(low, here.low(bound)), max(high, here.high(bound))
    if ceiling is not None:
        bound = analysis.forms[ceiling]
        low, high = min(low, here.low(bound)), min(high, here.high(bound))
    return analysis.atoms.make("clamp", low, high)


def _relu(analysis: Analysis, op: TensorOp) -> Form:
    form = analysis.forms[op.arguments[0]]
    return analysis.atoms.make(
        "relu", max(analysis.here.low(form), 0), max(analysis.here.high(form), 0)
    )


FORMS: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "neg": _neg,
    "mul": _mul,
    "floordiv": _floordiv,
    "mod": _mod,
    "min": _min,
    "max": _max,
    "where": _where,
    "abs": _abs,
    "clamp": _clamp,
    "relu": _relu,
    "cast": _cast,
}
"""By the name of the op; a rule is asked where its last two operands are whole numbers."""
