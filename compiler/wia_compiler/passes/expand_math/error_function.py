"""erf as branch-free arithmetic."""

from __future__ import annotations

from wia_compiler.passes.expand_math import coefficients
from wia_compiler.passes.expand_math.builder import Number
from wia_compiler.passes.expand_math.exponential import exp

_SWITCH = 0.9375
# erf rounds to 1 from here on.
_ONE_F32 = 4.0
_ONE_F64 = 6.0


def erf(x: Number) -> Number:
    """A polynomial times x near 0; else 1 - erfc(|x|), erfc as e to a polynomial."""
    inner = coefficients.ERF_F32 if x.is_f32 else coefficients.ERF_F64
    outer = coefficients.ERFC_F32 if x.is_f32 else coefficients.ERFC_F64
    near = (x * x).polynomial(inner).fma(x, x)
    t = x.abs().at_most(_ONE_F32 if x.is_f32 else _ONE_F64)
    far = (1.0 - exp(t.polynomial(outer) - t)).copysign(x)
    return x.abs().compare("olt", _SWITCH).select(near, far)
