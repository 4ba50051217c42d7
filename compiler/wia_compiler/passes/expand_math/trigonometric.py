"""sin and cos for every argument: exact reduction by pi/2, then polynomials on |r| <= pi/4."""

from __future__ import annotations

import math

from wia_compiler.passes.expand_math import coefficients
from wia_compiler.passes.expand_math.builder import Number
from wia_compiler.passes.expand_math.reduction import Reduced, reduced_f32, reduced_f64


def sin(x: Number, *, branches: bool) -> Number:
    """Sine; NaN at ±inf."""
    magnitude = _circular(x.abs(), 0, branches)
    sign = x.bits() & (1 << (31 if x.is_f32 else 63))
    return (magnitude.bits() ^ sign).float_of_bits()


def cos(x: Number, *, branches: bool) -> Number:
    """Cosine; NaN at ±inf."""
    return _circular(x.abs(), 1, branches)


def _circular(x: Number, shift: int, branches: bool) -> Number:
    """sin(x + shift pi/2) for x not negative: sine or cosine of the remainder, by the quadrant."""
    reduced = (reduced_f32 if x.is_f32 else reduced_f64)(x, branches=branches)
    quadrant = reduced.quadrant + shift
    sine, cosine = _sine(reduced), _cosine(reduced)
    one = quadrant & 1
    chosen = one.compare("eq", 1).select(cosine, sine)
    negative = (quadrant & 2).compare("eq", 2)
    signed = negative.select(-chosen, chosen)
    finite = x.compare("olt", math.inf)
    return finite.select(signed, math.nan)


def _sine(reduced: Reduced) -> Number:
    r = reduced.high
    z = r * r
    tail = z.polynomial(coefficients.SIN_F32 if r.is_f32 else coefficients.SIN_F64)
    if reduced.low is None:
        return (r * z).fma(tail, r)
    # sin(r + l) = sin(r) + l cos(r), and cos(r) = 1 - r^2/2 is enough for l.
    low = reduced.low - reduced.low * z * 0.5
    return r + (r * z).fma(tail, low)


def _cosine(reduced: Reduced) -> Number:
    r = reduced.high
    z = r * r
    tail = z.polynomial(coefficients.COS_F32 if r.is_f32 else coefficients.COS_F64)
    half = z * 0.5
    near_one = 1.0 - half
    # What rounding 1 - z/2 lost, the tail, and -l sin(r) of the low part.
    lost = (1.0 - near_one) - half
    rest = (z * z).fma(tail, lost)
    if reduced.low is not None:
        rest = rest - r * reduced.low
    return near_one + rest
