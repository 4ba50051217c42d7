"""Transcendentals against mpmath-grade references: the largest error in units in the last place."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from llvm_running import elementwise
from numpy.typing import NDArray
from wia_compiler.dialects.text import parse_ir
from wia_compiler.passes.expand_math import ExpandOptions, expand_math

Array = NDArray[Any]
COUNT = 1 << 16
DTYPES = {"f32": np.float32, "f64": np.float64}
_ERF = np.vectorize(math.erf, otypes=[float])

# op: exact function, and the largest error in ulp that its documentation states (f32, f64)
OPS: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "exp": (np.exp, 1.02, 1.02),
    "exp2": (np.exp2, 1.02, 1.02),
    "log": (np.log, 1.0, 1.0),
    "log2": (np.log2, 1.5, 1.6),
    "tanh": (np.tanh, 1.6, 1.6),
    "atan": (np.arctan, 1.0, 1.0),
    "sin": (np.sin, 1.6, 1.0),
    "cos": (np.cos, 1.6, 1.0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5, 1.5),
}


def arguments(dtype: str) -> Array:
    """Special values, every magnitude, and dense intervals where functions change their ways."""
    kind = DTYPES[dtype]
    info = np.finfo(kind)
    ends = [0.0, 1.0, 0.5, 2.0, info.max, info.tiny, info.smallest_subnormal, math.inf, math.nan]
    ends += [math.pi / 4, math.pi / 2, math.pi, 88.722_84, 87.336_55, 103.98, 709.79, 745.14, 1e22]
    ends += [0.55, 0.9375, 32768.0, float(1 << 20), 6381956970095103 * 2.0**797]
    with np.errstate(over="ignore"):
        special = np.array(ends, np.float64).astype(kind)
    width = 32 if dtype == "f32" else 64
    unsigned = np.uint32 if dtype == "f32" else np.uint64
    bits = np.linspace(0, 2**width - 1, 20_000, dtype=np.float64)
    magnitudes = np.minimum(bits, 2.0**width - 2.0 ** (width - 20)).astype(unsigned).view(kind)
    magnitudes = magnitudes[np.isfinite(magnitudes)]
    random = np.random.default_rng(3)
    dense = [random.uniform(-limit, limit, 8_000) for limit in (0.6, 2.0, 12.0, 110.0, 750.0)]
    multiples = np.arange(1, 2000) * (math.pi / 2)
    every = np.concatenate([special, -special, magnitudes, *dense, multiples]).astype(kind)
    return np.resize(every, COUNT)


def largest_error(found: Array, exact: Array) -> float:
    """In ulp of ``found``'s type; infinities and NaN have to be where rounding puts them."""
    kind = found.dtype.type
    info = np.finfo(kind)
    with np.errstate(over="ignore"):
        rounded = exact.astype(kind)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(found[~finite], rounded[~finite])
    magnitude = np.maximum(np.abs(exact[finite]), exact.dtype.type(info.tiny))
    unit = np.exp2(np.floor(np.log2(magnitude))) * exact.dtype.type(info.eps)
    return float(np.max(np.abs(found[finite].astype(exact.dtype) - exact[finite]) / unit))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", OPS)
def test_largest_error(op: str, dtype: str) -> None:
    exact, bound32, bound64 = OPS[op]
    x = arguments(dtype)
    if dtype == "f64" and op in ("sin", "cos"):
        # numpy's long double reduces by a long double pi: no reference near multiples of pi/2.
        x = np.where(np.abs(x) < 1e3, x, 1.0)
        x = np.where(np.abs(np.sin(2 * x)) > 1e-3, x, 1.0)
    run = elementwise(f"%y = math.{op} %x0 : {dtype}", [dtype], dtype, count=COUNT)
    found = run(x, dtype=DTYPES[dtype])
    wide = np.float64 if dtype == "f32" else np.longdouble
    with np.errstate(all="ignore"):
        assert largest_error(found, exact(x.astype(wide))) <= (
            bound32 if dtype == "f32" else bound64
        )


def test_largest_error_of_exp_with_a_table() -> None:
    x = arguments("f32")
    options = ExpandOptions(scales_vectors=True)
    run = elementwise("%y = math.exp %x0 : f32", ["f32"], "f32", count=COUNT, options=options)
    with np.errstate(all="ignore"):
        assert largest_error(run(x, dtype=np.float32), np.exp(x.astype(np.float64))) <= 1.08


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_largest_error_of_erf(dtype: str) -> None:
    x = arguments(dtype)
    run = elementwise(f"%y = math.erf %x0 : {dtype}", [dtype], dtype, count=COUNT)
    found = run(x, dtype=DTYPES[dtype])
    # The C library's erf, itself within 1 ulp for f64: it bounds ours to 2 from both sides.
    assert largest_error(found, _ERF(x.astype(np.float64))) <= (1.1 if dtype == "f32" else 2.0)


# sin and cos of arguments near multiples of pi/2, to 40 digits (mpmath).
HARD = (
    (6381956970095103 * 2.0**797, "1.0", "-4.68716592425462761112258280196e-19"),
    (1e22, "-0.852200849767188801772705893753", "0.523214785395138945497594473385"),
    (2.0**1000, "-0.159201703086242438240048630821", "0.987246077598913484239901796329"),
    (
        1.7976931348623157e308,
        "0.00496195478918406179050267119707",
        "-0.999987689426559937464870066307",
    ),
    (355.0, "-0.0000301443533594884492143302800087", "-0.999999999545658980165935841693"),
    (91.106186954104, "-1.23796127317671540003013429312e-18", "-1.0"),
    (22743.560015663308, "-1.0", "-1.80987382001350778582907866776e-16"),
)


