"""Arithmetic and comparisons of C++ on typed values: promotions, truncating division."""

from __future__ import annotations

import math
import operator as python_operator
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.reading import CppText
from wia_compiler.frontend.cpp.types import ANY, common, is_float, is_integer, promoted
from wia_compiler.frontend.cpp.values import (
    Number,
    Typed,
    binary,
    choice,
    combined,
    constant,
    converted,
    operation,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_FOLDS: dict[str, Callable[[Number, Number], Number]] = {
    "+": python_operator.add,
    "-": python_operator.sub,
    "*": python_operator.mul,
}
_BITS: dict[str, Callable[[int, int], int]] = {
    "&": lambda left, right: left & right,
    "|": lambda left, right: left | right,
    "^": lambda left, right: left ^ right,
    "<<": lambda left, right: left << right if 0 <= right < 64 else 0,
    ">>": lambda left, right: left >> right if 0 <= right < 64 else 0,
}
_BIT_OPERATIONS = {
    "&": "bitwise_and",
    "|": "bitwise_or",
    "^": "bitwise_xor",
    "<<": "bitwise_left_shift",
    ">>": "bitwise_right_shift",
}
_COMPARISONS: dict[str, Callable[[Number, Number], bool]] = {
    "==": python_operator.eq,
    "!=": python_operator.ne,
    "<": python_operator.lt,
    "<=": python_operator.le,
    ">": python_operator.gt,
    ">=": python_operator.ge,
}


def arithmetic(operator: str, left: Typed, right: Typed, node: Node, text: CppText) -> Typed:
    """``left operator right`` in their common type."""
    _refuse_undeclared_double(left, right, node, text)
    type_ = common(left.type, right.type)
    first, second = converted(left, type_), converted(right, type_)
    if operator == "%" and not (is_integer(type_) or type_ == ANY):
        raise text.refuse(
            node, f"% is for whole numbers, found {type_}", "write fmodf(x, y) for floats"
        )
    if first.constant is not None and second.constant is not None:
        return _folded(operator, first.constant, second.constant, type_, node, text)
    if operator == "%" and type_ == ANY:
        raise text.refuse(
            node,
            "the types of these values are not declared, and the sign of a remainder depends on "
            "them",
            "put the loops into a function whose arrays have types: void f(const int* a, …)",
        )
    if operator in ("/", "%") and is_integer(type_):
        return truncating(operator, first, second)
    return combined(operator, first, second, type_)


def comparison(operator: str, left: Typed, right: Typed, node: Node, text: CppText) -> Typed:
    """``left operator right`` as a bool, compared in their common type."""
    _refuse_undeclared_double(left, right, node, text)
    both_bool = left.type == right.type == "bool" and operator in ("==", "!=")
    type_ = "bool" if both_bool else common(left.type, right.type)
    first, second = converted(left, type_), converted(right, type_)
    if first.constant is not None and second.constant is not None:
        value = _COMPARISONS[operator](first.constant, second.constant)
        return constant(value, "bool", text.span(node))
    return combined(operator, first, second, "bool")


def bits(operator: str, left: Typed, right: Typed, node: Node, text: CppText) -> Typed:
    """``&``, ``|``, ``^`` in the common type; a shift has the type of its left side."""
    is_shift = operator in ("<<", ">>")
    type_ = promoted(left.type) if is_shift else common(left.type, right.type)
    first, second = converted(left, type_), converted(right, type_)
    for side in (left, right):
        if not (is_integer(promoted(side.type)) or side.type == ANY):
            raise text.refuse(
                node, f"{operator} is for whole numbers, found {side.type}", "cast it: (int)x"
            )
    span = text.span(node)
    if first.constant is not None and second.constant is not None:
        return constant(_BITS[operator](int(first.constant), int(second.constant)), type_, span)
    natural = first.is_natural and (second.is_natural or operator in ("&", ">>"))
    call = operation(_BIT_OPERATIONS[operator], [first.node, second.node], span)
    return Typed(call, type_, is_natural=natural and operator != "<<")


def inverted(value: Typed, node: Node, text: CppText) -> Typed:
    """``~value`` in its promoted type."""
    inner = converted(value, promoted(value.type))
    if not is_integer(inner.type):
        raise text.refuse(node, f"~ is for whole numbers, found {value.type}", "write !x")
    span = text.span(node)
    if inner.constant is not None:
        return constant(~int(inner.constant), inner.type, span)
    return Typed(operation("bitwise_not", [inner.node], span), inner.type)


def negated(value: Typed, span: Span) -> Typed:
    """``-value`` in its promoted type."""
    inner = converted(value, promoted(value.type))
    if inner.constant is not None:
        return constant(-inner.constant, inner.type, span)
    node = syntax.Unary(syntax.Word("-", span), inner.node, span)
    return replace(inner, node=node, is_natural=False, exact=None, rounded=None)


def truncating(operator: str, left: Typed, right: Typed) -> Typed:
    """The quotient cut towards 0, or the remainder with the sign of ``left``.

    ``//`` and ``%`` of the language round towards minus infinity: the same where neither side is
    negative; else one is added to the quotient, or ``right`` taken off the remainder, where it is
    inexact and the signs differ.
    """
    floor = combined("//" if operator == "/" else "%", left, right, left.type)
    if left.is_natural and right.is_natural:
        return floor
    zero = constant(0, left.type, left.node.span).node
    a, b = left.node, right.node
    inexact = binary("!=", syntax.Group(binary("%", a, b), a.span), zero)
    negative: syntax.Expression = binary("<", a, zero)
    if right.constant is None:
        signs = [syntax.Group(binary("<", each, zero), each.span) for each in (a, b)]
        negative = syntax.Group(binary("!=", *signs), a.span)
    elif right.constant < 0:
        negative = binary(">", a, zero)
    span = floor.node.span
    differs = operation("logical_and", [inexact, negative], span)
    if operator == "/":
        one = constant(1, left.type, a.span).node
        corrected = binary("+", floor.node, one)
    else:
        corrected = binary("-", floor.node, b)
    return replace(floor, node=choice(differs, corrected, floor.node, span), is_natural=False)


def _folded(
    operator: str, left: Number, right: Number, type_: str, node: Node, text: CppText
) -> Typed:
    span = text.span(node)
    if operator in _FOLDS:
        return constant(_FOLDS[operator](left, right), type_, span)
    if is_float(type_):
        if right == 0:
            signs = math.copysign(1, left) * math.copysign(1, right)
            value = math.nan if left == 0 or left != left else math.copysign(math.inf, signs)
            return constant(value, type_, span)
        return constant(left / right, type_, span)
    if right == 0:
        raise text.refuse(node, "this divides by 0", "change the divisor")
    quotient = abs(int(left)) // abs(int(right)) * (1 if (left < 0) == (right < 0) else -1)
    return constant(quotient if operator == "/" else left - right * quotient, type_, span)


def _refuse_undeclared_double(left: Typed, right: Typed, node: Node, text: CppText) -> None:
    """A double literal beside an array whose type the text does not say: f32 or f64 work?"""
    for side, other in ((left, right), (right, left)):
        if side.type == "f64" and side.constant is not None and other.type == ANY:
            raise text.refuse(
                node,
                f"{_shown(side)} is a double; in what type this is computed depends on an array "
                "whose type the text does not say",
                f"write {_shown(side)}f for floats, or put the loops into a function whose arrays "
                "have types: void f(const float* a, …)",
            )


def _shown(side: Typed) -> str:
    return f"{side.constant:g}" if "." in f"{side.constant:g}" else f"{side.constant:.1f}"
