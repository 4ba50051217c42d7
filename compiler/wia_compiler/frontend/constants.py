"""Expressions whose value is known from the text alone: what an attribute of an op may be."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.types import Value
from wia_compiler.frontend import syntax
from wia_compiler.frontend.literals import out_of_range

_ARITHMETIC: dict[str, Callable[[int | float, int | float], int | float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left / right,
    "//": lambda left, right: left // right,
    "%": operator.mod,
}
_DEEPEST = 50


class NotConstant(Exception):
    """An expression has no value before the kernel runs; ``node`` is the part that has none."""

    def __init__(self, node: syntax.Expression, reason: str):
        super().__init__(reason)
        self.node = node
        self.reason = reason


def constant(node: syntax.Expression, known: Mapping[str, Value], depth: int = 0) -> Value:
    """The value of a constant expression; names stand for ``known`` values, dtypes or ``none``.

    Raises ``NotConstant`` where a part has no value in the text.
    """
    if depth > _DEEPEST:
        raise NotConstant(node, f"this is nested deeper than {_DEEPEST}")
    match node:
        case syntax.Number():
            return _checked(node, node.value)
        case syntax.Boolean() | syntax.String():
            return node.value
        case syntax.ListOf():
            return tuple(constant(item, known, depth + 1) for item in node.items)
        case syntax.Group():
            return constant(node.inner, known, depth + 1)
        case syntax.Name(text) | syntax.Value(text) if text in known:
            return known[text]
        case syntax.Name(text) if text in DTYPES:
            return text
        case syntax.Name("none"):
            return None
        case syntax.Unary() if node.operator.text == "-":
            return _checked(node, -_number(node.operand, known, depth))
        case syntax.Binary() if node.operator.text in _ARITHMETIC:
            return _arithmetic(node, known, depth)
        case _:
            raise NotConstant(node, "this is computed when the kernel runs")


def _number(node: syntax.Expression, known: Mapping[str, Value], depth: int) -> int | float:
    while isinstance(node, syntax.Group):
        node = node.inner
    value = node.value if isinstance(node, syntax.Number) else constant(node, known, depth + 1)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotConstant(node, "this is not a number")
    return value


def _arithmetic(node: syntax.Binary, known: Mapping[str, Value], depth: int) -> int | float:
    left = _number(node.left, known, depth)
    right = _number(node.right, known, depth)
    try:
        return _checked(node, _ARITHMETIC[node.operator.text](left, right))
    except ArithmeticError as error:
        raise NotConstant(node, "this divides by zero or overflows") from error


def _checked(node: syntax.Expression, value: int | float) -> int | float:
    reason = out_of_range(value, str(value) if isinstance(value, float) else "the integer")
    if reason is not None:
        raise NotConstant(node, "this does not fit in i64 or f64")
    return value
