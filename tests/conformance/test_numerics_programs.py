"""Statements of docs/numerics.md on positions, windows, attention, branches and loops."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from conformance.matrix.compare import as_exact, check_close, check_same
from conformance.matrix.row import Bound
from executors import Array, run_everywhere, value

F64, F32, F16, BF16 = np.float64, np.float32, np.float16, ml_dtypes.bfloat16
EVERY_FLOAT = pytest.mark.parametrize("dtype", [F64, F32, F16, BF16])
NAN, INF = np.nan, np.inf


def normal(dtype: Any, *shape: int, seed: int = 1) -> Array:
    """Random numbers of a dtype."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def expect(found: dict[str, Array], wanted: Any) -> None:
    """Every executor gives these values, in the dtype that it has."""
    for executor, result in found.items():
        check_same(result, np.asarray(wanted).astype(result.dtype), executor)


@pytest.mark.parametrize("dtype", [F64, F16, BF16])
def test_fold_running(dtype: Any) -> None:
    # In the dtype itself the sum would stop growing where 1 is half a unit.
    ones = np.ones(3000, dtype)
    expect(value("cumsum(a, dim=0)", a=ones), np.arange(1, 3001).astype(dtype))
    # Sums of one number are no multiples of it: 0 * inf would be NaN.
    endless = np.broadcast_to(np.array([1, INF, 1, 1, INF, 1, 1], dtype), (18, 7))
    sums = np.where(endless == 1, np.arange(1, 19)[:, None], INF)
    expect(value("cumsum(a, dim=0)", a=endless), sums.astype(dtype))
    grown = np.full(40, 1.0078125, dtype)
    exact = np.cumprod(as_exact(grown))
    for executor, result in value("cumprod(a, dim=0)", a=grown).items():
        check_close(result, exact, Bound(ulps=40 if dtype is F64 else 0.51), (), executor)


@EVERY_FLOAT
def test_convolution_padding(dtype: Any) -> None:
    x = np.ones((1, 1, 1, 3), dtype)
    w = np.array([NAN, 1, 1], dtype).reshape(1, 1, 1, 3)
    expect(value("conv2d(a, b, padding=[0, 1])", a=x, b=w), np.full((1, 1, 1, 3), NAN))
    w[0, 0, 0, 0] = INF
    expect(value("conv2d(a, b, padding=[0, 1])", a=x, b=w), [[[[NAN, INF, INF]]]])


@EVERY_FLOAT
def test_window_padding(dtype: Any) -> None:
    x = -np.ones((1, 1, 3), dtype)
    expect(value("max_pool1d(a, 3, stride=1, padding=1)", a=x), [[[-1, -1, -1]]])
    x[0, 0, 1] = NAN
    expect(value("max_pool1d(a, 2, stride=1)", a=x), [[[NAN, NAN]]])


@pytest.mark.parametrize("dtype", [F32, F64])
def test_batch_norm_fold(dtype: Any) -> None:
    x, w = normal(dtype, 1, 32, 64, 64), normal(dtype, 32, 1, 3, 3, seed=2)
    m, v = normal(dtype, 32, seed=3), np.abs(normal(dtype, 32, seed=4)) + dtype(0.5)
    text = """kernel k(input x: tensor, input w: tensor, input m: tensor, input v: tensor) {
      return batch_norm(conv2d(x, w, padding=1, groups=32), m, v); }"""
    kernel = wia.compile(text).k
    folds = [each for each in kernel.build(x, w, m, v).trace.decisions if each.kind == "fold"]
    assert len(folds) == 1 and ("rounded before" in folds[0].reason) == folds[0].taken
    exact = wia.reference(kernel, *(each.astype(F64) for each in (x, w, m, v)))
    size = 9 * np.abs(w).max() * np.abs(x).max() + np.abs(m).max()
    allowed = 16 * np.finfo(dtype).eps * size / np.sqrt(v.min())
    assert np.max(np.abs(kernel(x, w, m, v) - exact)) <= max(allowed, 1e-13)


