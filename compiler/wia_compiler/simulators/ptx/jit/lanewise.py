"""numpy's elementwise functions on vectors of lanes: what each is as LLVM instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.jit.code import BF16, Function, Value
from wia_compiler.simulators.ptx.jit.conversions import (
    BOOL,
    F32,
    converted,
    reinterpreted,
    selected,
)


def _arithmetic(whole: str, floating: str) -> Callable[..., Value]:
    """An instruction on numbers of one type; bf16 goes through f32."""

    def write(function: Function, *operands: Value) -> Value:
        dtype = operands[0].dtype
        if dtype == BF16:
            wide = [converted(function, each, F32) for each in operands]
            return converted(function, write(function, *wide), BF16)
        word = floating if dtype.kind == "f" else whole
        return function.each(dtype, f"{word} {function.vector(dtype)} {{0}}, {{1}}", *operands)

    return write


def _compared(word: str) -> Callable[..., Value]:
    def write(function: Function, a: Value, b: Value) -> Value:
        dtype = a.dtype
        if dtype == BF16:
            return write(function, converted(function, a, F32), converted(function, b, F32))
        if dtype.kind == "f":
            # Only "not equal" holds of a NaN.
            test = f"fcmp {'une' if word == 'ne' else 'o' + word}"
        else:
            sign = "" if word in ("eq", "ne") else ("s" if dtype.kind == "i" else "u")
            test = f"icmp {sign}{word}"
        return function.each(BOOL, f"{test} {function.vector(dtype)} {{0}}, {{1}}", a, b)

    return write


def _intrinsic(name: str) -> Callable[..., Value]:
    """A function of one float."""

    def write(function: Function, value: Value) -> Value:
        if value.dtype == BF16:
            wide = write(function, converted(function, value, F32))
            return converted(function, wide, BF16)
        return function.call(name, value.dtype, value)

    return write


def _bits(value: Value) -> np.dtype[Any]:
    return np.dtype(f"u{value.dtype.itemsize}")


def _zero(function: Function, value: Value) -> Value:
    return function.splat(0, value.dtype)


def _absolute(function: Function, value: Value) -> Value:
    dtype = value.dtype
    if dtype.kind == "u":
        return value
    if dtype.kind == "i":
        negative = _compared("lt")(function, value, _zero(function, value))
        return selected(function, negative, _negative(function, value), value)
    # A NaN keeps its bits but for the sign, as everything else does.
    kept = (1 << (dtype.itemsize * 8 - 1)) - 1
    return _masked(function, value, "and", kept)


def _negative(function: Function, value: Value) -> Value:
    dtype = value.dtype
    if dtype.kind in "iu":
        return _arithmetic("sub", "")(function, _zero(function, value), value)
    return _masked(function, value, "xor", 1 << (dtype.itemsize * 8 - 1))


def _masked(function: Function, value: Value, word: str, mask: int) -> Value:
    bits = _bits(value)
    whole = reinterpreted(function, value, bits)
    text = f"{word} {function.vector(bits)} {{0}}, {{1}}"
    return reinterpreted(
        function, function.each(bits, text, whole, function.splat(mask, bits)), value.dtype
    )


def _invert(function: Function, value: Value) -> Value:
    ones = function.splat(True if value.dtype == BOOL else -1, value.dtype)
    return function.each(
        value.dtype, f"xor {function.vector(value.dtype)} {{0}}, {{1}}", value, ones
    )


def _is_nan(function: Function, value: Value) -> Value:
    if value.dtype == BF16:
        value = converted(function, value, F32)
    return function.each(BOOL, f"fcmp uno {function.vector(value.dtype)} {{0}}, {{0}}", value)


def _against_infinity(word: str) -> Callable[..., Value]:
    def write(function: Function, value: Value) -> Value:
        if value.dtype == BF16:
            value = converted(function, value, F32)
        size = function.call("llvm.fabs", value.dtype, value)
        infinity = function.splat(np.inf, value.dtype)
        type = function.vector(value.dtype)
        return function.each(BOOL, f"fcmp {word} {type} {{0}}, {{1}}", size, infinity)

    return write


def _sign_bit(function: Function, value: Value) -> Value:
    bits = np.dtype(f"i{value.dtype.itemsize}")
    whole = reinterpreted(function, value, bits)
    return _compared("lt")(function, whole, function.splat(0, bits))


def _copy_sign(function: Function, size: Value, sign: Value) -> Value:
    top = 1 << (size.dtype.itemsize * 8 - 1)
    kept, taken = _masked(function, size, "and", top - 1), _masked(function, sign, "and", top)
    bits = _bits(size)
    parts = [reinterpreted(function, each, bits) for each in (kept, taken)]
    return reinterpreted(
        function,
        function.each(bits, f"or {function.vector(bits)} {{0}}, {{1}}", *parts),
        size.dtype,
    )


def _next_after(function: Function, value: Value, towards: Value) -> Value:
    """The neighbour of a float: its bits one more or one less; of 0, the smallest number.

    ``towards`` is no NaN.
    """
    bits = _bits(value)
    less, equal = _compared("lt"), _compared("eq")
    whole, one = reinterpreted(function, value, bits), function.splat(1, bits)
    zero = _zero(function, value)
    up = less(function, value, towards)
    positive = less(function, zero, value)
    grows = function.each(
        BOOL, f"xor {function.vector(BOOL)} {{0}}, {{1}}", up, _invert(function, positive)
    )
    type = function.vector(bits)
    more = function.each(bits, f"add {type} {{0}}, {{1}}", whole, one)
    fewer = function.each(bits, f"sub {type} {{0}}, {{1}}", whole, one)
    moved = selected(function, grows, more, fewer)
    smallest = reinterpreted(function, one, value.dtype)
    tiny = _copy_sign(function, smallest, towards)
    found = reinterpreted(function, moved, value.dtype)
    found = selected(function, equal(function, value, zero), tiny, found)
    found = selected(function, equal(function, value, towards), towards, found)
    return selected(function, _is_nan(function, value), value, found)


def _extreme(word: str, *, drops_nan: bool) -> Callable[..., Value]:
    """``minimum`` gives NaN where either is one, ``fmin`` the other."""

    def write(function: Function, a: Value, b: Value) -> Value:
        if a.dtype == BF16:
            wide = [converted(function, each, F32) for each in (a, b)]
            return converted(function, write(function, *wide), BF16)
        chosen = selected(function, _compared(word)(function, a, b), a, b)
        if a.dtype.kind != "f":
            return chosen
        if drops_nan:
            # The comparison is false for a NaN in a, which leaves b.
            return selected(function, _is_nan(function, b), a, chosen)
        return selected(function, _is_nan(function, a), a, chosen)

    return write


def _floor_divide(function: Function, a: Value, b: Value) -> Value:
    """Of integers, ``b`` not 0; rounds down. The lowest number by -1 would trap: it wraps."""
    dtype = a.dtype
    type = function.vector(dtype)
    if dtype.kind == "u":
        return function.each(dtype, f"udiv {type} {{0}}, {{1}}", a, b)
    equal, less = _compared("eq"), _compared("lt")
    zero, one = function.splat(0, dtype), function.splat(1, dtype)
    minus = equal(function, b, function.splat(-1, dtype))
    safe = selected(function, minus, one, b)
    cut = function.each(dtype, f"sdiv {type} {{0}}, {{1}}", a, safe)
    rest = function.each(dtype, f"srem {type} {{0}}, {{1}}", a, safe)
    signs = function.each(dtype, f"xor {type} {{0}}, {{1}}", rest, safe)
    bits = function.vector(BOOL)
    inexact = _invert(function, equal(function, rest, zero))
    below = function.each(BOOL, f"and {bits} {{0}}, {{1}}", inexact, less(function, signs, zero))
    lower = function.each(dtype, f"sub {type} {{0}}, {{1}}", cut, one)
    found = selected(function, below, lower, cut)
    return selected(function, minus, _negative(function, a), found)


def _shifted_right(function: Function, a: Value, amount: Value) -> Value:
    word = "ashr" if a.dtype.kind == "i" else "lshr"
    return function.each(a.dtype, f"{word} {function.vector(a.dtype)} {{0}}, {{1}}", a, amount)


def _counted(function: Function, value: Value) -> Value:
    return converted(function, function.call("llvm.ctpop", value.dtype, value), np.dtype(np.uint8))


def _reciprocal(function: Function, value: Value) -> Value:
    return _arithmetic("", "fdiv")(function, function.splat(1, value.dtype), value)


_BOOLEAN = {word: _arithmetic(word, "") for word in ("and", "or", "xor")}

UFUNCS: dict[str, Callable[..., Value]] = {
    "add": _arithmetic("add", "fadd"),
    "subtract": _arithmetic("sub", "fsub"),
    "multiply": _arithmetic("mul", "fmul"),
    "divide": _arithmetic("", "fdiv"),
    "floor_divide": _floor_divide,
    "reciprocal": _reciprocal,
    "negative": _negative,
    "absolute": _absolute,
    "sqrt": _intrinsic("llvm.sqrt"),
    "rint": _intrinsic("llvm.roundeven"),
    "trunc": _intrinsic("llvm.trunc"),
    "floor": _intrinsic("llvm.floor"),
    "ceil": _intrinsic("llvm.ceil"),
    "isnan": _is_nan,
    "isinf": _against_infinity("oeq"),
    "isfinite": _against_infinity("olt"),
    "signbit": _sign_bit,
    "copysign": _copy_sign,
    "nextafter": _next_after,
    "minimum": _extreme("lt", drops_nan=False),
    "maximum": _extreme("gt", drops_nan=False),
    "fmin": _extreme("lt", drops_nan=True),
    "fmax": _extreme("gt", drops_nan=True),
    "equal": _compared("eq"),
    "not_equal": _compared("ne"),
    "less": _compared("lt"),
    "less_equal": _compared("le"),
    "greater": _compared("gt"),
    "greater_equal": _compared("ge"),
    "bitwise_and": _BOOLEAN["and"],
    "bitwise_or": _BOOLEAN["or"],
    "bitwise_xor": _BOOLEAN["xor"],
    "logical_and": _BOOLEAN["and"],
    "logical_or": _BOOLEAN["or"],
    "logical_xor": _BOOLEAN["xor"],
    "logical_not": _invert,
    "invert": _invert,
    "left_shift": _arithmetic("shl", ""),
    "right_shift": _shifted_right,
    "bitwise_count": _counted,
}
