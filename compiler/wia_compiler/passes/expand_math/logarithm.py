"""log and log2 as branch-free arithmetic."""

from __future__ import annotations

import math

from wia_compiler.passes.expand_math import coefficients
from wia_compiler.passes.expand_math.builder import Number

# bits of sqrt(1/2), smallest normal number, mantissa bits, and 2^k that makes a subnormal normal
_F32 = (0x3F3504F3, 1.1754943508222875e-38, 23, 24)
_F64 = (0x3FE6A09E667F3BCD, 2.2250738585072014e-308, 52, 54)
# ln 2 in two parts: the first has zeros at its end, so that a multiple of it is exact.
_LN2_F32 = (0.693145751953125, 1.428606765330187e-06)
_LN2_F64 = (0.6931471805598903, 5.497923018708371e-14)
_LOG2_E_F32 = (1.4426950216293335, 1.925963033500011e-08)
_LOG2_E_F64 = (1.4426950408889634, 2.0355273740931033e-17)


def log(x: Number) -> Number:
    """Natural logarithm; -inf at 0, NaN below. x = 2^e m, then a polynomial in m - 1."""
    e, m = split(x)
    high, low = _LN2_F32 if x.is_f32 else _LN2_F64
    whole = _whole(e, x)
    f = m - 1.0
    if x.is_f32:
        small = (f * f).fma(f.polynomial(coefficients.LOG_F32), whole * low)
        return _with_limits(x, whole.fma(high, f + small))
    # log(1 + f) = f - (f^2/2 - s (f^2/2 + R)) with s = f/(2 + f), as in fdlibm's e_log.c.
    s = f / (f + 2.0)
    z = s * s
    rest = z * z.polynomial(coefficients.LOG_F64)
    half = f * f * 0.5
    correction = s.fma(half + rest, whole * low)
    return _with_limits(x, whole.fma(high, f - (half - correction)))


def log2(x: Number) -> Number:
    """Logarithm to base 2: exact at powers of two."""
    e, m = split(x)
    f = m - 1.0
    high, low = _LOG2_E_F32 if x.is_f32 else _LOG2_E_F64
    if x.is_f32:
        natural = (f * f).fma(f.polynomial(coefficients.LOG_F32), f)
    else:
        s = f / (f + 2.0)
        z = s * s
        half = f * f * 0.5
        natural = f - (half - s * (half + z * z.polynomial(coefficients.LOG_F64)))
    return _with_limits(x, _whole(e, x) + natural.fma(high, natural * low))


def split(x: Number) -> tuple[Number, Number]:
    """(e, m) with x = 2^e m and sqrt(1/2) <= m < sqrt(2), for positive x; e is an i32 or i64."""
    root, smallest, mantissa_bits, lift = _F32 if x.is_f32 else _F64
    subnormal = x.compare("olt", smallest)
    bits = subnormal.select(x * 2.0**lift, x).bits()
    e = (bits - root) >> mantissa_bits
    m = (bits - (e << mantissa_bits)).float_of_bits()
    zero = x.at.constant(0, e.type)
    return e - subnormal.select(x.at.constant(lift, e.type), zero), m


def _whole(e: Number, x: Number) -> Number:
    """The exponent as a float; an i64 is cut to 32 bits first, which AVX2 converts in one step."""
    return e.to_f32() if x.is_f32 else e.truncate(32).to_f64()


def _with_limits(x: Number, result: Number) -> Number:
    """inf at inf, -inf at 0, NaN below 0 and for NaN."""
    result = x.compare("oeq", math.inf).select(math.inf, result)
    outside = x.compare("oeq", 0.0).select(x.at.constant(-math.inf, x.type), math.nan)
    return x.compare("ogt", 0.0).select(result, outside)