@pytest.mark.parametrize("dtype", [F64, F32, F16, BF16, np.int32, np.uint8])
def test_argmax_ties(dtype: Any) -> None:
    a = np.array([[1, 3, 3, 0], [5, 5, 5, 5]], dtype)
    expect(value("argmax(a, dim=1)", a=a), [1, 0])
    expect(value("argmin(a, dim=1)", a=a), [3, 0])
    expect(value("argmax(a)", a=a), 4)
    zeros = np.array([-0.0, 0, -0.0], F32)
    expect(value("argmax(a)", a=zeros), 0)
    expect(value("argmin(a)", a=-zeros), 0)


@EVERY_FLOAT
def test_argmax_nan(dtype: Any) -> None:
    a = np.array([[1, NAN, INF, NAN], [NAN, 1, -INF, 2], [0, 1, 2, NAN]], dtype)
    expect(value("argmax(a, dim=1)", a=a), [1, 0, 3])
    expect(value("argmin(a, dim=1)", a=a), [1, 0, 3])


@pytest.mark.parametrize("wrong", [-1, 3, 2**40])
def test_index_range(wrong: int) -> None:
    a, table = np.arange(3, dtype=F32), np.ones((3, 2), F32)
    index = np.array([0, wrong], np.int64)
    for text, first, second in (
        ("gather(a, 0, b)", a, index),
        ("index_select(a, 0, b)", a, index),
        ("embedding(a, b)", index, table),
    ):
        kernel = wia.compile(f"kernel k(input a: tensor, input b: tensor) {{ return {text}; }}").k
        with pytest.raises(IndexError):
            kernel(first, second)
        with pytest.raises(wia.WiaError, match="out of range"):
            wia.reference(kernel, first, second)


@EVERY_FLOAT
def test_attention_masked(dtype: Any) -> None:
    q, k, v = normal(dtype, 3, 4), normal(dtype, 5, 4, seed=2), normal(dtype, 5, 2, seed=3)
    mask = np.array([[False] * 5, [True] * 5, [False] * 4 + [True]])
    for executor, result in value("attention(a, b, c, mask=d)", a=q, b=k, c=v, d=mask).items():
        check_same(result[0], np.zeros(2, dtype), executor)
        check_same(result[2], v[4], executor)
    none = np.zeros((0, 4), dtype), np.zeros((0, 2), dtype)
    expect(value("attention(a, b, c)", a=q, b=none[0], c=none[1]), np.zeros((3, 2)))


