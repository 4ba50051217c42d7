"""Functions of one number: exponentials, logarithms, trigonometry, rounding, classification."""

from __future__ import annotations

import math
from typing import Any

from wia_compiler.dialects.wia.declaration import OpDeclaration
from wia_compiler.dialects.wia.formula import Algebra, Call, Formula, in_accumulator
from wia_compiler.dialects.wia.pointwise import Kind, unary

_TWO_ULP = "Within 2 units in the last place of the correctly rounded result."
_FOUR_ULP = "Within 4 units in the last place of the correctly rounded result."


def _expm1(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    """(u - 1) x / log(u) with u = exp(x): the errors of u cancel (Kahan; Higham 2002, 1.14.1)."""
    power = a.op("exp", x)
    less = a.op("sub", power, a.constant(1, x))
    corrected = a.op("mul", less, a.op("div", x, a.op("log", power)))
    small = a.op("where", a.op("eq", less, a.constant(0, x)), x, corrected)
    # From here on exp(x) - 1 needs no correction, and log(inf), log(0) would spoil it.
    large = a.op("gt", a.op("abs", x), a.constant(40, x))
    return a.op("where", large, less, small)


def _log1p(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    """log(u) x / (u - 1) with u = 1 + x: the errors of u cancel (Kahan; Higham 2002, 1.14.1)."""
    one = a.constant(1, x)
    more = a.op("add", x, one)
    logarithm = a.op("log", more)
    corrected = a.op("mul", logarithm, a.op("div", x, a.op("sub", more, one)))
    small = a.op("where", a.op("eq", more, one), x, corrected)
    return a.op("where", a.op("eq", more, a.constant(math.inf, x)), logarithm, small)


def _sinh(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    """(t + t / (t + 1)) / 2 with t = exp(\\|x\\|) - 1, which does not cancel near 0."""
    half, size = a.constant(0.5, x), a.op("abs", x)
    t = a.op("expm1", size)
    usual = a.op("mul", half, a.op("add", t, a.op("div", t, a.op("add", t, a.constant(1, x)))))
    positive = _or_square_of_half(t, size, usual, a)
    signed = a.op("where", a.op("lt", x, a.constant(0, x)), a.op("neg", positive), positive)
    return a.op("where", a.op("eq", x, a.constant(0, x)), x, signed)


def _cosh(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    """(e + 1 / e) / 2 with e = exp(\\|x\\|)."""
    half, size = a.constant(0.5, x), a.op("abs", x)
    power = a.op("exp", size)
    usual = a.op("add", a.op("mul", half, power), a.op("div", half, power))
    return _or_square_of_half(power, size, usual, a)


def _or_square_of_half(power: Any, size: Any, usual: Any, a: Algebra[Any]) -> Any:
    """exp(x / 2)² / 2 where exp(x) has overflowed and half of it need not."""
    half = a.constant(0.5, size)
    root = a.op("exp", a.op("mul", half, size))
    square = a.op("mul", a.op("mul", half, root), root)
    infinite = a.op("eq", power, a.constant(math.inf, size))
    return a.op("where", infinite, square, usual)


def _tan(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    return a.op("div", a.op("sin", x), a.op("cos", x))


def _asin(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    """2 atan(x / (1 + sqrt(1 - x²))), with 1 - x² as (1 - x)(1 + x), which does not cancel."""
    one = a.constant(1, x)
    rest = a.op("sqrt", a.op("mul", a.op("sub", one, x), a.op("add", one, x)))
    angle = a.op("atan", a.op("div", x, a.op("add", one, rest)))
    return a.op("mul", angle, a.constant(2, x))


def _acos(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    """2 atan(sqrt((1 - x) / (1 + x)))."""
    one = a.constant(1, x)
    ratio = a.op("div", a.op("sub", one, x), a.op("add", one, x))
    return a.op("mul", a.op("atan", a.op("sqrt", ratio)), a.constant(2, x))


def _asinh(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    """log(1 + t + t² / (1 + sqrt(t² + 1))) with t = \\|x\\|; log(t) + log(2) where t² overflows."""
    one, t = a.constant(1, x), a.op("abs", x)
    square = a.op("mul", t, t)
    root = a.op("add", one, a.op("sqrt", a.op("add", square, one)))
    usual = a.op("log1p", a.op("add", t, a.op("div", square, root)))
    large = a.op("add", a.op("log", t), a.constant(math.log(2), x))
    size = a.op("where", a.op("gt", t, a.constant(1e9, x)), large, usual)
    signed = a.op("where", a.op("lt", x, a.constant(0, x)), a.op("neg", size), size)
    return a.op("where", a.op("eq", x, a.constant(0, x)), x, signed)


def _acosh(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    """log(1 + t + sqrt(t) sqrt(t + 2)) with t = x - 1; log(x) + log(2) where that overflows."""
    t = a.op("sub", x, a.constant(1, x))
    # Two roots, not that of the product, which is positive again below -1.
    root = a.op("mul", a.op("sqrt", t), a.op("sqrt", a.op("add", t, a.constant(2, x))))
    usual = a.op("log1p", a.op("add", t, root))
    large = a.op("add", a.op("log", x), a.constant(math.log(2), x))
    return a.op("where", a.op("gt", x, a.constant(1e9, x)), large, usual)


def _atanh(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    """log(1 + 2 t / (1 - t)) / 2 with t = \\|x\\|, and the sign of x."""
    t = a.op("abs", x)
    ratio = a.op("div", a.op("mul", t, a.constant(2, x)), a.op("sub", a.constant(1, x), t))
    size = a.op("mul", a.op("log1p", ratio), a.constant(0.5, x))
    signed = a.op("where", a.op("lt", x, a.constant(0, x)), a.op("neg", size), size)
    return a.op("where", a.op("eq", x, a.constant(0, x)), x, signed)


def _log10(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    return a.op("mul", a.op("log", x), a.constant(math.log10(math.e), x))


def _trunc(call: Call[Any], a: Algebra[Any]) -> Any:
    x = call["input"]
    below = a.op("lt", x, a.constant(0, x))
    return a.op("where", below, a.op("ceil", x), a.op("floor", x))


def _sign(call: Call[Any], a: Algebra[Any]) -> Any:
    x = call["input"]
    zero = a.constant(0, x)
    positive = a.op("where", a.op("gt", x, zero), a.constant(1, x), x)
    if call.result.dtype.kind == "uint":
        return positive
    return a.op("where", a.op("lt", x, zero), a.constant(-1, x), positive)


def _square(call: Call[Any], a: Algebra[Any]) -> Any:
    return a.op("mul", call["input"], call["input"])


def _reciprocal(call: Call[Any], a: Algebra[Any]) -> Any:
    return a.op("div", a.constant(1, call["input"]), call["input"])


def _isnan(call: Call[Any], a: Algebra[Any]) -> Any:
    return a.op("ne", call["input"], call["input"])


def _against_infinity(comparison: str) -> Formula:
    def formula(call: Call[Any], a: Algebra[Any]) -> Any:
        x = call["input"]
        return a.op(comparison, a.op("abs", x), a.constant(math.inf, x))

    return formula


def _composite(
    name: str, doc: str, formula: Formula, numerics: str = "", kind: Kind = "floats"
) -> OpDeclaration:
    return unary(name, doc, kind=kind, formula=formula, numerics=numerics)


FUNCTIONS: tuple[OpDeclaration, ...] = (
    unary("exp", "e to the power of x.", numerics=_TWO_ULP).with_example(
        "exp(x)", x=[0.0, 1.0, -1.0]
    ),
    unary("exp2", "2 to the power of x.", numerics=_TWO_ULP).with_example(
        "exp2(x)", x=[0.0, 3.0, -1.0]
    ),
    _composite(
        "expm1",
        "exp(x) - 1, precise near 0.",
        in_accumulator(_expm1),
        _FOUR_ULP,
    ).with_example("expm1(x)", x=[0.0, 1e-5, 1.0]),
    unary("log", "Natural logarithm; NaN below 0, -inf at 0.", numerics=_TWO_ULP).with_example(
        "log(x)", x=[1.0, 2.0, 0.0]
    ),
    unary("log2", "Logarithm to base 2, exact for powers of two.", numerics=_TWO_ULP).with_example(
        "log2(x)", x=[1.0, 8.0, 0.5]
    ),
    _composite("log10", "Logarithm to base 10.", in_accumulator(_log10), _FOUR_ULP).with_example(
        "log10(x)", x=[1.0, 10.0, 0.5]
    ),
    _composite(
        "log1p",
        "log(1 + x), precise near 0.",
        in_accumulator(_log1p),
        _FOUR_ULP,
    ).with_example("log1p(x)", x=[0.0, 1e-5, 1.0]),
    unary("sqrt", "Square root, correctly rounded; NaN below 0.").with_example(
        "sqrt(x)", x=[4.0, 2.0, -1.0]
    ),
    unary("rsqrt", "1 / sqrt(x).", numerics=_TWO_ULP).with_example("rsqrt(x)", x=[4.0, 2.0, 0.0]),
    unary("sin", "Sine of x in radians.", numerics=_TWO_ULP).with_example("sin(x)", x=[0.0, 1.0]),
    unary("cos", "Cosine of x in radians.", numerics=_TWO_ULP).with_example("cos(x)", x=[0.0, 1.0]),
    _composite("tan", "Tangent of x in radians.", in_accumulator(_tan), _FOUR_ULP).with_example(
        "tan(x)", x=[0.0, 1.0]
    ),
    _composite(
        "asin", "Angle of a sine; NaN beyond ±1.", in_accumulator(_asin), _FOUR_ULP
    ).with_example("asin(x)", x=[0.0, 1.0, 2.0]),
    _composite(
        "acos", "Angle of a cosine; NaN beyond ±1.", in_accumulator(_acos), _FOUR_ULP
    ).with_example("acos(x)", x=[1.0, 0.0, -1.0]),
    unary("atan", "Angle of a tangent, between -π/2 and π/2.", numerics=_TWO_ULP).with_example(
        "atan(x)", x=[0.0, 1.0, -1e9]
    ),
    _composite("asinh", "Inverse of sinh.", in_accumulator(_asinh), _FOUR_ULP).with_example(
        "asinh(x)", x=[0.0, 1.0]
    ),
    _composite(
        "acosh", "Inverse of cosh; NaN below 1.", in_accumulator(_acosh), _FOUR_ULP
    ).with_example("acosh(x)", x=[1.0, 2.0, 0.0]),
    _composite(
        "atanh", "Inverse of tanh; NaN beyond ±1.", in_accumulator(_atanh), _FOUR_ULP
    ).with_example("atanh(x)", x=[0.0, 0.5, 1.0]),
    _composite("sinh", "Hyperbolic sine of x.", in_accumulator(_sinh), _FOUR_ULP).with_example(
        "sinh(x)", x=[0.0, 1.0]
    ),
    _composite("cosh", "Hyperbolic cosine of x.", in_accumulator(_cosh), _FOUR_ULP).with_example(
        "cosh(x)", x=[0.0, 1.0]
    ),
    unary("tanh", "Hyperbolic tangent.", numerics=_TWO_ULP).with_example(
        "tanh(x)", x=[0.0, 1.0, -1.0]
    ),
    unary("erf", "Error function.", numerics=_TWO_ULP).with_example("erf(x)", x=[0.0, 1.0]),
    unary("floor", "Largest whole number not above x.").with_example("floor(x)", x=[1.5, -1.5]),
    unary("ceil", "Smallest whole number not below x.").with_example("ceil(x)", x=[1.5, -1.5]),
    unary("round", "Nearest whole number, halves to even.").with_example(
        "round(x)", x=[0.5, 1.5, 2.5]
    ),
    _composite("trunc", "Nearest whole number towards 0.", _trunc).with_example(
        "trunc(x)", x=[1.5, -1.5]
    ),
    _composite(
        "sign",
        "-1, 0 or 1 by the sign of x.",
        _sign,
        "NaN and -0 stay themselves.",
        "numbers",
    ).with_example("sign(x)", x=[-3.0, 0.0, 2.0]),
    _composite("square", "x * x.", _square, kind="numbers").with_example("square(x)", x=[3, -4]),
    _composite("reciprocal", "1 / x.", _reciprocal).with_example("reciprocal(x)", x=[4.0, 0.0]),
    unary("isnan", "Whether x is NaN.", formula=_isnan, gives_bool=True).with_example(
        "isnan(x / y)", x=[0.0, 1.0], y=[0.0, 2.0]
    ),
    unary(
        "isinf",
        "Whether x is an infinity.",
        formula=_against_infinity("eq"),
        gives_bool=True,
    ).with_example("isinf(x / y)", x=[1.0, 1.0], y=[0.0, 2.0]),
    unary(
        "isfinite",
        "Whether x is neither NaN nor an infinity.",
        formula=_against_infinity("lt"),
        gives_bool=True,
    ).with_example("isfinite(x / y)", x=[1.0, 1.0], y=[0.0, 2.0]),
)
