"""Fits the polynomials of ``passes/expand_math`` and writes their coefficients.

Each row is a minimax polynomial by Remez' exchange algorithm in 120-bit arithmetic (mpmath, a
development tool only): it minimises the largest weighted error over an interval. Coefficients are
then rounded to the format.

    python tools/fit_polynomials.py > compiler/wia_compiler/passes/expand_math/coefficients.py
"""

from __future__ import annotations

import contextlib
import struct
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import mpmath as mp

mp.mp.prec = 240
Function = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True)
class Fit:
    """``function(x)`` is fitted on [low, high]; the error counts ``weight(x)`` times."""

    name: str
    comment: str
    function: Function
    weight: Function
    low: mp.mpf
    high: mp.mpf
    degree: int
    bits: int


def series(function: Function, taylor: list[mp.mpf], radius: float) -> Function:
    """``function``, and near 0, where it would cancel, its Taylor series."""

    def value(x: mp.mpf) -> mp.mpf:
        if abs(x) < radius:
            return mp.polyval(list(reversed(taylor)), x)
        return function(x)

    return value


def rounded(value: mp.mpf, bits: int) -> mp.mpf:
    """The nearest f32 or f64."""
    if bits == 64:
        return mp.mpf(float(value))
    return mp.mpf(struct.unpack("f", struct.pack("f", float(value)))[0])


