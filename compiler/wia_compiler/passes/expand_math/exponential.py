"""exp, exp2, expm1 and tanh as branch-free arithmetic."""

from __future__ import annotations

from wia_compiler.passes.expand_math import coefficients
from wia_compiler.passes.expand_math.builder import Number
from wia_compiler.passes.expand_math.instructions import chosen_from, scaled_at_once
from wia_compiler.passes.expand_math.ranges import is_never_positive

LOG2_E = 1.4426950408889634
# ln 2 in two parts of each format; a fused multiply-add takes the first one's product exactly.
_LN2_F32 = (0.6931471824645996, -1.9046542121259336e-09)
_LN2_F64 = (0.6931471805599453, 2.3190468138462996e-17)
# Adding 1.5 * 2^23 (2^52) to a number rounds it to a whole one, which stands in the low bits.
_SHIFT_F32 = (12582912.0, 0x4B400000)
_SHIFT_SIXTEENTHS = (786432.0, 0x49400000)
_SIXTEENTHS = tuple(2.0 ** (k / 16) for k in range(16))
_SHIFT_F64 = (6755399441055744.0, 0x4338000000000000)


def exp(x: Number) -> Number:
    """e^x: reduced by multiples of ln 2, polynomial, scaled in two steps to subnormals and inf.

    Beyond the range it is inf or 0; NaN stays NaN.
    """
    lowest, highest = (-104.0, 89.0) if x.is_f32 else (-746.0, 710.0)
    x = (x if is_never_positive(x.value) else x.at_most(highest)).at_least(lowest)
    at_once = _exp_by_table(x) if x.is_f32 else None
    if at_once is not None:
        return at_once
    shifted, whole, r = _reduced(x)
    tail = r.polynomial(coefficients.EXP_F32 if x.is_f32 else coefficients.EXP_F64)
    mantissa = (r * r).fma(tail, r) + 1.0
    return scaled(mantissa, shifted, whole)


def _exp_by_table(x: Number) -> Number | None:
    """e^x = 2^n 2^(k/16) e^r, on CPUs that look 2^(k/16) up at once; ``None`` on others.

    Adding 1.5 * 2^19 leaves n + k/16 in the low bits. |r| <= ln(2)/32, so that a cubic is enough.
    """
    shift, shift_bits = _SHIFT_SIXTEENTHS
    shifted = x.fma(LOG2_E, shift)
    power = chosen_from(shifted.bits(), _SIXTEENTHS)
    if power is None:
        return None
    whole = shifted - shift
    high, low = _LN2_F32
    r = whole.fma(-low, whole.fma(-high, x))
    tail = r.polynomial((1.0, 0.5, 1 / 6))
    mantissa = (power * r).fma(tail, power)
    at_once = scaled_at_once(mantissa, whole)
    if at_once is not None:
        return at_once
    return _scaled_twice(mantissa, (shifted.bits() - shift_bits) >> 4)


def exp2(x: Number) -> Number:
    """2^x, in the manner of ``exp``."""
    x = x.at_most(129.0).at_least(-151.0) if x.is_f32 else x.at_most(1025.0).at_least(-1076.0)
    shifted, whole = whole_part(x)
    r = x - whole
    tail = r.polynomial(coefficients.EXP2_F32 if x.is_f32 else coefficients.EXP2_F64)
    return scaled(tail.fma(r, 1.0), shifted, whole)


def expm1(x: Number) -> Number:
    """e^x - 1 without cancellation, for x up to 2^7 (f32) or 2^10 (f64) and not below 0."""
    shifted, _, r = _reduced(x)
    tail = r.polynomial(coefficients.EXP_F32 if x.is_f32 else coefficients.EXP_F64)
    fraction = (r * r).fma(tail, r)
    scale = power_of_two(shifted.bits(), x.is_f32)
    return fraction.fma(scale, scale - 1.0)


def tanh(x: Number) -> Number:
    """x times a polynomial near 0; else t / (t + 2) with t = e^(2|x|) - 1; the sign of x.

    The polynomial is negative, so that its product with -0, added to -0, would be +0.
    """
    z = x * x
    tail = z.polynomial(coefficients.TANH_F32 if x.is_f32 else coefficients.TANH_F64)
    near = (x * z).fma(tail, x)
    t = expm1(x.abs().at_most(9.1 if x.is_f32 else 19.1) * 2.0)
    return x.abs().compare("olt", 0.55).select(near, t / (t + 2.0)).copysign(x)


def whole_part(x: Number) -> tuple[Number, Number]:
    """The nearest whole number: in the low bits of a float, and as a float."""
    shift, _ = _SHIFT_F32 if x.is_f32 else _SHIFT_F64
    shifted = x + shift
    return shifted, shifted - shift


def whole_number(shifted: Number) -> Number:
    """The integer (of the float's width) in the low bits of what ``whole_part`` shifted."""
    return shifted.bits() - (_SHIFT_F32 if shifted.is_f32 else _SHIFT_F64)[1]


def power_of_two(n: Number, is_f32: bool) -> Number:
    """2^n for the integer in the low bits of ``n``, whose power is a normal number."""
    bias, mantissa = (127, 23) if is_f32 else (1023, 52)
    return ((n + bias) << mantissa).float_of_bits()


def scaled(mantissa: Number, shifted: Number, whole: Number) -> Number:
    """``mantissa * 2^n`` where 2^n alone may be out of range; n is what ``whole_part`` gave."""
    at_once = scaled_at_once(mantissa, whole)
    return _scaled_twice(mantissa, whole_number(shifted)) if at_once is None else at_once


def _scaled_twice(mantissa: Number, n: Number) -> Number:
    """``mantissa * 2^n`` by halves of n: the first product is exact, so both round once."""
    half = n >> 1
    first, second = (power_of_two(each, mantissa.is_f32) for each in (half, n - half))
    return mantissa * first * second


def _reduced(x: Number) -> tuple[Number, Number, Number]:
    """(n in the low bits of a float, n, r) with x = n ln 2 + r and |r| <= ln(2) / 2."""
    shift, _ = _SHIFT_F32 if x.is_f32 else _SHIFT_F64
    high, low = _LN2_F32 if x.is_f32 else _LN2_F64
    shifted = x.fma(LOG2_E, shift)
    whole = shifted - shift
    r = whole.fma(-high, x)
    r = whole.fma(-low, r)
    return shifted, whole, r
