"""Exact sums and products, rounded once."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from wia_compiler.simulators.ptx.values.form import Array

BF16 = np.dtype(ml_dtypes.bfloat16)
_CANONICAL: dict[np.dtype[Any], int] = {
    np.dtype(np.float16): 0x7FFF,
    BF16: 0x7FFF,
    np.dtype(np.float32): 0x7FFFFFFF,
    np.dtype(np.float64): 0x7FF8000000000000,
}
"""The NaN that arithmetic gives, whatever NaN went in (PTX ISA, "Floating Point Instructions")."""
_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)
_SPLITTER = float(2**27 + 1)


def canonical(value: Array) -> Array:
    """The same numbers, every NaN the one that the hardware gives."""
    wrong = np.isnan(value)
    if not wrong.any():
        return value
    bits = np.dtype(f"uint{value.dtype.itemsize * 8}")
    whole = value.view(bits)
    return np.where(wrong, bits.type(_CANONICAL[value.dtype]), whole).view(value.dtype)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its error, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and its error, exactly where nothing overflows (Veltkamp, Dekker)."""
    product = a * b

    def split(x: Array) -> tuple[Array, Array]:
        scaled = x * _SPLITTER
        high = scaled - (scaled - x)
        return high, x - high

    (a1, a2), (b1, b2) = split(a), split(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def to_odd(total: Array, error: Array) -> Array:
    """A double sum rounded to odd: rounding it again to a shorter type is then rounding once."""
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    inexact = (error != 0) & np.isfinite(total) & np.isfinite(error) & even
    towards = np.where(error > 0, np.inf, -np.inf)
    return np.where(inexact, np.nextafter(total, towards), total)


def fused(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` rounded once, in the type of the operands.

    Products of types up to f32 are exact in f64. For f64: Boldo and Melquiond, "Emulation of a FMA
    and correctly rounded sums" (2008), where nothing overflows on the way.
    """
    if a.dtype != np.float64:
        product, added = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
        total = product + added
        if a.dtype == np.float32 and not _may_tie(total).any():
            return total.astype(np.float32)
        return to_odd(*two_sum(product, added)).astype(a.dtype)
    plain = a * b + c
    high, low = two_product(a, b)
    top, rest = two_sum(c, low)
    first, second = two_sum(high, top)
    exact = first + to_odd(*two_sum(rest, second))
    return np.where(np.isfinite(exact), exact, plain)


def fused_error(a: Array, b: Array, c: Array, near: Array) -> Array:
    """Of ``a * b + c`` in f64, what the rounded result leaves out: right in its sign."""
    high, low = two_product(a, b)
    top, rest = two_sum(c, low)
    first, second = two_sum(high, top)
    one, other = two_sum(first - near, second)
    total, last = two_sum(one, rest)
    return total + (last + other)


def _may_tie(total: Array) -> Array:
    """Where a rounded f64 looks half-way between two f32, so that the error of it decides.

    The 29 bits that f32 has no room for are then 100…0; results below its normal range have room
    for fewer, and count as ties altogether.
    """
    half = (total.view(np.uint64) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    return half | ((np.abs(total) < _SMALLEST_NORMAL) & (total != 0))


def directed(value: Array, result: np.dtype[Any], mode: str) -> Array:
    """A float (in f64) in a shorter type, rounded up (rp), down (rm), towards zero (rz) or rn."""
    near = value.astype(result)
    if mode in ("", "rn"):
        return near
    back = near.astype(np.float64)
    down, up = result.type(-np.inf), result.type(np.inf)
    below, above = np.nextafter(near, down), np.nextafter(near, up)
    lower = np.where(back > value, below, near)
    upper = np.where(back < value, above, near)
    match mode:
        case "rm":
            return lower
        case "rp":
            return upper
        case _:
            return np.where(value < 0, upper, lower)