def remez(fit: Fit, fixed: dict[int, mp.mpf]) -> tuple[dict[int, mp.mpf], mp.mpf]:
    """Coefficients by power (those in ``fixed`` stay) and the largest weighted error."""
    free = [k for k in range(fit.degree + 1) if k not in fixed]
    count = len(free) + 1

    def target(x: mp.mpf) -> mp.mpf:
        return fit.function(x) - sum(c * x**k for k, c in fixed.items())

    middle, half = (fit.high + fit.low) / 2, (fit.high - fit.low) / 2
    points = [middle - half * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    grid = [middle - half * mp.cos(mp.pi * k / (60 * count)) for k in range(60 * count + 1)]
    values = [(x, target(x), fit.weight(x)) for x in grid]
    coefficients: dict[int, mp.mpf] = {}
    worst = mp.mpf(0)
    for _ in range(12):
        if not free:
            return dict(fixed), max(abs(w * t) for _, t, w in values)
        rows = mp.matrix(count, count)
        right = mp.matrix(count, 1)
        for r, x in enumerate(points):
            for c, k in enumerate(free):
                rows[r, c] = x**k
            rows[r, count - 1] = (-1) ** r / fit.weight(x)
            right[r] = target(x)
        solved = mp.lu_solve(rows, right)
        coefficients = {k: solved[c] for c, k in enumerate(free)}
        errors = [
            (x, w * (t - sum(c * x**k for k, c in coefficients.items()))) for x, t, w in values
        ]
        points, worst = exchange(errors, count)
        if worst < abs(solved[count - 1]) * mp.mpf("1.01"):
            break
    return {**coefficients, **fixed}, worst


def exchange(errors: list[tuple[mp.mpf, mp.mpf]], count: int) -> tuple[list[mp.mpf], mp.mpf]:
    """The next points: extremes of the error, alternating in sign."""
    extremes: list[tuple[mp.mpf, mp.mpf]] = []
    for x, error in errors:
        if extremes and (error > 0) == (extremes[-1][1] > 0):
            if abs(error) > abs(extremes[-1][1]):
                extremes[-1] = (x, error)
        else:
            extremes.append((x, error))
    worst = max(abs(error) for _, error in errors)
    while len(extremes) > count:
        drop = 0 if abs(extremes[0][1]) < abs(extremes[-1][1]) else -1
        extremes.pop(drop)
    if len(extremes) < count:
        low, high = errors[0][0], errors[-1][0]
        middle, half = (low + high) / 2, (high - low) / 2
        return [middle - half * mp.cos(mp.pi * k / (count - 1)) for k in range(count)], worst
    return [x for x, _ in extremes], worst


def fitted(fit: Fit) -> tuple[list[mp.mpf], mp.mpf]:
    """Coefficients in the format, lowest power first, and the largest weighted error.

    The best of three ways to round: all at once, or one by one from either end with the others
    fitted anew each time.
    """
    powers = range(fit.degree + 1)
    plain, _ = remez(fit, {})
    candidates = [{power: rounded(plain[power], fit.bits) for power in powers}]
    for order in (powers, reversed(powers)):
        # Odd powers alone are no Haar space: then this way has no answer.
        with contextlib.suppress(ZeroDivisionError):
            candidates.append(rounded_in_turn(fit, order))
    worst, best = min(
        ((largest_error(fit, each), each) for each in candidates), key=lambda pair: pair[0]
    )
    return [best[power] for power in powers], worst


def rounded_in_turn(fit: Fit, order: Iterable[int]) -> dict[int, mp.mpf]:
    """Coefficients rounded one by one, the rest fitted anew each time."""
    fixed: dict[int, mp.mpf] = {}
    for power in order:
        coefficients, _ = remez(fit, fixed)
        fixed[power] = rounded(coefficients[power], fit.bits)
    return fixed


def largest_error(fit: Fit, coefficients: dict[int, mp.mpf]) -> mp.mpf:
    """The largest weighted error of a polynomial."""
    return max(
        abs(fit.weight(x) * (fit.function(x) - sum(c * x**k for k, c in coefficients.items())))
        for x in mp.linspace(fit.low, fit.high, 1001)
    )


LN2 = mp.log(2)
HALF_LN2 = LN2 / 2 * mp.mpf("1.0001")
FACTORIALS = [1 / mp.factorial(k) for k in range(40)]


def exp_tail(x: mp.mpf) -> mp.mpf:
    """(exp(x) - 1 - x) / x^2."""
    return series(lambda v: (mp.expm1(v) - v) / v**2, FACTORIALS[2:], 0.01)(x)


def exp2_tail(x: mp.mpf) -> mp.mpf:
    """(2^x - 1) / x."""
    terms = [LN2 ** (k + 1) / mp.factorial(k + 1) for k in range(40)]
    return series(lambda v: mp.expm1(v * LN2) / v, terms, 0.01)(x)


def log_tail(x: mp.mpf) -> mp.mpf:
    """(log(1 + x) - x) / x^2."""
    terms = [mp.mpf((-1) ** (k + 1)) / (k + 2) for k in range(40)]
    return series(lambda v: (mp.log1p(v) - v) / v**2, terms, 0.001)(x)


def atanh_tail(z: mp.mpf) -> mp.mpf:
    """With z = s^2: (log((1 + s) / (1 - s)) - 2 s) / s^3."""
    terms = [mp.mpf(2) / (2 * k + 3) for k in range(60)]
    s = mp.sqrt(z) if z > 0 else mp.mpf(0)
    return series(lambda v: (2 * mp.atanh(s) - 2 * s) / s**3, terms, 0.001)(z)


def atanh_tail_after(z: mp.mpf) -> mp.mpf:
    """With z = s^2: (atanh(s) / s - 1 - z / 3) / z^2."""
    terms = [mp.mpf(1) / (2 * k + 5) for k in range(60)]
    s = mp.sqrt(z) if z > 0 else mp.mpf(0)
    return series(lambda v: (mp.atanh(s) / s - 1 - v / 3) / v**2, terms, 0.001)(z)


def sin_tail(z: mp.mpf) -> mp.mpf:
    """With z = x^2: (sin(x) - x) / x^3."""
    return sum((-1) ** (k + 1) * z**k / mp.factorial(2 * k + 3) for k in range(30))


def cos_tail(z: mp.mpf) -> mp.mpf:
    """With z = x^2: (cos(x) - 1 + z / 2) / z^2."""
    return sum((-1) ** k * z**k / mp.factorial(2 * k + 4) for k in range(30))


def tanh_tail(z: mp.mpf) -> mp.mpf:
    """With z = x^2: (tanh(x) - x) / x^3."""
    terms = [
        4 ** (k + 2) * (4 ** (k + 2) - 1) * mp.bernoulli(2 * k + 4) / mp.factorial(2 * k + 4)
        for k in range(20)
    ]
    x = mp.sqrt(z) if z > 0 else mp.mpf(0)
    return series(lambda v: (mp.tanh(x) - x) / x**3, terms, 0.01)(z)


def atan_tail(z: mp.mpf) -> mp.mpf:
    """With z = x^2: (atan(x) - x) / x^3."""
    return sum((-1) ** (k + 1) * z**k / mp.mpf(2 * k + 3) for k in range(110))


def erf_tail(z: mp.mpf) -> mp.mpf:
    """With z = x^2: erf(x) / x - 1."""
    scale = 2 / mp.sqrt(mp.pi)
    total = sum((-1) ** k * z**k / (mp.factorial(k) * (2 * k + 1)) for k in range(60))
    return scale * total - 1


def log_erfc(x: mp.mpf) -> mp.mpf:
    """log(erfc(x)) + x."""
    return mp.log(mp.erfc(x)) + x


def one(x: mp.mpf) -> mp.mpf:
    """An absolute error."""
    return mp.mpf(1)


def square(x: mp.mpf) -> mp.mpf:
    """The error of a term that is multiplied by x^2."""
    return x**2 + mp.mpf("1e-6")


QUARTER_PI2 = (mp.pi / 4) ** 2 * mp.mpf("1.001")
ROOT = mp.sqrt(2)
S_MAX = ((ROOT - 1) / (ROOT + 1)) ** 2 * mp.mpf("1.001")

FITS = (
    Fit(
        "EXP_F32",
        "exp(r) = 1 + r + r^2 p(r), |r| <= ln(2)/2",
        exp_tail,
        square,
        -HALF_LN2,
        HALF_LN2,
        4,
        32,
    ),
    Fit(
        "EXP_F64",
        "exp(r) = 1 + r + r^2 p(r), |r| <= ln(2)/2",
        exp_tail,
        square,
        -HALF_LN2,
        HALF_LN2,
        10,
        64,
    ),
    Fit(
        "EXP2_F32",
        "2^r = 1 + r p(r), |r| <= 1/2",
        exp2_tail,
        lambda x: abs(x) + mp.mpf("1e-4"),
        mp.mpf("-0.5001"),
        mp.mpf("0.5001"),
        6,
        32,
    ),
    Fit(
        "EXP2_F64",
        "2^r = 1 + r p(r), |r| <= 1/2",
        exp2_tail,
        lambda x: abs(x) + mp.mpf("1e-4"),
        mp.mpf("-0.5001"),
        mp.mpf("0.5001"),
        12,
        64,
    ),
    Fit(
        "EXP2_POW_F32",
        "2^r = 1 + r p(r), |r| <= 1/2, in f64 to 35 bits",
        exp2_tail,
        lambda x: abs(x) + mp.mpf("1e-4"),
        mp.mpf("-0.5001"),
        mp.mpf("0.5001"),
        7,
        64,
    ),
    Fit(
        "LOG_F32",
        "log(1 + f) = f + f^2 p(f), sqrt(1/2) <= 1 + f <= sqrt(2)",
        log_tail,
        lambda x: abs(x) + mp.mpf("1e-4"),
        1 / ROOT - 1,
        ROOT - 1,
        9,
        32,
    ),
    Fit(
        "LOG_F64",
        "log((1 + s)/(1 - s)) = 2 s + s^3 p(s^2)",
        atanh_tail,
        lambda z: z + mp.mpf("1e-4"),
        mp.mpf(0),
        S_MAX,
        7,
        64,
    ),
    Fit(
        "LOG_POW_F32",
        "log((1 + s)/(1 - s)) = 2 s + s^3 p(s^2), in f64 to 42 bits",
        atanh_tail,
        lambda z: z + mp.mpf("1e-4"),
        mp.mpf(0),
        S_MAX,
        5,
        64,
    ),
    Fit(
        "LOG_POW_F64",
        "atanh(s)/s = 1 + z/3 + z^2 p(z), z = s^2",
        atanh_tail_after,
        lambda z: z**2 + mp.mpf("1e-5"),
        mp.mpf(0),
        S_MAX,
        9,
        64,
    ),
    Fit(
        "SIN_F32",
        "sin(x) = x + x^3 p(x^2), |x| <= pi/4",
        sin_tail,
        lambda z: z + mp.mpf("1e-3"),
        mp.mpf(0),
        QUARTER_PI2,
        2,
        32,
    ),
    Fit(
        "COS_F32",
        "cos(x) = 1 - x^2/2 + x^4 p(x^2), |x| <= pi/4",
        cos_tail,
        lambda z: z**2 + mp.mpf("1e-3"),
        mp.mpf(0),
        QUARTER_PI2,
        2,
        32,
    ),
    Fit(
        "SIN_F64",
        "sin(x) = x + x^3 p(x^2), |x| <= pi/4",
        sin_tail,
        lambda z: z + mp.mpf("1e-3"),
        mp.mpf(0),
        QUARTER_PI2,
        6,
        64,
    ),
    Fit(
        "COS_F64",
        "cos(x) = 1 - x^2/2 + x^4 p(x^2), |x| <= pi/4",
        cos_tail,
        lambda z: z**2 + mp.mpf("1e-3"),
        mp.mpf(0),
        QUARTER_PI2,
        6,
        64,
    ),
    Fit(
        "TANH_F32",
        "tanh(x) = x + x^3 p(x^2), |x| <= 0.56",
        tanh_tail,
        lambda z: z + mp.mpf("1e-3"),
        mp.mpf(0),
        mp.mpf("0.3136"),
        4,
        32,
    ),
    Fit(
        "TANH_F64",
        "tanh(x) = x + x^3 p(x^2), |x| <= 0.56",
        tanh_tail,
        lambda z: z + mp.mpf("1e-3"),
        mp.mpf(0),
        mp.mpf("0.3136"),
        10,
        64,
    ),
    Fit("ERF_F32", "erf(x) = x + x p(x^2), |x| <= 1", erf_tail, one, mp.mpf(0), mp.mpf(1), 6, 32),
    Fit("ERF_F64", "erf(x) = x + x p(x^2), |x| <= 1", erf_tail, one, mp.mpf(0), mp.mpf(1), 13, 64),
    Fit(
        "ERFC_F32",
        "erfc(x) = exp(p(x) - x), 0.9 <= x <= 4",
        log_erfc,
        mp.erfc,
        mp.mpf("0.9"),
        mp.mpf(4),
        8,
        32,
    ),
    Fit(
        "ERFC_F64",
        "erfc(x) = exp(p(x) - x), 0.9 <= x <= 6",
        log_erfc,
        mp.erfc,
        mp.mpf("0.9"),
        mp.mpf(6),
        22,
        64,
    ),
    Fit(
        "ATAN_F32",
        "with z = r^2: atan(r) = r + r z p(z), |r| <= 7/16",
        atan_tail,
        lambda z: z + mp.mpf("1e-6"),
        mp.mpf(0),
        mp.mpf("0.1915"),
        5,
        32,
    ),
    Fit(
        "ATAN_F64",
        "with z = r^2: atan(r) = r + r z p(z), |r| <= 7/16",
        atan_tail,
        lambda z: z + mp.mpf("1e-6"),
        mp.mpf(0),
        mp.mpf("0.1915"),
        11,
        64,
    ),
)


def literal(value: mp.mpf) -> str:
    """A Python float literal of an f32 or f64."""
    return repr(float(value))


def main() -> None:
    """Print the module."""
    wanted = set(sys.argv[1:])
    print('"""Minimax polynomials, lowest power first. Written by tools/fit_polynomials.py."""\n')
    for fit in FITS:
        if wanted and fit.name not in wanted:
            continue
        coefficients, worst = fitted(fit)
        print(f"# {fit.comment}; largest error 2^{float(mp.log(worst, 2)):.1f}")
        print(f"{fit.name} = (")
        for coefficient in coefficients:
            print(f"    {literal(coefficient)},")
        print(")")


if __name__ == "__main__":
    main()
