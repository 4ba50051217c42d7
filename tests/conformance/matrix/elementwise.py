"""Rows of ops that compute each element from the elements at the same place."""

from __future__ import annotations

import math

import numpy as np
from conformance.matrix.row import Array, Bound, Call, Row, Shape

FUNCTION = Bound(ulps=2)
"""Transcendental functions: within 2 units in the last place of the correctly rounded result."""

COMPOSITE = Bound(ulps=6)
"""A few roundings in the accumulator beside one function."""


def one(condition: str) -> tuple[Shape, ...]:
    """One operand: a vector, or a matrix that has a layout."""
    if condition == "broadcast":
        return ((5, 1, 7),)
    return ((int(condition),),) if condition.isdigit() else ((7, 9),)


def two(condition: str) -> tuple[Shape, ...]:
    """Two operands of one shape; under ``broadcast`` each stretches along an axis."""
    return ((5, 1, 7), (3, 1)) if condition == "broadcast" else one(condition) * 2


def pair(condition: str) -> tuple[Shape, ...]:
    """As ``two``, for an op that is compiled alone: of integers it is many ops."""
    return two(condition)


def three(condition: str) -> tuple[Shape, ...]:
    """Three operands of one shape; under ``broadcast`` all differ."""
    return ((1, 7), (5, 1, 7), (3, 1)) if condition == "broadcast" else one(condition) * 3


def _is_float(x: Array) -> bool:
    return np.asarray(x).dtype == np.longdouble


