"""The reference of elementwise ops: rounding, special values, integers, casts."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from special_values import assert_same_bits, specials
from wia_compiler.base.dtypes import BF16, BOOL, DTYPES, F32, I8, I32, I64, U8
from wia_compiler.dialects.wia.ops import DECLARATIONS
from wia_compiler.reference.meaning import MEANING, evaluate
from wia_compiler.reference.rounding import cast, round_to


def apply(name: str, *arrays: np.ndarray, **attributes: object) -> np.ndarray:
    parameters = [p.name for p in DECLARATIONS[name].tensor_parameters]
    given = dict(zip(parameters, arrays, strict=False))
    return evaluate(name, given, attributes)  # pyright: ignore[reportArgumentType]


def test_every_op_of_the_language_has_a_meaning() -> None:
    assert set(MEANING) | {row.name for row in DECLARATIONS.values() if row.formula} == set(
        DECLARATIONS
    )


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_half_precision_rounds_the_exact_result_once(dtype: str, name: str) -> None:
    row = DTYPES[dtype]
    random = np.random.default_rng(1)
    a, b = (random.normal(size=500).astype(row.numpy) for _ in range(2))
    symbol = {"add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__"}[name]
    for x, y, found in zip(a, b, apply(name, a, b), strict=True):
        exact = getattr(Fraction(float(x)), symbol)(Fraction(float(y)))
        neighbours = [np.nextafter(found, row.numpy.type(s * np.inf)) for s in (-1, 1)]
        error = abs(Fraction(float(found)) - exact)
        assert all(error <= abs(Fraction(float(each)) - exact) for each in neighbours)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_maximum_minimum_and_relu_keep_nan_and_order_zeros(dtype: str) -> None:
    kind = DTYPES[dtype].numpy
    x = np.array([np.nan, 1, -0.0, 0.0, -0.0, -3, np.inf], kind)
    y = np.array([1, np.nan, 0.0, -0.0, -0.0, 2, -np.inf], kind)
    assert_same_bits(apply("max", x, y), np.array([np.nan, np.nan, 0, 0, -0.0, 2, np.inf], kind))
    assert_same_bits(
        apply("min", x, y), np.array([np.nan, np.nan, -0.0, -0.0, -0.0, -3, -np.inf], kind)
    )
    assert_same_bits(apply("relu", x), np.array([np.nan, 1, 0, 0, 0, 0, np.inf], kind))
    low, high = np.array(-1, kind), np.array(1, kind)
    clamped = np.array([np.nan, 1, -0.0, 0, -0.0, -1, 1], kind)
    assert_same_bits(apply("clamp", x, low, high), clamped)


def test_comparisons_with_nan_are_false_and_unequal() -> None:
    x = np.array([np.nan, 1.0], np.float32)
    for name in ("eq", "lt", "le", "gt", "ge"):
        assert not apply(name, x, np.array([np.nan, np.nan], np.float32)).any()
    assert apply("ne", x, x).tolist() == [True, False]


@pytest.mark.parametrize("dtype", ["i64", "i32", "i16", "i8"])
def test_integers_wrap_and_divide_as_python_does(dtype: str) -> None:
    kind = DTYPES[dtype].numpy
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    a = np.array([high, low, low, 7, -7, 7, -7, 5], kind)
    b = np.array([1, 1, -1, 2, 2, -2, -2, 0], kind)
    wrapped = (a.astype(object) + b.astype(object) - low) % (high - low + 1) + low
    assert apply("add", a, b).tolist() == wrapped.tolist()
    assert apply("floordiv", a, b).tolist() == [high, low, low, 3, -4, -4, 3, 0]
    assert apply("mod", a, b).tolist() == [0, 0, 0, 1, 1, -1, -1, 0]
    assert apply("neg", a)[1] == low
    assert apply("abs", a)[1] == low


def test_unsigned_bytes_wrap() -> None:
    x = np.array([0, 1, 255], np.uint8)
    assert apply("neg", x).tolist() == [0, 255, 1]
    assert apply("sub", x, np.array(1, np.uint8)).tolist() == [255, 0, 254]


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_sigmoid_and_its_family_at_the_extremes(dtype: str) -> None:
    kind = DTYPES[dtype].numpy
    x = np.array([-1000, -50, 0, 50, 1000, np.nan], kind)
    sigmoid = apply("sigmoid", x).astype(np.float64)
    assert sigmoid[[0, 2, 4]].tolist() == [0, 0.5, 1]
    assert 0 <= sigmoid[1] <= 2e-22
    assert math.isnan(sigmoid[5])
    for name, attributes in (("silu", {}), ("gelu", {"approximate": "none"})):
        values = apply(name, x, **attributes).astype(np.float64)
        assert values[[0, 2, 3, 4]].tolist() == [0, 0, 50, 1000]
    tanh = apply("gelu", x, approximate="tanh").astype(np.float64)
    assert tanh[[0, 2, 3, 4]].tolist() == [0, 0, 50, 1000]


def test_gelu_agrees_with_its_definition() -> None:
    x = np.linspace(-6, 6, 101)
    expected = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x]
    np.testing.assert_allclose(apply("gelu", x, approximate="none"), expected, atol=1e-15)
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    bent = 0.5 * x * (1 + np.tanh(inner))
    np.testing.assert_allclose(apply("gelu", x, approximate="tanh"), bent, atol=1e-15)


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tanh", "erf", "sqrt", "rsqrt"])
def test_functions_of_f32_are_the_rounded_f64_value(name: str) -> None:
    x = np.abs(np.random.default_rng(2).normal(size=(7, 11)).astype(np.float32)) + np.float32(0.1)
    exact = {"erf": np.vectorize(math.erf), "rsqrt": lambda v: 1 / np.sqrt(v)}
    function = exact.get(name) or getattr(np, name)
    expected = function(x.astype(np.float64)).astype(np.float32)
    assert_same_bits(apply(name, x), expected)
    assert_same_bits(apply(name, x.T[::-1]), expected.T[::-1].copy())


def test_powers() -> None:
    x = np.array([3.1, -2.0, 0.0, np.nan, np.inf], np.float32)
    assert_same_bits(apply("pow", x, np.array(2, np.float32)), x * x)
    assert_same_bits(apply("pow", x, np.array(0, np.float32)), np.ones(5, np.float32))


def test_where_takes_either_side_by_broadcasting() -> None:
    condition = np.array([[True], [False]])
    found = apply("where", condition, np.array([1.0, 2.0], np.float16), np.array(9, np.float16))
    assert found.tolist() == [[1, 2], [9, 9]]
    assert found.dtype == np.float16


@pytest.mark.parametrize("target", [I8, U8, I32, I64])
def test_float_to_integer_truncates_and_saturates(target: object) -> None:
    limits = np.iinfo(target.numpy)  # pyright: ignore[reportAttributeAccessIssue]
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.9, -0.9], np.float32)
    expected = [0, limits.max, limits.min, limits.max, limits.min, 2, 0]
    assert cast(x, target).tolist() == expected  # pyright: ignore[reportArgumentType]


def test_large_f64_to_i64_saturates_without_wrapping() -> None:
    x = np.array([2.0**63, 2.0**63 - 1024, -(2.0**63), -(2.0**63) - 2048])
    expected = [2**63 - 1, 2**63 - 1024, -(2**63), -(2**63)]
    assert cast(x, I64).tolist() == expected


def test_integer_casts_wrap_and_bool_is_not_zero() -> None:
    assert cast(np.array([300, -1, 128], np.int32), I8).tolist() == [44, -1, -128]
    assert cast(np.array([300, -1], np.int32), U8).tolist() == [44, 255]
    assert cast(np.array([0.0, -0.0, np.nan, 1e-45], np.float32), BOOL).tolist() == [0, 0, 1, 1]
    assert cast(np.array([True, False]), F32).tolist() == [1, 0]


def test_f16_overflows_to_infinity() -> None:
    x = np.array([65519.0, 65520.0], np.float32)
    assert apply("cast", x, dtype="f16").tolist() == [65504, np.inf]


def test_f64_reaches_bf16_with_one_rounding() -> None:
    # Halfway between two bf16 values and a little more: through f32 the little is lost.
    x = np.array([1 + 2.0**-8 + 2.0**-40, -(1 + 2.0**-8 + 2.0**-40), 1 + 2.0**-8])
    up = 1 + 2.0**-7
    assert round_to(x, BF16).astype(np.float64).tolist() == [up, -up, 1.0]
    ends = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e300])
    expected = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, np.inf], ml_dtypes.bfloat16)
    with np.errstate(over="ignore"):
        assert_same_bits(round_to(ends, BF16), expected)


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_every_cast_gives_its_dtype(source: str, target: str) -> None:
    x = specials(source)
    found = apply("cast", x, dtype=target)
    assert found.dtype == DTYPES[target].numpy
    if source == target:
        assert_same_bits(found, x)
