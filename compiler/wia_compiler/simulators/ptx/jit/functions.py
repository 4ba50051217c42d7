"""Functions that the hardware approximates, in f64 for f32 results.

Their results, rounded to f32, are within 0.51 units in the last place: inside of the bounds of the
PTX ISA, and as a rule equal to what the other engine computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

F64 = np.dtype(np.float64)
Array = Any
"""An array, or a traced value in its place."""
_where: Callable[..., Array] = np.where
_clip: Callable[..., Array] = np.clip


def _polynomial(x: Array, coefficients: list[float]) -> Array:
    """Horner's rule, the highest power first."""
    total: Array = np.float64(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + np.float64(coefficient)
    return total


def exp2(x: Array) -> Array:
    """2ˣ: the whole part goes into the exponent, the rest through a Taylor series of 2ʳ."""
    limited = _where(np.isnan(x), np.float64(0), _clip(x, np.float64(-1000), np.float64(1000)))
    whole = np.rint(limited)
    rest = limited - whole
    terms = [math.log(2) ** power / math.factorial(power) for power in range(11, -1, -1)]
    scale = ((whole.astype(np.int64) + np.int64(1023)) << np.int64(52)).view(np.float64)
    return _where(np.isnan(x), x, _polynomial(rest, terms) * scale)


def log2(x: Array) -> Array:
    """log₂: the exponent, and the series of the area tangent of (m - 1) / (m + 1)."""
    bits = x.view(np.int64)
    # So that the mantissa lies between √½ and √2.
    shifted = bits - np.int64(0x3FE6A09E667F3BCD)
    exponent = shifted >> np.int64(52)
    mantissa = (bits - (exponent << np.int64(52))).view(np.float64)
    s = (mantissa - np.float64(1)) / (mantissa + np.float64(1))
    series = _polynomial(s * s, [2 / math.log(2) / power for power in range(17, 0, -2)])
    found = exponent.astype(np.float64) + s * series
    found = _where(x == 0, np.float64(-np.inf), found)
    found = _where(x < 0, np.float64(np.nan), found)
    return _where(np.isfinite(x), found, _where(x > 0, x, np.float64(np.nan)))


_QUARTER = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
"""π/2 in three parts, the first two with 33 bits (Cody and Waite; as in FreeBSD's msun)."""


def _turned(x: Array, quarters: int) -> Array:
    """sin(x + quarters · π/2)."""
    turns = np.rint(x * np.float64(2 / math.pi))
    rest = x
    for part in _QUARTER:
        rest = rest - turns * np.float64(part)
    square = rest * rest
    sines = [(-1) ** n / math.factorial(2 * n + 1) for n in range(8, -1, -1)]
    cosines = [(-1) ** n / math.factorial(2 * n) for n in range(8, -1, -1)]
    sine, cosine = rest * _polynomial(square, sines), _polynomial(square, cosines)
    inside = np.abs(turns) < np.float64(2**52)
    quadrant = _where(inside, turns, np.float64(0)).astype(np.int64) + np.int64(quarters)
    found = _where((quadrant & np.int64(1)) != 0, cosine, sine)
    found = _where((quadrant & np.int64(2)) != 0, -found, found)
    # Beyond what three parts of π reduce, the ISA promises nothing but a sine.
    found = _clip(found, np.float64(-1), np.float64(1))
    return _where(np.isfinite(x), found, np.float64(np.nan))


def sin(x: Array) -> Array:
    """The sine, for arguments up to some 10⁹."""
    return _where(x == 0, x, _turned(x, 0))


def cos(x: Array) -> Array:
    """The cosine, for arguments up to some 10⁹."""
    return _turned(x, 1)


def tanh(x: Array) -> Array:
    """(1 - e) / (1 + e) with e = exp(-2|x|); near 0 its series."""
    size = np.abs(x)
    e = exp2(size * np.float64(-2 / math.log(2)))
    far = np.copysign((np.float64(1) - e) / (np.float64(1) + e), x)
    square = x * x
    near = x + x * square * (np.float64(-1 / 3) + square * np.float64(2 / 15))
    found = _where(size < np.float64(1e-2), near, far)
    return _where(x == 0, x, found)


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "exp2": exp2,
    "log2": log2,
    "sin": sin,
    "cos": cos,
    "tanh": tanh,
}
"""By the name of the ufunc that the tables call."""
