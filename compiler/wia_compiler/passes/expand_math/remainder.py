"""The exact remainder of a division (C's fmod), for targets without a C library."""

from __future__ import annotations

import math

from wia_compiler.passes.expand_math.builder import Expansion, Number
from wia_compiler.passes.expand_math.exponential import power_of_two

# smallest normal number, mantissa bits, and 2^k that makes a subnormal normal
_F32 = (1.1754943508222875e-38, 23, 24)
_F64 = (2.2250738585072014e-308, 52, 54)


def remainder(x: Number, y: Number) -> Number:
    """x - y trunc(x / y), exact, with the sign of x; NaN for x infinite or y zero.

    Takes away the largest multiple 2^k |y| that fits until less than |y| is left. Each difference
    is exact (the two are within a factor of two), and the rest at least halves: as many rounds as
    the exponents differ.
    """
    divisor = y.abs()
    start = x.abs()
    possible = start.compare("olt", math.inf) & divisor.compare("ogt", 0.0)
    start = possible.select(start, -1.0)  # below every divisor: nothing is taken away

    def more(inside: Expansion, rest: Number) -> Number:
        return rest.compare("oge", inside.number(divisor.value))

    def less(inside: Expansion, rest: Number) -> Number:
        by = inside.number(divisor.value)
        shift = _exponent(rest) - _exponent(by)
        # Up to 2^277 (f32) or 2^2098 (f64) from the smallest subnormal: no single power holds that.
        part = shift >> 2
        power = power_of_two(part, x.is_f32)
        last = power_of_two(shift - part * 3, x.is_f32)
        scaled = by * power * power * power * last
        too_large = scaled.compare("ogt", rest)
        return rest - too_large.select(scaled * 0.5, scaled)

    rest = x.at.repeat(start, more, less).copysign(x)
    return (possible & y.compare("ord", y)).select(rest, math.nan)


def _exponent(x: Number) -> Number:
    """The exponent of a positive finite number, up to the same constant for all."""
    smallest, mantissa_bits, lift = _F32 if x.is_f32 else _F64
    subnormal = x.compare("olt", smallest)
    lifted = subnormal.select(x * 2.0**lift, x)
    biased = lifted.bits().logical_shift(mantissa_bits)
    zero = x.at.constant(0, biased.type)
    return biased - subnormal.select(x.at.constant(lift, biased.type), zero)
