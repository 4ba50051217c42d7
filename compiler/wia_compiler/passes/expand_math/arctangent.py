"""atan as branch-free arithmetic."""

from __future__ import annotations

import math

from wia_compiler.passes.expand_math import coefficients
from wia_compiler.passes.expand_math.builder import Number

# Up to each limit the angle of this tangent is taken away, as in fdlibm's s_atan.c.
_STEPS = ((7 / 16, 0.0), (11 / 16, 0.5), (19 / 16, 1.0), (39 / 16, 1.5), (math.inf, math.inf))
# The angles in two parts, whose sum has twice the digits.
_ANGLES_F32 = {
    0.0: (0.0, 0.0),
    0.5: (0.46364760398864746, 5.01215868808913e-09),
    1.0: (0.7853981852531433, -2.1855694143368964e-08),
    1.5: (0.9827937483787537, -2.5131424052915463e-08),
    math.inf: (1.5707963705062866, -4.371138828673793e-08),
}
_ANGLES_F64 = {
    0.0: (0.0, 0.0),
    0.5: (0.4636476090008061, 2.2698777452961687e-17),
    1.0: (0.7853981633974483, 3.061616997868383e-17),
    1.5: (0.982793723247329, 1.3903311031230998e-17),
    math.inf: (1.5707963267948966, 6.123233995736766e-17),
}


def atan(x: Number) -> Number:
    """atan(c) + atan((t - c) / (1 + c t)) with t = \\|x\\| and the nearest c; ±pi/2 at ±inf."""
    t = x.abs()
    angles = _ANGLES_F32 if x.is_f32 else _ANGLES_F64
    # (t - c) / (1 + c t) with c = inf is -1 / t.
    top, bottom = x.at.constant(-1.0, x.type), t
    high, low = (x.at.constant(part, x.type) for part in angles[math.inf])
    for limit, tangent in reversed(_STEPS[:-1]):
        below = t.compare("olt", limit)
        top = below.select(t - tangent if tangent else t, top)
        bottom = below.select(t.fma(tangent, 1.0) if tangent else 1.0, bottom)
        high = below.select(angles[tangent][0], high)
        low = below.select(angles[tangent][1], low)
    r = top / bottom
    z = r * r
    tail = z.polynomial(coefficients.ATAN_F32 if x.is_f32 else coefficients.ATAN_F64)
    return (high + ((r * z).fma(tail, low) + r)).copysign(x)
