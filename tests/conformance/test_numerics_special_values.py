"""Statements of docs/numerics.md on NaN, zeros and infinities, one test each."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from conformance.matrix.compare import check_same
from executors import Array, run_everywhere, value

FLOATS = (np.float64, np.float32, np.float16, ml_dtypes.bfloat16)
EVERY_FLOAT = pytest.mark.parametrize("dtype", FLOATS)
NAN, INF = np.nan, np.inf


def results(calls: str, **operands: Array) -> dict[str, list[Array]]:
    """The values of several calls, by executor."""
    inputs = ", ".join(f"input {name}: tensor" for name in operands)
    return run_everywhere(f"kernel k({inputs}) {{ return {calls}; }}", *operands.values())


def expect_each(found: dict[str, list[Array]], *wanted: Any) -> None:
    """Every executor gives these results, each in the dtype that it has."""
    for executor, each in found.items():
        for number, (result, want) in enumerate(zip(each, wanted, strict=True)):
            expected = np.broadcast_to(np.asarray(want).astype(result.dtype), result.shape)
            check_same(result, expected, f"{executor}, result {number}")


@EVERY_FLOAT
def test_nan_arithmetic(dtype: Any) -> None:
    a, b = np.array([NAN, 1, NAN], dtype), np.array([1, NAN, NAN], dtype)
    binary = "a + b, a - b, a * b, a / b, a // b, a % b"
    expect_each(results(binary, a=a, b=b), *[[NAN] * 3] * 6)
    unary = "-a, abs(a), exp(a), log(a), sqrt(a), rsqrt(a), sin(a), cos(a), tanh(a), erf(a), "
    unary += "floor(a), ceil(a), round(a), sigmoid(a), silu(a), gelu(a)"
    expect_each(results(unary, a=np.full(3, NAN, dtype)), *[[NAN] * 3] * 16)


@EVERY_FLOAT
def test_nan_extremes(dtype: Any) -> None:
    a, b = np.array([NAN, 1, NAN], dtype), np.array([1, NAN, NAN], dtype)
    calls = "min(a, b), max(a, b), relu(a + b), clamp(a, b, b), clamp(a + b, 0.0, 1.0)"
    expect_each(results(calls, a=a, b=b), *[[NAN] * 3] * 5)


@EVERY_FLOAT
def test_nan_compare(dtype: Any) -> None:
    a, b = np.array([NAN, 1, NAN], dtype), np.array([1, NAN, NAN], dtype)
    found = results("a == b, a < b, a <= b, a > b, a >= b, a != b, a != a", a=a, b=b)
    expect_each(found, *[[False] * 3] * 5, [True] * 3, [True, False, True])


@EVERY_FLOAT
def test_nan_where(dtype: Any) -> None:
    a, b = np.array([NAN, 1, 2], dtype), np.array([1, NAN, INF], dtype)
    expect_each(
        results("where(a == a, a, b), where(a != a, a, b)", a=a, b=b), [1, 1, 2], [NAN, NAN, INF]
    )
    expect_each(results("where(a > 0.0, log(a), 0.0)", a=np.array([-1, 0, 1], dtype)), [0, 0, 0])


@EVERY_FLOAT
def test_nan_folds(dtype: Any) -> None:
    a = np.ones((4, 37), dtype)
    a[0, 0] = a[1, 36] = a[2, 17] = NAN
    calls = ", ".join(f"reduce_{name}(a, dim=1)" for name in ("sum", "prod", "max", "min", "mean"))
    expect_each(results(calls, a=a), [NAN] * 3 + [37], *[[NAN] * 3 + [1]] * 4)
    expect_each(results("reduce_max(a), reduce_min(a)", a=a), NAN, NAN)


@EVERY_FLOAT
def test_nan_power(dtype: Any) -> None:
    a, b = np.array([NAN, 1, NAN, 1], dtype), np.array([0, NAN, -0.0, INF], dtype)
    expect_each(results("a ** b", a=a, b=b), [1, 1, 1, 1])
    expect_each(results("a ** 0.0", a=np.array([NAN, INF, 0], dtype)), [1, 1, 1])


@EVERY_FLOAT
def test_nan_invalid(dtype: Any) -> None:
    a, zero = np.array([INF, -INF], dtype), np.zeros(2, dtype)
    calls = "a - a, b * a, b / b, a / a, sqrt(-abs(a)), log(-abs(a)), sqrt(b - 1.0), log(b - 1.0)"
    expect_each(results(calls, a=a, b=zero), *[[NAN] * 2] * 8)


@EVERY_FLOAT
def test_zero_sign(dtype: Any) -> None:
    a, b = np.array([0, -0.0, 0, -0.0], dtype), np.array([1, 1, -1, -1], dtype)
    signs = [0, -0.0, -0.0, 0]
    expect_each(results("-a, a * b, a / b", a=a, b=b), [-0.0, 0, -0.0, 0], signs, signs)
    expect_each(results("a * 0.0, b * 0.0", a=a, b=b), [0, -0.0, 0, -0.0], [0, 0, -0.0, -0.0])


@EVERY_FLOAT
def test_zero_sum(dtype: Any) -> None:
    a, b = np.array([-0.0, -0.0, 0], dtype), np.array([0, -0.0, -0.0], dtype)
    found = results("a + b, a - b, a + 0.0, a - 0.0", a=a, b=b)
    expect_each(found, [0, -0.0, 0], [-0.0, 0, 0], [0, 0, 0], [-0.0, -0.0, 0])


@EVERY_FLOAT
def test_zero_extremes(dtype: Any) -> None:
    a, b = np.array([-0.0, 0, -0.0], dtype), np.array([0, -0.0, -0.0], dtype)
    expect_each(results("max(a, b), min(a, b)", a=a, b=b), [0, 0, -0.0], [-0.0] * 3)


@EVERY_FLOAT
@pytest.mark.parametrize("length", [2, 37])
def test_zero_fold_extremes(dtype: Any, length: int) -> None:
    a = np.zeros((4, length), dtype)
    a[1] = a[2, 1:] = a[3, :-1] = -0.0
    calls = "reduce_max(a, dim=1), reduce_min(a, dim=1), reduce_max(a), reduce_min(a)"
    expect_each(results(calls, a=a), [0, -0.0, 0, 0], [0, -0.0, -0.0, -0.0], 0, -0.0)
    expect_each(results("reduce_max(a, dim=0)", a=a.T), [0, -0.0, 0, 0])


@EVERY_FLOAT
def test_zero_equal(dtype: Any) -> None:
    a, b = np.array([-0.0, 0], dtype), np.array([0, -0.0], dtype)
    found = results("a == b, a <= b, a >= b, a != b, a < b, a > b", a=a, b=b)
    expect_each(found, *[[True] * 2] * 3, *[[False] * 2] * 3)


@EVERY_FLOAT
def test_zero_relu(dtype: Any) -> None:
    expect_each(results("relu(a), max(a, 0.0)", a=np.array([-0.0, 0], dtype)), [0, 0], [0, 0])


@EVERY_FLOAT
def test_zero_round(dtype: Any) -> None:
    a = np.array([-0.0, 0, -0.25, 0.25], dtype)
    found = results("ceil(a), floor(a), round(a)", a=a)
    expect_each(found, [-0.0, 0, -0.0, 1], [-0.0, 0, -1, 0], [-0.0, 0, -0.0, 0])


@EVERY_FLOAT
def test_zero_functions(dtype: Any) -> None:
    a = np.array([-0.0, 0], dtype)
    expect_each(results("sqrt(a), sin(a), tanh(a), erf(a)", a=a), *[[-0.0, 0]] * 4)


@EVERY_FLOAT
def test_inf_division(dtype: Any) -> None:
    a, b = np.array([1, -1, 1, INF], dtype), np.array([0, 0, -0.0, -0.0], dtype)
    expect_each(
        results("a / b, 1.0 / b", a=a, b=b), [INF, -INF, -INF, -INF], [INF, INF, -INF, -INF]
    )


@EVERY_FLOAT
def test_inf_functions(dtype: Any) -> None:
    a = np.array([INF, -INF, 0, -0.0], dtype)
    calls = "exp(a), log(abs(a)), rsqrt(abs(a)), tanh(a), erf(a)"
    expect_each(
        results(calls, a=a),
        [INF, 0, 1, 1],
        [INF, INF, -INF, -INF],
        [0, 0, INF, INF],
        [1, -1, 0, -0.0],
        [1, -1, 0, -0.0],
    )


def test_integer_wrap() -> None:
    for dtype in (np.int64, np.int32, np.int16, np.int8, np.uint8):
        ends = np.iinfo(dtype)
        a = np.array([ends.max, ends.min], dtype)
        found = results("a + 1, a - 1, a * 2, reduce_sum(a + a), reduce_prod(a)", a=a)
        with np.errstate(all="ignore"):
            wanted = [a + dtype(1), a - dtype(1), a * dtype(2)]
        total = (2 * (int(ends.max) + int(ends.min))) % 2**ends.bits
        product = (int(ends.max) * int(ends.min)) % 2**ends.bits
        limits = [np.array(each, object) for each in (total, product)]
        expect_each(found, *wanted, *(_wrap(each, dtype) for each in limits))


def _wrap(number: Array, dtype: Any) -> Array:
    bits = np.iinfo(dtype).bits
    unsigned = np.array([int(number)], f"u{bits // 8}")
    return unsigned.view(dtype).reshape(())


def test_integer_lowest() -> None:
    for dtype in (np.int64, np.int32, np.int16, np.int8):
        lowest = np.full(3, np.iinfo(dtype).min, dtype)
        expect_each(results("-a, abs(a), 0 - a", a=lowest), lowest, lowest, lowest)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16, np.int8])
def test_integer_floor(dtype: Any) -> None:
    a, b = np.array([7, -7, 7, -7, 6], dtype), np.array([2, 2, -2, -2, -3], dtype)
    expect_each(
        results("a // b, a // 2, a // -2", a=a, b=b),
        [3, -4, -4, 3, -2],
        [3, -4, 3, -4, 3],
        [-4, 3, -4, 3, -3],
    )


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16, np.int8, np.uint8])
def test_integer_modulo(dtype: Any) -> None:
    random, ends = np.random.default_rng(1), np.iinfo(dtype)
    a = random.integers(ends.min, ends.max, 501, dtype, endpoint=True)
    b = random.integers(ends.min, ends.max, 501, dtype, endpoint=True)
    b[b == 0] = 1
    found = results("a % b, (a // b) * b + a % b", a=a, b=b)
    expect_each(found, [int(x) % int(y) for x, y in zip(a, b, strict=True)], a)


def test_integer_by_zero() -> None:
    for dtype in (np.int64, np.int32, np.int16, np.int8, np.uint8):
        ends = np.iinfo(dtype)
        a = np.array([0, 1, ends.max, ends.min], dtype)
        expect_each(results("a // b, a % b", a=a, b=np.zeros(4, dtype)), [0] * 4, [0] * 4)


def test_integer_lowest_quotient() -> None:
    for dtype in (np.int64, np.int32, np.int16, np.int8):
        lowest = np.full(3, np.iinfo(dtype).min, dtype)
        found = results("a // b, a % b, a // -1", a=lowest, b=np.full(3, -1, dtype))
        expect_each(found, lowest, [0] * 3, lowest)


def test_integer_division() -> None:
    with pytest.raises(wia.CompileError, match="div needs a float type"):
        value("a / a", a=np.ones(3, np.int32))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16, np.int8, np.uint8])
def test_integer_products(dtype: Any) -> None:
    random, ends = np.random.default_rng(2), np.iinfo(dtype)
    a = random.integers(ends.min, ends.max, (5, 17), dtype, endpoint=True)
    b = random.integers(ends.min, ends.max, (17, 9), dtype, endpoint=True)
    exact = a.astype(object) @ b.astype(object)
    wanted = np.array([_wrap(each, dtype) for each in (exact % 2**ends.bits).flat]).reshape(5, 9)
    expect_each(results("a @ b", a=a, b=b), wanted)