@EVERY_FLOAT
def test_attention_unseen(dtype: Any) -> None:
    q, k, v = normal(dtype, 3, 4), normal(dtype, 5, 4, seed=2), normal(dtype, 5, 2, seed=3)
    before = value("attention(a, b, c, causal=true)", a=q, b=k, c=v)
    k[3:], v[3:] = 100, -100
    for executor, result in value("attention(a, b, c, causal=true)", a=q, b=k, c=v).items():
        check_same(result, before[executor], executor)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_attention_online(dtype: Any) -> None:
    # Scores that grow from key to key: every key is a new largest one.
    k = np.linspace(-3, 3, 257, dtype=dtype)[:, None] * np.ones((1, 8), dtype)
    q, v = np.ones((2, 8), dtype), normal(dtype, 257, 3)
    scores = as_exact(q) @ as_exact(k).T / np.sqrt(np.longdouble(8))
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    truth = powers / powers.sum(axis=1, keepdims=True) @ as_exact(v)
    bound = Bound(ulps=2, terms=300, scale=lambda *_: np.ones((), np.longdouble))
    for executor, result in value("attention(a, b, c)", a=q, b=k, c=v).items():
        check_close(result, truth, bound, (q,), executor)


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_attention_narrow(dtype: Any) -> None:
    kernel = wia.compile(
        "kernel k(q: tensor, k: tensor, v: tensor) { return attention(q, k, v); }"
    ).k
    arrays = normal(dtype, 20, 32), normal(dtype, 90, 32, seed=2), normal(dtype, 90, 40, seed=3)
    build = kernel.build(*arrays, target="gpu:sm_80")
    (said,) = [each for each in build.stage("schedule").decisions if each.kind == "schedule"]
    assert f"weights rounded to {'f16' if dtype is F16 else 'bf16'}" in said.reason
    q, k, v = map(as_exact, arrays)
    powers = np.exp(q @ k.T / np.sqrt(np.longdouble(32)))
    weights = powers / powers.sum(axis=1, keepdims=True)
    epsilon = float(ml_dtypes.finfo(dtype).eps)
    difference = np.abs(as_exact(build(*arrays)) - weights @ v)
    assert np.all(difference <= epsilon * (weights @ np.abs(v)) + epsilon * np.abs(weights @ v))
    # A weight of e⁻²⁰ is none in f16, and is one in bf16.
    q, k, v = np.ones((1, 1), dtype), np.array([[0], [-20]], dtype), np.array([[0], [6e4]], dtype)
    found = kernel.build(q, k, v, target="gpu:sm_80")(q, k, v)
    wanted = 0 if dtype is F16 else 6e4 * np.exp(-20)
    np.testing.assert_allclose(found.astype(F64), [[wanted]], rtol=0.01)


def test_branch_values() -> None:
    text = """kernel k(input a: tensor, input n: tensor, output y: tensor) {
      if (n > 0.0) { y = a * 3.0; } else { y = a / 0.0; } }"""
    a = normal(F16, 7)
    expect({e: r[0] for e, r in run_everywhere(text, a, F16(1)).items()}, a * F16(3))
    signs = np.where(a > 0, INF, -INF)
    expect({e: r[0] for e, r in run_everywhere(text, a, F16(0)).items()}, signs)


def test_loop_order() -> None:
    text = """kernel k(input A: tensor<N, f32>, output s: tensor<1, f32>) {
      let sum = 0.0;
      for i in 0..N { sum += A[i] * A[i]; }
      s[0] = sum; }"""
    a = normal(F32, 1000)
    wanted = F32(0)
    for each in a:
        wanted = wanted + each * each
    expect({e: r[0] for e, r in run_everywhere(text, a).items()}, [wanted])


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_loop_narrow(dtype: Any) -> None:
    name = "f16" if dtype is F16 else "bf16"
    text = f"""kernel k(input A: tensor<N>, output s: tensor<1, {name}>) {{
      for i in 0..N {{ s[0] += A[i]; }} }}"""
    limit = 2 / float(ml_dtypes.finfo(dtype).eps)
    ones = np.ones(int(limit) + 100, dtype)
    expect({e: r[0] for e, r in run_everywhere(text, ones).items()}, [limit])


def test_loop_unwritten() -> None:
    text = """kernel k(input A: tensor<N, f32>, output C: tensor<N, f32>) {
      for i in 0..N step 2 { C[i] = A[i] + 1.0; } }"""
    a = np.arange(5, dtype=F32)
    expect({e: r[0] for e, r in run_everywhere(text, a).items()}, [1, 0, 3, 0, 5])


def test_loop_outside() -> None:
    text = """kernel k(input A: tensor<N, f32>, input I: tensor<M, i32>, output C: tensor<N, f32>) {
      for i in 0..M { C[I[i]] = A[I[i]] + 1.0; } }"""
    kernel = wia.compile(text).k
    a, places = np.arange(3, dtype=F32), np.array([0, 3, 2, -1], np.int32)
    out = np.full(3, 9, F32)
    with pytest.raises(IndexError, match="index 3 lies outside"):
        kernel(a, places, out=out)
    with pytest.raises(IndexError, match="index 3"):
        wia.reference(kernel, a, places)
    np.testing.assert_array_equal(out, [1, 0, 3])
