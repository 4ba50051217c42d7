"""The meaning of elementwise ops on numpy.

Arithmetic is IEEE's in the op's dtype (f32 for f16 and bf16), rounded once. Functions such as
``exp`` are computed in f64 and rounded, so that for f32 and below they are correctly rounded but
for rare ties; for f64 they are numpy's own, within one unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.wia.declaration import Attributes
from wia_compiler.reference.rounding import (
    Array,
    accumulator,
    cast,
    dtype_of_array,
    exact,
    round_to,
    widen,
)

Named: TypeAlias = "dict[str, Array]"
Meaning: TypeAlias = "Callable[[Named, Attributes], Array]"
NumpyFunction: TypeAlias = "Callable[..., Any]"

_erf = np.frompyfunc(math.erf, 1, 1)


def _rounded(function: NumpyFunction) -> Meaning:
    """Computed in the op's dtype, or in f32 for f16 and bf16, and rounded to the op's dtype."""

    def meaning(operands: Named, attributes: Attributes) -> Array:
        arrays = list(operands.values())
        dtype = dtype_of_array(arrays[0])
        result = np.asarray(function(*(widen(array) for array in arrays)))
        return round_to(result, dtype) if dtype.is_float else result.astype(dtype.numpy)

    return meaning


def _through_f64(function: NumpyFunction) -> Meaning:
    """Computed in f64 and rounded to the op's dtype."""

    def meaning(operands: Named, attributes: Attributes) -> Array:
        arrays = list(operands.values())
        return round_to(np.asarray(in_f64(function, *arrays)), dtype_of_array(arrays[0]))

    return meaning


def in_f64(function: NumpyFunction, *arrays: Array) -> Array:
    """A numpy function on operands broadcast together, as f64, in C order.

    numpy chooses between differently rounded loops by stride; one layout gives one result.
    """
    wide = [exact(array) for array in np.broadcast_arrays(*arrays)]
    return np.asarray(function(*wide), dtype=np.float64)


def _predicate(function: NumpyFunction) -> Meaning:
    def meaning(operands: Named, attributes: Attributes) -> Array:
        return np.asarray(function(*(widen(array) for array in operands.values())))

    return meaning


def erf(x: Array) -> Array:
    """The error function of f64 values; numpy has none."""
    return np.asarray(_erf(x)).astype(np.float64)


def inverse_root(x: Array) -> Array:
    """1 / sqrt(x) of f64 values."""
    return 1.0 / np.sqrt(x)


def power(x: Array, y: Array) -> Array:
    """x to the power of y; a square is the product, correctly rounded."""
    return np.where(y == 2, x * x, np.power(x, y))


def _power(operands: Named, attributes: Attributes) -> Array:
    x, y = operands["input"], operands["other"]
    dtype = dtype_of_array(x)
    if dtype.is_float:
        return _through_f64(power)(operands, attributes)
    wide = np.frompyfunc(lambda base, exponent: _whole_power(base, exponent, dtype.bits), 2, 1)
    powers = np.asarray(wide(x.astype(object), y.astype(object)))
    return (powers.astype(np.uint64)).astype(dtype.numpy)


def _whole_power(base: int, exponent: int, bits: int) -> int:
    """base^exponent modulo 2^bits; of a negative exponent the whole part of 1 / base^-exponent."""
    if exponent >= 0:
        return pow(base, exponent, 1 << bits)
    unit = base if exponent % 2 else 1
    return (unit if base in (1, -1) else 0) % (1 << bits)


def _left_shift(operands: Named, attributes: Attributes) -> Array:
    x, amount = operands["input"], operands["other"]
    inside, safe = _shift_amount(amount)
    return np.where(inside, np.left_shift(x, safe), x.dtype.type(0))


def _right_shift(operands: Named, attributes: Attributes) -> Array:
    x, amount = operands["input"], operands["other"]
    inside, safe = _shift_amount(amount)
    sign = np.where(x < 0, x.dtype.type(-1) if x.dtype.kind == "i" else 0, 0).astype(x.dtype)
    return np.where(inside, np.right_shift(x, safe), sign)


def _shift_amount(amount: Array) -> tuple[Array, Array]:
    """Which amounts are 0 to bits - 1, and the amounts with 0 for the others."""
    inside = (amount >= 0) & (amount < 8 * amount.dtype.itemsize)
    return inside, np.where(inside, amount, amount.dtype.type(0))


def maximum(x: Array, y: Array) -> Array:
    """The larger, NaN if either is; +0 is larger than -0 (IEEE 754-2019 ``maximum``)."""
    larger = np.maximum(x, y)
    return larger if _is_whole(larger) else np.where((x == 0) & (y == 0), x + y, larger)


def minimum(x: Array, y: Array) -> Array:
    """The smaller, NaN if either is; -0 is smaller than +0 (IEEE 754-2019 ``minimum``)."""
    return np.minimum(x, y) if _is_whole(x) else -maximum(-x, -y)


def largest(x: Array, axis: int | tuple[int, ...], keepdims: bool) -> Array:
    """The fold of ``maximum`` over axes that hold elements: +0 where any element is, not -0."""
    found = np.asarray(np.max(x, axis=axis, keepdims=keepdims))
    if _is_whole(x):
        return found
    positive = np.any((x == 0) & ~np.signbit(x), axis=axis, keepdims=keepdims)
    return np.where(found == 0, np.where(positive, 0.0, -0.0), found).astype(x.dtype)


