"""Statements of docs/numerics.md on literals and on rounding, one test each."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from conformance.matrix.compare import check_close, check_same
from conformance.matrix.elementwise import error_function
from conformance.matrix.row import Bound
from executors import Array, run_everywhere, value

F32, F64, F16, BF16 = np.float32, np.float64, np.float16, ml_dtypes.bfloat16


def expect(found: dict[str, Array], wanted: Any, dtype: Any = None) -> None:
    """Every executor gives these bits."""
    for executor, result in found.items():
        expected = np.asarray(wanted, result.dtype if dtype is None else dtype)
        check_same(result, np.broadcast_to(expected, result.shape), executor)


def refused(text: str, *arguments: str) -> str:
    """The message of a kernel that does not compile for these arguments."""
    specs = [wia.spec((3,), name) for name in arguments]
    with pytest.raises(wia.CompileError) as caught:
        wia.compile(
            f"kernel k({', '.join(f'input {n}: tensor' for n in 'ab'[: len(specs)])}) "
            f"{{ return {text}; }}"
        ).k.build(*specs)
    return str(caught.value)


def test_dtype_mixing() -> None:
    assert "cast(" in refused("a + b", "f32", "f64")
    assert "cast(" in refused("a * b", "i8", "u8")


@pytest.mark.parametrize("dtype", [F64, F32, F16, BF16, np.int64, np.int8, np.uint8])
def test_literal_dtype(dtype: Any) -> None:
    a = np.array([1, 2, 3], dtype)
    expect(value("a * 3 + 1", a=a), np.array([4, 7, 10], dtype), dtype)


def test_literal_range() -> None:
    assert "i8 cannot hold 300" in refused("a + 300", "i8")
    assert "f32 cannot hold 1e+39" in refused("a + 1e39", "f32")
    assert "vanishes in f32" in refused("a + 1e-50", "f32")
    assert "f16 cannot hold" in refused("a + 1e5", "f16")


def test_literal_whole() -> None:
    assert "f32 cannot hold 16777217 exactly" in refused("a + 16777217", "f32")
    expect(value("a + 16777216", a=np.zeros(1, F32)), [16777216])


def test_literal_rounds() -> None:
    expect(value("a + 0.1", a=np.zeros(1, F32)), [F32(0.1)])
    expect(value("a + 0.1", a=np.zeros(1, BF16)), [BF16(0.1)])
    expect(value("a + 16777217.0", a=np.zeros(1, F32)), [16777216])


def test_literal_fraction() -> None:
    assert "i32 cannot hold 1.5" in refused("a + 1.5", "i32")


def test_literal_arithmetic() -> None:
    expect(value("a + 1.0 / 3.0", a=np.zeros(1, F32)), [F32(1) / F32(3)])
    expect(value("a + (0.1 + 0.2)", a=np.zeros(1, F32)), [F32(0.1) + F32(0.2)])
    expect(value("a + (0.1 + 0.2)", a=np.zeros(1, F64)), [0.1 + 0.2])


def test_round_once() -> None:
    ulp = 2.0**-23
    a = np.array([1, 1, 1 + ulp, 1 + ulp], F32)
    b = np.array([ulp / 2, ulp * 0.75, ulp / 2, ulp / 4], F32)
    expect(value("a + b", a=a, b=b), [1, 1 + ulp, 1 + 2 * ulp, 1 + ulp])


@pytest.mark.parametrize("dtype", [F64, F32, F16, BF16])
def test_round_exact(dtype: Any) -> None:
    random = np.random.default_rng(1)
    a, b = (random.normal(size=501).astype(dtype) for _ in range(2))
    exact = [each.astype(F64).astype(np.longdouble) for each in (a, b)]
    text = "kernel k(input a: tensor, input b: tensor) { return a + b, a - b, a * b, a / b, "
    text += "sqrt(abs(a)), floor(a), ceil(a), round(a), -a, min(a, b), max(a, b); }"
    x, y = exact
    wanted = [x + y, x - y, x * y, x / y, np.sqrt(abs(x)), np.floor(x), np.ceil(x), np.rint(x)]
    wanted += [-x, np.minimum(x, y), np.maximum(x, y)]
    for executor, results in run_everywhere(text, a, b).items():
        for result, truth in zip(results, wanted, strict=True):
            check_close(result, truth, Bound(), (), executor)


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_round_narrow(dtype: Any) -> None:
    random = np.random.default_rng(2)
    a, b, c = (random.normal(size=400).astype(dtype) for _ in range(3))
    wide = [each.astype(F32) for each in (a, b, c)]
    product = (wide[0] * wide[1]).astype(dtype)
    stepwise = (product.astype(F32) + wide[2]).astype(dtype)
    at_once = (wide[0] * wide[1] + wide[2]).astype(dtype)
    assert (stepwise != at_once).any()
    expect(value("a * b + c", a=a, b=b, c=c), stepwise)
    overflow = np.full(1, ml_dtypes.finfo(dtype).max, dtype)
    expect(value("a * b / b", a=overflow, b=np.full(1, 2, dtype)), [np.inf])


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
def test_round_fused(dtype: Any) -> None:
    random = np.random.default_rng(3)
    a, b = (random.normal(size=300).astype(dtype) for _ in range(2))
    fused = value("exp(a * b - a) * b + a", a=a, b=b)
    for executor, result in fused.items():
        step = value("a * b", a=a, b=b)[executor]
        step = value("a - b", a=step, b=a)[executor]
        step = value("exp(a)", a=step)[executor]
        step = value("a * b", a=step, b=b)[executor]
        check_same(result, value("a + b", a=step, b=a)[executor], executor)


def test_round_no_contraction() -> None:
    a = np.full(33, 1 + 2.0**-12, F32)
    c = np.full(33, -(1 + 2.0**-11), F32)
    expect(value("a * a + c", a=a, c=c), np.zeros(33, F32))
    expect(value("c - a * -a", a=a, c=c), np.zeros(33, F32))


def test_round_no_reassociation() -> None:
    a, b = np.full(9, 1e8, F32), np.full(9, 1, F32)
    expect(value("(a + b) - a", a=a, b=b), np.zeros(9, F32))
    expect(value("b + (a - a)", a=a, b=b), np.ones(9, F32))
    third = np.full(5, 3, F32)
    expect(
        value("a / b * b", a=np.full(5, 49, F32), b=np.full(5, 49.0 / 3, F32)),
        F32(49) / F32(49.0 / 3) * F32(49.0 / 3),
    )
    expect(value("a * 0.1 * 10.0", a=third), third * F32(0.1) * F32(10))


@pytest.mark.parametrize("dtype", [F64, F32, F16, BF16])
def test_round_overflow(dtype: Any) -> None:
    largest = np.full(3, ml_dtypes.finfo(dtype).max, dtype)
    expect(value("a + a", a=largest), [np.inf] * 3)
    expect(value("a * -a", a=largest), [-np.inf] * 3)


@pytest.mark.parametrize("dtype", [F64, F32, F16, BF16])
def test_round_subnormal(dtype: Any) -> None:
    info = ml_dtypes.finfo(dtype)
    normal, smallest = dtype(info.smallest_normal), dtype(info.smallest_subnormal)
    a = np.array([normal, smallest, -smallest], dtype)
    half = dtype(float(normal) / 2)
    expect(value("a * 0.5", a=a), np.array([half, 0, -0.0], dtype))
    expect(value("a + a", a=a), np.array([2 * float(each) for each in a]).astype(dtype))
    expect(
        value("a - b", a=a, b=np.full(3, smallest, dtype)),
        np.array([float(each) - float(smallest) for each in a]).astype(dtype),
    )


@pytest.mark.parametrize("dtype", [F64, F32, F16, BF16])
def test_round_functions(dtype: Any) -> None:
    random = np.random.default_rng(4)
    a = (random.normal(size=701) * np.exp2(random.integers(-8, 5, 701))).astype(dtype)
    b = random.normal(size=701).astype(dtype)
    text = "kernel k(input a: tensor, input b: tensor) { return exp(a), log(a), tanh(a), erf(a), "
    text += "sin(a), cos(a), rsqrt(a), abs(a) ** b; }"
    x, y = (each.astype(F64).astype(np.longdouble) for each in (a, b))
    with np.errstate(all="ignore"):
        wanted = [np.exp(x), np.log(x), np.tanh(x), error_function(x), np.sin(x), np.cos(x)]
        wanted += [1 / np.sqrt(x), np.power(abs(x), y)]
    for executor, results in run_everywhere(text, a, b).items():
        for number, (result, truth) in enumerate(zip(results, wanted, strict=True)):
            check_close(result, truth, Bound(ulps=2), (), f"{executor} {number}")


@pytest.mark.parametrize("dtype", [F64, F32, F16, BF16])
def test_round_square(dtype: Any) -> None:
    a = np.random.default_rng(5).normal(size=1000).astype(dtype)
    squares, products = value("a ** 2", a=a), value("a * a", a=a)
    for executor, result in squares.items():
        check_same(result, products[executor], executor)


def test_round_half() -> None:
    a = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3.49], F32)
    expect(value("round(a)", a=a), np.array([0, 2, 2, -0.0, -2, 3], F32))
