"""pow as branch-free arithmetic: 2^(y log2 x), the logarithm with more bits than the result."""

from __future__ import annotations

import math

from wia_compiler.passes.expand_math import coefficients
from wia_compiler.passes.expand_math.builder import Number
from wia_compiler.passes.expand_math.exponential import power_of_two, scaled, whole_part
from wia_compiler.passes.expand_math.logarithm import split

# 1/3 and log2(e) in two parts of f64.
_THIRD = (0.3333333333333333, 1.850371707708594e-17)
_LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)


def power(x: Number, y: Number) -> Number:
    """x^y with the limits of IEEE 754 (C's pow): NaN for x < 0 and y not whole."""
    magnitude = _power_f32(x.abs(), y) if x.is_f32 else _power_f64(x.abs(), y)
    return _with_limits(x, y, magnitude)


def _power_f32(x: Number, y: Number) -> Number:
    """In f64, to some 40 bits, rounded once at the end."""
    e, m = split(x)
    f = m.to_f64() - 1.0
    s = f / (f + 2.0)
    z = s * s
    natural = (s * z).fma(z.polynomial(coefficients.LOG_POW_F32), s * 2.0)
    logarithm = natural.fma(_LOG2_E[0], e.to_f64())
    # A finite stand-in for y = ±inf keeps 0 * inf, the exponent of 1^inf, at 0.
    exponent = y.to_f64().at_most(1e40).at_least(-1e40) * _at_limits(x, logarithm)
    exponent = exponent.at_most(200.0).at_least(-200.0)
    shifted, whole = whole_part(exponent)
    r = exponent - whole
    tail = r.polynomial(coefficients.EXP2_POW_F32)
    return (tail.fma(r, 1.0) * power_of_two(shifted.bits(), is_f32=False)).to_f32()


def _power_f64(x: Number, y: Number) -> Number:
    """The logarithm to some 68 bits, as a sum of two f64."""
    high, low = _log2_in_two(x)
    high = _at_limits(x, high)
    low = high.abs().compare("olt", math.inf).select(low, 0.0)
    y = y.at_most(1e300).at_least(-1e300)
    exponent = (y * high).at_most(1100.0).at_least(-1100.0)
    inside = exponent.abs().compare("olt", 1100.0)
    rest = inside.select(y.fma(high, -exponent) + y * low, 0.0)
    shifted, whole = whole_part(exponent)
    r = exponent - whole
    tail = r.polynomial(coefficients.EXP2_F64)
    # 2^(r + rest) = 2^r + rest ln(2) 2^r
    mantissa = tail.fma(r, 1.0)
    slope = mantissa * (rest * math.log(2.0))
    return scaled(tail.fma(r, slope) + 1.0, shifted, whole)


def _log2_in_two(x: Number) -> tuple[Number, Number]:
    """log2 of a positive finite f64: e + log2(e) (2 s + 2 s^3/3 + …), s = (m - 1)/(m + 1)."""
    e, m = split(x)
    f = m - 1.0
    below = f + 2.0
    below_low = f - (below - 2.0)
    s = f / below
    s_low = (s.fma(-below, f) - s * below_low) / below
    z = s * s
    z_low = s.fma(s, -z) + s * s_low * 2.0
    # 1 + z/3 + z^2 p(z): 1/3 and what z lost in two parts, the rest in one.
    rest = z * z.polynomial(coefficients.LOG_POW_F64)
    third = rest + _THIRD[0]
    third_low = (_THIRD[0] - third) + rest + _THIRD[1]
    term, term_low = _product(z, z_low, third, third_low)
    tail, tail_low = _product(s, s_low, term, term_low)
    total, total_low = _sum(s, s_low, tail, tail_low)
    natural, natural_low = total * 2.0, total_low * 2.0
    binary, binary_low = _product(
        natural,
        natural_low,
        x.at.constant(_LOG2_E[0], x.type),
        x.at.constant(_LOG2_E[1], x.type),
    )
    whole = e.truncate(32).to_f64()
    high = whole + binary
    # Where e is not 0 it is the larger of the two: what the sum lost is then exact.
    low = (whole - high) + binary + binary_low
    return high, low


def _product(a: Number, a_low: Number, b: Number, b_low: Number) -> tuple[Number, Number]:
    """The product of two sums of two, as a sum of two."""
    high = a * b
    return high, a.fma(b, -high) + (a * b_low + a_low * b)


def _sum(a: Number, a_low: Number, b: Number, b_low: Number) -> tuple[Number, Number]:
    """The sum of two sums of two where a is the larger."""
    high = a + b
    return high, (a - high) + b + (a_low + b_low)


def _at_limits(x: Number, logarithm: Number) -> Number:
    """The logarithm of 0 and inf."""
    logarithm = x.compare("oeq", 0.0).select(-math.inf, logarithm)
    return x.compare("oeq", math.inf).select(math.inf, logarithm)


def _with_limits(x: Number, y: Number, magnitude: Number) -> Number:
    """Sign, and the cases that a logarithm does not know."""
    is_whole = y.floor().compare("oeq", y)
    half = y * 0.5
    is_odd = is_whole & half.floor().compare("one", half)
    result = is_odd.select(magnitude.copysign(x), magnitude)
    below = x.compare("olt", 0.0) & x.compare("ogt", -math.inf)
    undefined = below & (is_whole ^ 1)
    unordered = x.compare("uno", y)
    result = (undefined | unordered).select(math.nan, result)
    always_one = x.compare("oeq", 1.0) | y.compare("oeq", 0.0)
    return always_one.select(1.0, result)
