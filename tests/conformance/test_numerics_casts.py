"""Statements of docs/numerics.md on casts, one test each."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conformance.matrix.compare import check_same
from executors import run_everywhere, value
from wia_compiler.base.dtypes import DTYPES

F64, F32, F16, BF16 = np.float64, np.float32, np.float16, ml_dtypes.bfloat16
FLOATS, INTEGERS = (F64, F32, F16, BF16), (np.int64, np.int32, np.int16, np.int8, np.uint8)


def expect(a: Any, name: str, wanted: Any) -> None:
    """Every executor's cast of ``a`` to the dtype ``name``."""
    for executor, result in value(f"cast(a, {name})", a=a).items():
        check_same(result, np.asarray(wanted).astype(DTYPES[name].numpy), f"{executor} {name}")


def name_of(dtype: Any) -> str:
    """The language's name of a numpy dtype."""
    return next(name for name, row in DTYPES.items() if row.numpy == np.dtype(dtype))


def test_cast_float() -> None:
    ulp = 2.0**-23
    expect(np.array([1 + ulp / 2, 1 + ulp * 1.5, 1 + ulp * 0.51]), "f32", [1, 1 + 2 * ulp, 1 + ulp])
    half = 2.0**-10
    expect(np.array([1 + half / 2, 1 + half * 1.5], F32), "f16", [1, 1 + 2 * half])
    # Through f32 this would be rounded twice: first to a tie, then to the even number below it.
    brain = 2.0**-7
    expect(np.array([1 + brain / 2 + 2.0**-40]), "bf16", [1 + brain])
    expect(np.array([1 + brain / 2 + 2.0**-20], F32), "bf16", [1 + brain])
    expect(np.array([1 + half / 2 + 2.0**-40]), "f16", [1 + half])
    expect(np.array([2.0**-149, 2.0**-150, 2.0**-150 * 1.01]), "f32", [2.0**-149, 0, 2.0**-149])
    expect(np.array([np.nan, np.inf, -0.0]), "bf16", [np.nan, np.inf, -0.0])


def test_cast_overflow() -> None:
    expect(np.array([1e39, -1e39, 3.4028234e38]), "f32", [np.inf, -np.inf, F32(3.4028234e38)])
    expect(np.array([65504, 65519, 65520, -7e4], F32), "f16", [65504, 65504, np.inf, -np.inf])
    expect(np.array([3.4e38], F32), "bf16", [np.inf])


@pytest.mark.parametrize("dtype", FLOATS)
def test_cast_truncate(dtype: Any) -> None:
    for target in INTEGERS[:4]:
        expect(np.array([1.75, -1.75, 0.99, -0.5, 100], dtype), name_of(target), [1, -1, 0, 0, 100])
    expect(np.array([1.75, 0.99, -0.5, 200], dtype), "u8", [1, 0, 0, 200])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("target", INTEGERS)
def test_cast_saturate(dtype: Any, target: Any) -> None:
    ends = np.iinfo(target)
    a = np.array([np.inf, -np.inf, 3e38, -3e38, 1, -1000], F64)
    with np.errstate(all="ignore"):
        narrow = a.astype(dtype)
    least = max(int(narrow[5]), ends.min)
    expect(
        narrow,
        name_of(target),
        np.array([ends.max, ends.min, ends.max, ends.min, 1, least], object).astype(target),
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_cast_nan(dtype: Any) -> None:
    for target in INTEGERS:
        expect(np.array([np.nan, -np.nan, 1], dtype), name_of(target), [0, 0, 1])


def test_cast_wrap() -> None:
    a = np.array([300, -1, 2**31, -(2**31) - 1, 2**40 + 5, 128], np.int64)
    for target in INTEGERS:
        expect(a, name_of(target), a.astype(target))
    expect(np.array([200, 255], np.uint8), "i8", [-56, -1])
    expect(np.array([-1, -128], np.int8), "u8", [255, 128])
    expect(np.array([-1], np.int8), "i64", [-1])
    expect(np.array([255], np.uint8), "i64", [255])


def test_cast_from_integer() -> None:
    a = np.array([2**24 + 1, 2**24 + 3, -(2**24) - 1, 2**53 + 1, 2**63 - 1], np.int64)
    expect(a, "f32", a.astype(F32))
    expect(a, "f64", a.astype(F64))
    expect(np.array([2049, 2051, 65519, 65520], np.int32), "f16", [2048, 2052, 65504, np.inf])
    expect(np.array([257, 259, 511], np.int32), "bf16", [256, 260, 512])
    expect(np.array([255], np.uint8), "f16", [255])


@pytest.mark.parametrize("dtype", FLOATS)
def test_cast_bool(dtype: Any) -> None:
    smallest = ml_dtypes.finfo(dtype).smallest_subnormal
    a = np.array([np.nan, float(smallest), -0.0, 0, -1, np.inf], F64).astype(dtype)
    expect(a, "bool", [True, True, False, False, True, True])
    expect(np.array([0, 1, -1, 256], np.int32), "bool", [False, True, True, True])


def test_cast_from_bool() -> None:
    names = [name for name in DTYPES if name != "bool"]
    outputs = ", ".join(f"cast(a, {name})" for name in names)
    text = f"kernel k(input a: tensor) {{ return {outputs}; }}"
    for executor, results in run_everywhere(text, np.array([True, False])).items():
        for name, result in zip(names, results, strict=True):
            check_same(result, np.array([1, 0]).astype(DTYPES[name].numpy), f"{executor} {name}")