def smallest(x: Array, axis: int | tuple[int, ...], keepdims: bool) -> Array:
    """The fold of ``minimum`` over axes that hold elements: -0 where any element is, not +0."""
    if _is_whole(x):
        return np.asarray(np.min(x, axis=axis, keepdims=keepdims))
    return -largest(-x, axis, keepdims)


def _is_whole(x: Array) -> bool:
    """Whether an array holds integers or bools; bf16 is no kind of numpy's."""
    return x.dtype.kind in "iub"


def _where(operands: Named, attributes: Attributes) -> Array:
    return np.where(operands["condition"], operands["input"], operands["other"])


def _clamp(operands: Named, attributes: Attributes) -> Array:
    value = widen(operands["input"])
    if "min" in operands:
        value = maximum(value, widen(operands["min"]))
    if "max" in operands:
        value = minimum(value, widen(operands["max"]))
    return value.astype(operands["input"].dtype)


def _relu(operands: Named, attributes: Attributes) -> Array:
    value = widen(operands["input"])
    return maximum(value, np.zeros_like(value)).astype(operands["input"].dtype)


def _cast(operands: Named, attributes: Attributes) -> Array:
    return cast(operands["input"], DTYPES[str(attributes["dtype"])])


def function_of(function: NumpyFunction, x: Array) -> Array:
    """``exp`` and the like of an f32 or f64 array, rounded to its dtype."""
    return round_to(in_f64(function, x), dtype_of_array(x))


def _in_accumulator(formula: Callable[[Array, Attributes], Array]) -> Meaning:
    """A formula of several steps, each rounded to f32 (f64 for f64), its result rounded once."""

    def meaning(operands: Named, attributes: Attributes) -> Array:
        x = operands["input"]
        return round_to(formula(accumulator(x), attributes), dtype_of_array(x))

    return meaning


def sigmoid(x: Array, attributes: Attributes) -> Array:
    """1 / (1 + exp(-x)), written so that the exponential never overflows."""
    small = function_of(np.exp, -np.abs(x))
    return np.where(x < 0, small, x.dtype.type(1)) / (x.dtype.type(1) + small)


def _silu(x: Array, attributes: Attributes) -> Array:
    return x * sigmoid(x, attributes)


def _gelu(x: Array, attributes: Attributes) -> Array:
    def number(value: float) -> Any:
        return x.dtype.type(value)

    if attributes["approximate"] == "tanh":
        cube = x * x * x
        # 0.5 (1 + tanh u) = 1 / (1 + exp(-2 u)), in which nothing cancels.
        inner = number(-2 * math.sqrt(2 / math.pi)) * (x + number(0.044715) * cube)
        return x / (number(1) + function_of(np.exp, inner))
    gate = function_of(erf, x * number(math.sqrt(0.5)))
    return number(0.5) * x * (number(1) + gate)


ELEMENTWISE_MEANING: dict[str, Meaning] = {
    "add": _rounded(np.add),
    "sub": _rounded(np.subtract),
    "mul": _rounded(np.multiply),
    "div": _rounded(np.divide),
    "floordiv": _rounded(np.floor_divide),
    "mod": _rounded(np.mod),
    "pow": _power,
    "bitwise_and": _rounded(np.bitwise_and),
    "bitwise_or": _rounded(np.bitwise_or),
    "bitwise_xor": _rounded(np.bitwise_xor),
    "bitwise_not": _rounded(np.invert),
    "bitwise_left_shift": _left_shift,
    "bitwise_right_shift": _right_shift,
    "min": _rounded(minimum),
    "max": _rounded(maximum),
    "eq": _predicate(np.equal),
    "ne": _predicate(np.not_equal),
    "lt": _predicate(np.less),
    "le": _predicate(np.less_equal),
    "gt": _predicate(np.greater),
    "ge": _predicate(np.greater_equal),
    "logical_and": _predicate(np.logical_and),
    "logical_or": _predicate(np.logical_or),
    "logical_not": _predicate(np.logical_not),
    "neg": _rounded(np.negative),
    "abs": _rounded(np.abs),
    "exp": _through_f64(np.exp),
    "exp2": _through_f64(np.exp2),
    "expm1": _through_f64(np.expm1),
    "log": _through_f64(np.log),
    "log2": _through_f64(np.log2),
    "log10": _through_f64(np.log10),
    "log1p": _through_f64(np.log1p),
    "sqrt": _rounded(np.sqrt),
    "rsqrt": _through_f64(inverse_root),
    "sin": _through_f64(np.sin),
    "cos": _through_f64(np.cos),
    "tan": _through_f64(np.tan),
    "atan": _through_f64(np.arctan),
    "asin": _through_f64(np.arcsin),
    "acos": _through_f64(np.arccos),
    "sinh": _through_f64(np.sinh),
    "cosh": _through_f64(np.cosh),
    "tanh": _through_f64(np.tanh),
    "asinh": _through_f64(np.arcsinh),
    "acosh": _through_f64(np.arccosh),
    "atanh": _through_f64(np.arctanh),
    "erf": _through_f64(erf),
    "floor": _rounded(np.floor),
    "ceil": _rounded(np.ceil),
    "round": _rounded(np.rint),
    "relu": _relu,
    "sigmoid": _in_accumulator(sigmoid),
    "silu": _in_accumulator(_silu),
    "gelu": _in_accumulator(_gelu),
    "where": _where,
    "clamp": _clamp,
    "cast": _cast,
}