def floor_divide(x: Array, y: Array) -> Array:
    """The quotient rounded down; an integer divided by 0 is 0.

    Of floats it is the floor of the exact quotient as numpy finds it: from the remainder.
    """
    if _is_float(x):
        return np.floor_divide(x, y)
    return _of_integers(x, y, lambda a, b: a // b if b else 0)


def modulo(x: Array, y: Array) -> Array:
    """The remainder with the sign of the divisor; an integer modulo 0 is 0."""
    return np.mod(x, y) if _is_float(x) else _of_integers(x, y, lambda a, b: a % b if b else 0)


def _of_integers(x: Array, y: Array, function: object) -> Array:
    return np.frompyfunc(function, 2, 1)(x, y)  # pyright: ignore


def power(x: Array, y: Array) -> Array:
    """x to the y; of integers by multiplying, which wraps; 1 over that is cut to a whole number."""
    return np.power(x, y) if _is_float(x) else _of_integers(x, y, _whole_power)


def _whole_power(x: int, y: int) -> int:
    if y >= 0:
        return pow(x, y, 2**64)
    return (x if y % 2 else 1) if abs(x) == 1 else 0


def error_function(x: Array) -> Array:
    """2/√π e^(-x²) Σ 2ⁿ x^(2n+1) / (2n+1)!!: every term has the sign of x, nothing cancels."""
    inside = np.where(np.abs(x) < 6.5, x, 0)
    term, total = inside, inside
    for n in range(1, 220):
        term = term * 2 * inside * inside / (2 * n + 1)
        total = total + term
    root = np.longdouble("1.1283791670955125738961589031215451717")  # 2/√π
    series = root * np.exp(-inside * inside) * total
    return np.where(np.isnan(x), x, np.where(np.abs(x) < 6.5, series, np.sign(x)))


def maximum(x: Array, y: Array) -> Array:
    """The larger; NaN wins, and +0 is larger than -0."""
    if not _is_float(x):
        return np.where(x > y, x, y)
    larger = np.maximum(x, y)
    return np.where((x == 0) & (y == 0), x + y, larger)


def minimum(x: Array, y: Array) -> Array:
    """The smaller; NaN wins, and -0 is smaller than +0."""
    return -maximum(-x, -y) if _is_float(x) else np.where(x < y, x, y)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def _gelu(x: Array) -> Array:
    half = np.longdouble(0.5)
    return half * x * (1 + error_function(x * np.sqrt(half)))


def _gelu_tanh(x: Array) -> Array:
    inner = np.sqrt(2 / np.longdouble(math.pi)) * (x + np.longdouble(0.044715) * x**3)
    return np.longdouble(0.5) * x * (1 + np.tanh(inner))


def _magnitude(x: Array) -> Array:
    return np.abs(x)


# 1 + erf cancels for negative x: the error is a few roundings of numbers of the size of x.
_GELU = Bound(ulps=4, terms=4, scale=_magnitude)

_BINARY: dict[str, Call] = {
    "add": Call("a + b", lambda a, b: a + b),
    "sub": Call("a - b", lambda a, b: a - b),
    "mul": Call("a * b", lambda a, b: a * b),
    "div": Call("a / b", lambda a, b: a / b),
    "floordiv": Call("a // b"),
    "mod": Call("a % b"),
    "min": Call("min(a, b)", minimum),
    "max": Call("max(a, b)", maximum),
    "eq": Call("a == b", lambda a, b: a == b),
    "ne": Call("a != b", lambda a, b: a != b),
    "lt": Call("a < b", lambda a, b: a < b),
    "le": Call("a <= b", lambda a, b: a <= b),
    "gt": Call("a > b", lambda a, b: a > b),
    "ge": Call("a >= b", lambda a, b: a >= b),
    "logical_and": Call("a && b", lambda a, b: a & b),
    "logical_or": Call("a || b", lambda a, b: a | b),
}
_UNARY: dict[str, Call] = {
    "neg": Call("-a", lambda a: -a),
    "abs": Call("abs(a)", lambda a: abs(a)),
    "exp": Call("exp(a)", np.exp, FUNCTION),
    "log": Call("log(a)", np.log, FUNCTION),
    "sqrt": Call("sqrt(a)", np.sqrt),
    "rsqrt": Call("rsqrt(a)", lambda a: 1 / np.sqrt(a), FUNCTION),
    "sin": Call("sin(a)", np.sin, FUNCTION),
    "cos": Call("cos(a)", np.cos, FUNCTION),
    "tanh": Call("tanh(a)", np.tanh, FUNCTION),
    "erf": Call("erf(a)", error_function, FUNCTION),
    "floor": Call("floor(a)", np.floor),
    "ceil": Call("ceil(a)", np.ceil),
    "round": Call("round(a)", np.rint),
    "relu": Call("relu(a)", lambda a: maximum(a, a * 0 if not _is_float(a) else np.zeros_like(a))),
    "sigmoid": Call("sigmoid(a)", sigmoid, COMPOSITE),
    "silu": Call("silu(a)", lambda a: a * sigmoid(a), COMPOSITE),
    "logical_not": Call("!a", lambda a: ~a),
}
_CASTS = tuple(
    Call(f"cast(a, {name})")
    for name in ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool")
)

ELEMENTWISE_ROWS: tuple[Row, ...] = (
    *(Row(name, two, (call,)) for name, call in _BINARY.items()),
    Row("pow", pair, (Call("a ** b", power, FUNCTION),)),
    *(Row(name, one, (call,)) for name, call in _UNARY.items()),
    Row(
        "gelu",
        one,
        (Call("gelu(a)", _gelu, _GELU), Call('gelu(a, approximate="tanh")', _gelu_tanh, _GELU)),
    ),
    Row("cast", one, _CASTS),
    Row(
        "where",
        three,
        (Call("where(a, b, c)", lambda a, b, c: np.where(a, b, c)),),
        dtypes={"a": "bool"},
    ),
    Row(
        "clamp",
        three,
        (
            Call("clamp(a, b, c)", lambda a, b, c: minimum(maximum(a, b), c)),
            Call("clamp(a, min=b)", lambda a, b, c: maximum(a, b)),
            Call("clamp(a, max=c)", lambda a, b, c: minimum(a, c)),
        ),
    ),
)
