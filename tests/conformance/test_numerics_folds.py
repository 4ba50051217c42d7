"""Statements of docs/numerics.md on folds, products, rows, sizes and targets, one test each."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from conformance.matrix.compare import as_exact, check_close, check_same
from conformance.matrix.row import Bound
from conformance.matrix.values import place
from executors import Array, run_everywhere, value

F64, F32, F16, BF16 = np.float64, np.float32, np.float16, ml_dtypes.bfloat16
FLOATS = (F64, F32, F16, BF16)
EVERY_FLOAT = pytest.mark.parametrize("dtype", FLOATS)
NAN, INF = np.nan, np.inf


def normal(dtype: Any, *shape: int, seed: int = 1) -> Array:
    """Random numbers of a dtype."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def expect(found: dict[str, Array], wanted: Any) -> None:
    """Every executor gives these values, in the dtype that it has."""
    for executor, result in found.items():
        check_same(result, np.asarray(wanted).astype(result.dtype), executor)


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_fold_accumulator(dtype: Any) -> None:
    ones = np.ones((3000, 3), dtype)
    expect(value("reduce_sum(a, dim=0)", a=ones), [3000.0] * 3)
    expect(value("a @ b", a=ones.T.copy(), b=ones), np.full((3, 3), 3000.0))
    expect(value("reduce_mean(a)", a=ones), 1)
    window = np.ones((1, 3000, 1, 1), dtype)
    expect(value("conv2d(a, a)", a=window), [[[[3000.0]]]])
    # 1 + 2^-12 is no f16: a product rounded on the way would be 1.
    grown = np.full(4096, 1 + 2.0**-7, dtype)
    exact = float(np.prod(grown[:64].astype(F64)))
    for executor, result in value("reduce_prod(a)", a=grown[:64]).items():
        bound = Bound(ulps=0.6)
        check_close(result, np.asarray(exact, np.longdouble), bound, (), executor)


def test_fold_own() -> None:
    tiny = np.full(1000, 2.0**-25, F32)
    tiny[0] = 1
    text = "reduce_sum(a)"
    for executor, result in value(text, a=tiny).items():
        assert abs(float(result) - 1) <= 1001 * 2.0**-23, executor
    expect(value(text, a=np.array([1, 2.0**-52], F64)), 1 + 2.0**-52)
    expect(value(text, a=np.array([1, 2.0**-23], F32)), 1 + 2.0**-23)


@EVERY_FLOAT
@pytest.mark.parametrize("length", [17, 1000])
def test_fold_bound(dtype: Any, length: int) -> None:
    a = normal(dtype, 5, length)
    exact = as_exact(a)
    truth, size = np.sum(exact, axis=1), np.sum(np.abs(exact), axis=1)
    bound = Bound(ulps=1, terms=length, scale=lambda a: size)
    for executor, result in value("reduce_sum(a, dim=1)", a=a).items():
        check_close(result, truth, bound, (a,), executor)


@EVERY_FLOAT
def test_product_bound(dtype: Any) -> None:
    a, b = normal(dtype, 17, 127), normal(dtype, 127, 33, seed=2)
    x, y = as_exact(a), as_exact(b)
    bound = Bound(ulps=1, terms=127, scale=lambda a, b: np.abs(a) @ np.abs(b))
    for executor, result in value("a @ b", a=a, b=b).items():
        check_close(result, x @ y, bound, (a, b), executor)


def test_fold_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = normal(F32, 1 << 20), normal(F32, 515, 300)
    text = """kernel k(input a: tensor, input b: tensor) {
        return reduce_sum(a), b @ transpose(b), softmax(b), reduce_mean(b, dim=0);
    }"""
    build = wia.compile(text).k.build(a, b)
    assert "scf.parallel" in build.stage("lower").text
    results = list[list[bytes]]()
    for count in ("1", "2", "3", "16"):
        monkeypatch.setenv("WIA_NUM_THREADS", count)
        results.append([each.tobytes() for each in build(a, b)])
    assert all(each == results[0] for each in results)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.int32])
