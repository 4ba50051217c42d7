"""Expressions with the types that C++ gives them, and the conversions between those types."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import ml_dtypes  # pyright: ignore[reportMissingTypeStubs]  # numpy's bfloat16, by its name
import numpy as np

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.types import ANY, CppType, is_float, is_integer

Number = bool | int | float

COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))


@dataclass(frozen=True)
class Typed:
    """An expression of the language and the C++ type of its value.

    ``constant`` is the value where the text alone gives it; ``is_natural`` says that it is never
    negative. Of an f64 value, ``exact`` is the f32 expression of the same value, and ``rounded``
    the f32 expression that equals it once it is rounded to f32.
    """

    node: syntax.Expression
    type: CppType
    constant: Number | None = None
    is_natural: bool = False
    exact: syntax.Expression | None = None
    rounded: syntax.Expression | None = None


def constant(value: Number, type_: CppType, span: Span) -> Typed:
    """A number of a type; floats are rounded to it."""
    held = _held(value, type_)
    node = _literal(held, span)
    fits = type_ == "f64" and _rounded(float(held), "f32") == held
    return Typed(node, type_, held, is_natural=held >= 0, exact=node if fits else None)


def converted(value: Typed, type_: CppType) -> Typed:
    """The value in another type, as C++ converts it: exact, rounded, cut or compared with 0."""
    if value.type == type_ or ANY in (value.type, type_):
        if value.constant is None or type_ == ANY:
            return value
        return constant(value.constant, type_, value.node.span)
    if value.constant is not None:
        return constant(value.constant, type_, value.node.span)
    span = value.node.span
    if type_ == "bool":
        zero = constant(0, value.type, span).node
        node = syntax.Binary(syntax.Word("!=", span), value.node, zero, span)
        return replace(value, node=node, type=type_, is_natural=True)
    if (value.type, type_) == ("f64", "f32") and value.rounded is not None:
        return Typed(value.rounded, type_)
    widened = value.node if (value.type, type_) == ("f32", "f64") else None
    natural = value.is_natural and (type_ == "i64" or value.type == "bool")
    node = cast_to(value.node, type_)
    return Typed(node, type_, None, natural, exact=widened, rounded=widened)


def typed_node(value: Typed) -> syntax.Expression:
    """The expression with its dtype: a number of the text takes that of what it meets, if any."""
    return value.node if value.constant is None else cast_to(value.node, value.type)


def with_dtype(first: Typed, second: Typed) -> tuple[Typed, Typed]:
    """Two values of one type, of which one at least has a dtype of its own."""
    if first.constant is None or second.constant is None:
        return first, second
    return replace(first, node=typed_node(first)), second


def combined(operator: str, left: Typed, right: Typed, type_: CppType) -> Typed:
    """``left operator right`` of two values of one type; ``type_`` is that of the result.

    A sum, difference, product or quotient of two f32 numbers that is rounded first to f64 and then
    to f32 equals the one rounded to f32 at once, since 53 >= 2 * 24 + 2 (Figueroa 1995, "When is
    double rounding innocuous?"): ``rounded`` keeps that form.
    """
    rounded = None
    if operator in ("+", "-", "*", "/") and left.exact is not None and right.exact is not None:
        rounded = binary(operator, left.exact, right.exact)
    natural = operator in ("+", "*", "//", "%") and left.is_natural and right.is_natural
    return Typed(
        binary(operator, left.node, right.node),
        type_,
        is_natural=natural,
        rounded=rounded,
    )


def operation(name: str, arguments: list[syntax.Expression], span: Span) -> syntax.Call:
    """A call of an op, whatever variables the text has: ``tensor.exp`` means the op alone."""
    parts = tuple(syntax.Argument(None, each, each.span) for each in arguments)
    return syntax.Call(syntax.Name(f"tensor.{name}", span), parts, span)


def cast_to(node: syntax.Expression, type_: CppType) -> syntax.Call:
    """``cast(node, type_)``."""
    return operation("cast", [node, syntax.Name(type_, node.span)], node.span)


def choice(
    test: syntax.Expression, first: syntax.Expression, second: syntax.Expression, span: Span
) -> syntax.Call:
    """``where(test, first, second)``: both are there already, unlike those of ``? :``."""
    return operation("where", [test, first, second], span)


def binary(operator: str, left: syntax.Expression, right: syntax.Expression) -> syntax.Binary:
    """``left operator right``, spanning both."""
    span = left.span.cover(right.span)
    if operator in COMPARISONS:  # a comparison of comparisons needs its parentheses
        left, right = _in_parentheses(left), _in_parentheses(right)
    return syntax.Binary(syntax.Word(operator, span), left, right, span)


def _in_parentheses(node: syntax.Expression) -> syntax.Expression:
    is_comparison = isinstance(node, syntax.Binary) and node.operator.text in COMPARISONS
    return syntax.Group(node, node.span) if is_comparison else node


def _held(value: Number, type_: CppType) -> Number:
    if type_ == "bool":
        return bool(value)
    if is_float(type_):
        return _rounded(float(value), type_)
    if is_integer(type_):
        # A float is cut towards 0; what does not fit wraps around, as conversions of integers do.
        whole = int(value) if not isinstance(value, float) or math.isfinite(value) else 0
        bits, low = (
            DTYPES[type_].bits,
            0 if type_.startswith("u") else -(1 << DTYPES[type_].bits - 1),
        )
        return (whole - low) % (1 << bits) + low
    return value


def _rounded(value: float, type_: CppType) -> float:
    with np.errstate(over="ignore"):
        kind = ml_dtypes.bfloat16 if type_ == "bf16" else DTYPES[type_].numpy.type
        return float(kind(value))


def _literal(value: Number, span: Span) -> syntax.Expression:
    if isinstance(value, bool):
        return syntax.Boolean(value, span)
    return syntax.Number(value, repr(value), span)