def test_sine_and_cosine_of_hard_arguments() -> None:
    x = np.resize(np.array([argument for argument, _, _ in HARD]), 16)
    for op, column in (("sin", 1), ("cos", 2)):
        run = elementwise(f"%y = math.{op} %x0 : f64", ["f64"], "f64", count=16)
        found = run(x, dtype=np.float64)
        for row, value in zip(HARD, found, strict=False):
            exact = Fraction(str(row[column]))
            assert abs(Fraction(float(value)) - exact) <= 2 * abs(exact) * Fraction(1, 2**52)


def test_both_ways_of_reducing_f32_agree() -> None:
    x = arguments("f32")
    for op in ("sin", "cos"):
        found = [
            elementwise(
                f"%y = math.{op} %x0 : f32",
                ["f32"],
                "f32",
                count=COUNT,
                options=ExpandOptions(branches=branches),
            )(x, dtype=np.float32)
            for branches in (False, True)
        ]
        np.testing.assert_allclose(*found, rtol=3e-7, atol=1e-45)


@pytest.mark.parametrize(("dtype", "bound"), [("f32", 0.51), ("f64", 1.3)])
def test_largest_error_of_pow(dtype: str, bound: float) -> None:
    random = np.random.default_rng(5)
    kind = DTYPES[dtype]
    x = np.exp2(random.uniform(-20, 20, COUNT)).astype(kind)
    x[: COUNT // 2] = random.uniform(0.5, 2.0, COUNT // 2).astype(kind)
    reach = 140 if dtype == "f32" else 1000
    with np.errstate(divide="ignore"):
        y = (random.uniform(-reach, reach, COUNT) / np.log2(x.astype(np.float64))).astype(kind)
    y = np.clip(np.where(np.isfinite(y), y, 1), -1e6, 1e6).astype(kind)
    run = elementwise(f"%y = math.powf %x0, %x1 : {dtype}", [dtype] * 2, dtype, count=COUNT)
    found = run(x, y, dtype=kind)
    if dtype == "f32":
        with np.errstate(all="ignore"):
            exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
        assert largest_error(found, exact) <= bound
        return
    # numpy's long double pow is not exact enough here: whole powers are, as fractions.
    whole = random.integers(1, 40, COUNT).astype(np.float64)
    found = run(x, whole, dtype=kind)
    for base, exponent, value in list(zip(x, whole, found, strict=True))[:: COUNT // 500]:
        exact = Fraction(float(base)) ** int(exponent)
        unit = Fraction(float(np.spacing(np.abs(value))))
        assert abs(Fraction(float(value)) - exact) <= Fraction(bound) * unit


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_limits_of_pow_are_those_of_c(dtype: str) -> None:
    some = [
        0.0,
        -0.0,
        1,
        -1,
        2,
        -2,
        0.5,
        -0.5,
        3,
        -3,
        math.inf,
        -math.inf,
        math.nan,
        1e-45,
        1e30,
        2.5,
    ]
    x, y = (each.ravel().astype(DTYPES[dtype]) for each in np.meshgrid(some, some))
    run = elementwise(f"%y = math.powf %x0, %x1 : {dtype}", [dtype] * 2, dtype, count=x.size)
    found = run(x, y, dtype=DTYPES[dtype])
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64)).astype(DTYPES[dtype])
    np.testing.assert_allclose(found, expected, rtol=4e-7 if dtype == "f32" else 4e-16)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_remainders_without_a_library_are_exact(dtype: str) -> None:
    kind = DTYPES[dtype]
    info = np.finfo(kind)
    some = [0.0, -0.0, 1.0, 5.5, -7.25, 0.1, 1e30, -1e-30, info.max, info.tiny, math.inf, math.nan]
    some += [float(info.smallest_subnormal), 3 * float(info.smallest_subnormal), -math.inf, 3.0]
    x, y = (each.ravel().astype(kind) for each in np.meshgrid(some, some))
    options = ExpandOptions(remainders=True)
    body = f"%y = arith.remf %x0, %x1 : {dtype}"
    run = elementwise(body, [dtype] * 2, dtype, count=x.size, options=options)
    found = run(x, y, dtype=kind)
    with np.errstate(invalid="ignore"):
        expected = np.fmod(x, y)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


def test_nothing_but_arithmetic_is_left() -> None:
    ops = ("exp", "exp2", "log", "log2", "atan", "tanh", "erf", "sin", "cos", "rsqrt")
    lines = [f"%{op} = math.{op} %x : f32" for op in ops]
    module = parse_ir(
        "func.func @f(%x: f32) -> f32 {\n" + "\n".join(lines) + "\nfunc.return %cos : f32\n}"
    )
    expand_math(module)
    module.verify()
    left = {op.name for op in module.walk() if op.name.startswith("math.")}
    assert left <= {"math.fma", "math.absf", "math.copysign", "math.sqrt", "math.roundeven"}


def test_half_precision_is_refused() -> None:
    module = parse_ir("func.func @f(%x: f16) { %y = math.exp %x : f16\n func.return }")
    with pytest.raises(TypeError, match="expected f32 or f64"):
        expand_math(module)