def test_fold_exact(dtype: Any) -> None:
    whole = np.issubdtype(dtype, np.integer)
    a = np.random.default_rng(7).integers(-128, 127, (17, 130)).astype(dtype)
    if not whole:
        a[::3] = normal(dtype, 6, 130)
    calls = ["reduce_max(a, dim=1)", "reduce_min(a, dim=0)", "argmax(a, dim=1)", "argmin(a, dim=0)"]
    if whole:
        calls += ["reduce_sum(a, dim=1)", "reduce_prod(a, dim=0)", "a @ transpose(a)"]
    text = f"kernel k(input a: tensor) {{ return {', '.join(calls)}; }}"
    wanted = run_everywhere(text, a)["reference"]
    for here in (a, np.asfortranarray(a), place(a, "strided")):
        for executor, found in run_everywhere(text, here).items():
            for result, want, call in zip(found, wanted, calls, strict=True):
                check_same(result, want, f"{call}, {executor}")


@EVERY_FLOAT
def test_fold_empty(dtype: Any) -> None:
    empty = np.zeros((3, 0), dtype)
    expect(value("reduce_sum(a, dim=1)", a=empty), [0, 0, 0])
    expect(value("reduce_prod(a, dim=1)", a=empty), [1, 1, 1])
    expect(value("reduce_mean(a, dim=1)", a=empty), [NAN] * 3)
    expect(value("reduce_sum(a)", a=np.zeros((0, 5), np.int32)), 0)
    expect(value("reduce_prod(a)", a=np.zeros((0, 5), np.int32)), 1)


def test_fold_empty_extremes() -> None:
    for name in ("reduce_max", "reduce_min"):
        with pytest.raises(wia.CompileError, match="of no elements is undefined"):
            value(f"{name}(a, dim=1)", a=np.zeros((3, 0), F32))
        expect(value(f"{name}(a, dim=0)", a=np.zeros((3, 0), F32)), np.zeros(0))


def test_product_empty() -> None:
    for dtype in (*FLOATS, np.int32):
        expect(
            value("a @ b", a=np.zeros((3, 0), dtype), b=np.zeros((0, 5), dtype)), np.zeros((3, 5))
        )


def test_mean_range() -> None:
    expect(value("reduce_mean(a)", a=np.full(1000, 60000, F16)), 60000)
    expect(value("reduce_mean(a, dim=1)", a=np.full((3, 100), 65504, F16)), [65504] * 3)


def test_convolution_bias() -> None:
    # The sum 1 + 2^-11 is rounded to 1 before the bias comes: together they would make 2^-10.
    x = np.array([1, 2.0**-11], F16).reshape(1, 2, 1, 1)
    w, b = np.ones((1, 2, 1, 1), F16), np.full(1, 2.0**-11, F16)
    expect(value("conv2d(a, b, c)", a=x, b=w, c=b), [[[[1.0]]]])


@EVERY_FLOAT
def test_fold_fused(dtype: Any) -> None:
    # Sums of whole numbers are exact in any order, so the roundings around them can be seen.
    a = np.random.default_rng(3).integers(-8, 8, (5, 64)).astype(dtype)
    b = normal(dtype, 5)
    fused = value("reduce_sum(a * a, dim=1) * b + b", a=a, b=b)
    for executor, result in fused.items():
        squares = value("a * a", a=a)[executor]
        total = value("reduce_sum(a, dim=1)", a=squares)[executor]
        step = value("a * b", a=total, b=b)[executor]
        check_same(result, value("a + b", a=step, b=b)[executor], executor)


@EVERY_FLOAT
def test_softmax_stable(dtype: Any) -> None:
    largest = float(ml_dtypes.finfo(dtype).max)
    a = np.array([[largest, largest], [largest, -largest], [0, largest]], dtype)
    expect(value("softmax(a, dim=1)", a=a), [[0.5, 0.5], [1, 0], [0, 1]])


@EVERY_FLOAT
def test_softmax_masked(dtype: Any) -> None:
    a = np.full((3, 4), -INF, dtype)
    a[0, 1] = a[1, :2] = 3
    expect(value("softmax(a)", a=a), [[0, 1, 0, 0], [0.5, 0.5, 0, 0], [NAN] * 4])


@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("call", ["softmax(a)", "layer_norm(a)", "rms_norm(a, eps=1e-5)"])
def test_softmax_accumulator(dtype: Any, call: str) -> None:
    a = normal(dtype, 3, 1000)
    wide = value(call, a=a.astype(F32))
    for executor, result in value(call, a=a).items():
        # What f32 gives, rounded: up to what f32 itself leaves open, half a unit of the dtype.
        check_close(result, as_exact(wide[executor]), Bound(ulps=0.51), (), executor)


@EVERY_FLOAT
def test_norm_constant(dtype: Any) -> None:
    expect(value("layer_norm(a)", a=np.full((2, 64), 3, dtype)), np.zeros((2, 64)))


