"""Rows of functions, activations, bits and quantisation: element by element."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
from conformance.matrix.elementwise import (
    COMPOSITE,
    FUNCTION,
    maximum,
    minimum,
    one,
    sigmoid,
    three,
    two,
)
from conformance.matrix.row import Array, Bound, Call, Row, Shape
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.reference.rounding import dtype_of_array

TWO_FUNCTIONS = Bound(ulps=4)
"""A composite of two functions: within 4 units in the last place."""


def halves(condition: str) -> tuple[Shape, ...]:
    """A matrix whose last axis can be halved."""
    return ((int(condition), 6),) if condition.isdigit() else ((7, 10),)


def channels(condition: str) -> tuple[Shape, ...]:
    """Samples of three channels, and one number for each channel."""
    return ((2, 3, int(condition) if condition.isdigit() else 9), (3,))


def own_roundings(count: float) -> Callable[..., float]:
    """Roundings to the dtype of the first operand, counted in those of its accumulator."""

    def terms(*operands: Array) -> float:
        dtype = dtype_of_array(operands[0])
        own, carried = (
            float(ml_dtypes.finfo(each.numpy).eps) for each in (dtype, DTYPES[dtype.accumulator])
        )
        return count * own / carried

    return terms


def _softplus(x: Array) -> Array:
    return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 30))))


def _elu(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def _selu(x: Array) -> Array:
    scale, alpha = np.longdouble("1.0507009873554805"), np.longdouble("1.6732632423543772")
    return scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _hard(x: Array) -> Array:
    return minimum(maximum(x + 3, np.zeros_like(x)), np.full_like(x, 6)) / 6


def _hard_size(x: Array) -> Array:
    return (np.abs(x) + 3) / 6


def _lerp(a: Array, b: Array, c: Array) -> Array:
    return np.where(np.abs(c) < 0.5, a + c * (b - a), b - (b - a) * (1 - c))


def _lerp_size(a: Array, b: Array, c: Array) -> Array:
    return (np.abs(a) + np.abs(b)) * (1 + np.abs(c))


def _sign(a: Array) -> Array:
    return np.where(a > 0, 1, np.where(a < 0, -1, a))


def _prelu(a: Array, b: Array) -> Array:
    return np.where(a > 0, a, b[:, None] * a)


def _glu(a: Array) -> Array:
    left, right = np.split(a, 2, axis=-1)
    return left * sigmoid(right)


def _left(a: int, amount: int) -> int:
    return a << amount if 0 <= amount < 64 else 0


def _right(a: int, amount: int) -> int:
    return a >> min(amount, 64) if amount >= 0 else -(a < 0)


def _quantized(low: int, high: int, zero: int) -> Callable[[Array], Array]:
    def truth(a: Array) -> Array:
        whole = np.clip(np.rint(np.where(np.isnan(a), 0, a) * 2) + zero, low, high)
        return np.where(np.isnan(a), 0, whole).astype(object)

    return truth


def _fake(a: Array) -> Array:
    return np.clip(np.rint(a * 2), -128, 127) / 2


def number_too(condition: str) -> tuple[Shape, ...]:
    """An array and a number."""
    return (*one(condition), ())


def columns_too(condition: str) -> tuple[Shape, ...]:
    """A matrix, and one number for each of its columns."""
    rows = int(condition) if condition.isdigit() else 7
    return ((rows, 5), (5,), (5,))


# Where softplus is a subnormal number, x times its absolute error counts.
_MISH = Bound(10, 1, lambda a: np.abs(a) * np.longdouble(2) ** -126)

_UNARY: dict[str, Call] = {
    "exp2": Call("exp2(a)", np.exp2, FUNCTION),
    "expm1": Call("expm1(a)", np.expm1, TWO_FUNCTIONS),
    "log2": Call("log2(a)", np.log2, FUNCTION),
    "log10": Call("log10(a)", np.log10, TWO_FUNCTIONS),
    "log1p": Call("log1p(a)", np.log1p, TWO_FUNCTIONS),
    "tan": Call("tan(a)", np.tan, TWO_FUNCTIONS),
    "sinh": Call("sinh(a)", np.sinh, TWO_FUNCTIONS),
    "cosh": Call("cosh(a)", np.cosh, TWO_FUNCTIONS),
    "asin": Call("asin(a)", np.arcsin, TWO_FUNCTIONS),
    "acos": Call("acos(a)", np.arccos, TWO_FUNCTIONS),
    "atan": Call("atan(a)", np.arctan, FUNCTION),
    "asinh": Call("asinh(a)", np.arcsinh, TWO_FUNCTIONS),
    "acosh": Call("acosh(a)", np.arccosh, TWO_FUNCTIONS),
    "atanh": Call("atanh(a)", np.arctanh, TWO_FUNCTIONS),
    "trunc": Call("trunc(a)", np.trunc),
    "sign": Call("sign(a)", _sign),
    "square": Call("square(a)", lambda a: a * a),
    "reciprocal": Call("reciprocal(a)", lambda a: 1 / a),
    "isnan": Call("isnan(a)", np.isnan),
    "isinf": Call("isinf(a)", np.isinf),
    "isfinite": Call("isfinite(a)", np.isfinite),
    "relu6": Call("relu6(a)", lambda a: minimum(maximum(a, np.zeros_like(a)), np.full_like(a, 6))),
    "leaky_relu": Call(
        "leaky_relu(a, 0.25)", lambda a: np.where(a > 0, a, a * np.longdouble(0.25))
    ),
    "elu": Call("elu(a)", _elu, COMPOSITE),
    "selu": Call("selu(a)", _selu, COMPOSITE),
    "softplus": Call("softplus(a)", _softplus, COMPOSITE),
    "mish": Call("mish(a)", lambda a: a * np.tanh(_softplus(a)), _MISH),
    "logsigmoid": Call("logsigmoid(a)", lambda a: -np.logaddexp(0, -a), COMPOSITE),
    "hardsigmoid": Call("hardsigmoid(a)", _hard, Bound(2, 4, _hard_size)),
    "hardswish": Call(
        "hardswish(a)", lambda a: a * _hard(a), Bound(2, 4, lambda a: np.abs(a) * _hard_size(a))
    ),
    "hardtanh": Call("hardtanh(a)", lambda a: np.clip(a, -1, 1)),
    "softsign": Call("softsign(a)", lambda a: a / (1 + np.abs(a)), Bound(ulps=3)),
    "bitwise_not": Call("bitwise_not(a)", lambda a: ~a),
}
_BINARY: dict[str, Call] = {
    "bitwise_and": Call("bitwise_and(a, b)", lambda a, b: a & b),
    "bitwise_or": Call("bitwise_or(a, b)", lambda a, b: a | b),
    "bitwise_xor": Call("bitwise_xor(a, b)", lambda a, b: a ^ b),
    "bitwise_left_shift": Call("bitwise_left_shift(a, b)", np.frompyfunc(_left, 2, 1)),
    "bitwise_right_shift": Call("bitwise_right_shift(a, b)", np.frompyfunc(_right, 2, 1)),
}

FUNCTION_ROWS: tuple[Row, ...] = (
    *(Row(name, one, (call,)) for name, call in _UNARY.items()),
    *(Row(name, two, (call,)) for name, call in _BINARY.items()),
    *(
        Row(name, two, (_BINARY[name],), makers={"b": "shifts"})
        for name in ("bitwise_left_shift", "bitwise_right_shift")
    ),
    Row(
        "lerp",
        three,
        (Call("lerp(a, b, c)", _lerp, Bound(2, own_roundings(4), _lerp_size)),),
        makers={"a": "small", "b": "small", "c": "small"},
    ),
    Row("prelu", channels, (Call("prelu(a, b)", _prelu),)),
    Row("glu", halves, (Call("glu(a)", _glu, COMPOSITE),)),
    Row(
        "quantize",
        one,
        (
            Call("quantize(a, 0.5, 10)", _quantized(-128, 127, 10)),
            Call("quantize(a, 0.5, 10, dtype=u8)", _quantized(0, 255, 10)),
            Call("quantize(a, 0.5, dtype=i32)", _quantized(-(2**31), 2**31 - 1, 0)),
        ),
    ),
    Row(
        "quantize",
        columns_too,
        (Call("quantize(a, b, c, axis=1)"),),
        dtypes={"c": "i8"},
        makers={"b": "positive"},
    ),
    Row(
        "dequantize",
        number_too,
        (Call("dequantize(a, b)", lambda a, b: a * b, Bound(ulps=2)),),
        dtypes={"b": "f32"},
        makers={"b": "positive"},
    ),
    Row("fake_quantize", one, (Call("fake_quantize(a, 0.5)", _fake),)),
)