@EVERY_FLOAT
def test_norm_biased(dtype: Any) -> None:
    a = np.array([[1, -1], [2, -2]], dtype)
    found = value("layer_norm(a, eps=0.0)", a=a)
    for executor, result in found.items():
        wanted = np.array([[1, -1], [1, -1]], np.longdouble)
        check_close(result, wanted, Bound(ulps=2), (), executor)


@EVERY_FLOAT
def test_norm_eps(dtype: Any) -> None:
    epsilon = float(ml_dtypes.finfo(dtype).eps)
    a = np.full((1, 8), np.sqrt(epsilon), dtype)
    exact = as_exact(a)
    truth = exact / np.sqrt(np.mean(exact * exact) + np.longdouble(epsilon))
    for executor, result in value("rms_norm(a)", a=a).items():
        check_close(result, truth, Bound(ulps=4), (), executor)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int64, np.uint8, np.bool_])
def test_size_zero(dtype: Any) -> None:
    for shape in ((0,), (3, 0), (0, 5)):
        a = np.zeros(shape, dtype)
        for result in value("where(a == a, a, a)", a=a).values():
            assert (result.shape, result.dtype) == (shape, np.dtype(dtype))
    for result in value("transpose(a)", a=np.zeros((3, 0), dtype)).values():
        assert result.shape == (0, 3)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 17, 31, 127, 129])
def test_size_any(size: int) -> None:
    a = normal(F32, size, size + 2)
    text = "kernel k(input a: tensor) { return a + 1.0, a @ transpose(a), reduce_max(a, dim=0); }"
    wanted = (a + F32(1), a @ a.T, a.max(axis=0))
    for executor, found in run_everywhere(text, a).items():
        for result, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4, err_msg=executor)


@EVERY_FLOAT
@pytest.mark.parametrize("layout", ["strided", "negative", "transposed", "broadcast"])
def test_size_layout(layout: str, dtype: Any) -> None:
    a = normal(dtype, 7, 9)
    here = np.asfortranarray(a) if layout == "transposed" else place(a, layout)
    text = "kernel k(input a: tensor) { return exp(a) * a, reduce_max(a, dim=1), transpose(a); }"
    contiguous = run_everywhere(text, np.ascontiguousarray(here))
    for executor, found in run_everywhere(text, here).items():
        for result, want in zip(found, contiguous[executor], strict=True):
            check_same(result, want, executor)
    for executor, (alone, *_) in run_everywhere(text, here[3:4, 5:6]).items():
        check_same(alone, contiguous[executor][0][3:4, 5:6], executor)


@EVERY_FLOAT
@pytest.mark.parametrize("layout", ["strided", "negative", "transposed"])
def test_size_sums(dtype: Any, layout: str) -> None:
    a, b, v = normal(dtype, 17, 127), normal(dtype, 127, 33, seed=2), normal(dtype, 127, seed=3)
    x, y, z = (as_exact(each) for each in (a, b, v))
    placed = [np.asfortranarray(e) if layout == "transposed" else place(e, layout) for e in (a, b)]
    text = """kernel k(input a: tensor, input b: tensor, input v: tensor) {
        return reduce_sum(a, dim=1), reduce_sum(a, dim=0), a @ b, a @ v, v @ b;
    }"""
    truths = (x.sum(axis=1), x.sum(axis=0), x @ y, x @ z, z @ y)
    size_x, size_y, size_z = (np.abs(each) for each in (x, y, z))
    sizes = (
        *(size_x.sum(axis=1), size_x.sum(axis=0)),
        *(size_x @ size_y, size_x @ size_z, size_z @ size_y),
    )
    for executor, found in run_everywhere(text, *placed, v).items():
        for result, truth, size in zip(found, truths, sizes, strict=True):
            bound = Bound(ulps=1, terms=127, scale=lambda a, size=size: size)
            check_close(result, truth, bound, (a,), executor)


def test_target_tpu() -> None:
    kernel = wia.compile("kernel k(input a: tensor, input b: tensor) { return a @ b; }").k
    a, b = normal(F32, 16, 128), normal(F32, 128, 8, seed=2)
    found = np.asarray(kernel.to("tpu:spec")(a, b), F64)
    x, y = (each.astype(BF16).astype(F64) for each in (a, b))
    assert np.all(np.abs(found - x @ y) <= 128 * 2.0**-23 * (np.abs(x) @ np.abs(y)))
    assert np.max(np.abs(found - a.astype(F64) @ b.astype(F64))) > 1e-3
