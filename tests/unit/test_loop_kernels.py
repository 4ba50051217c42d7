"""The kernels that people write with loops, on the CPU, on the interpreter and by meaning."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from loop_kernels import (
    CALLS,
    LOCAL,
    MATMUL,
    RANDOM,
    STENCIL,
    SUM,
    SUM4,
    TILED,
    UNROLLED,
    VECTOR_ADD,
    floats,
)
from loop_running import kernel_of, run_all

SIZES = [0, 1, 3, 17, 127, 1000]


@pytest.mark.parametrize("size", SIZES)
def test_vector_add(size: int) -> None:
    a, b = floats(size), floats(size)
    (c,) = run_all(VECTOR_ADD, a, b)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize(
    "dtype", ["f8", "f4", "f2", ml_dtypes.bfloat16, "i8", "i4", "i2", "i1", "u1"], ids=str
)
def test_vector_add_of_every_dtype(dtype: Any) -> None:
    a = (RANDOM.standard_normal(17) * 100).astype(dtype)
    b = (RANDOM.standard_normal(17) * 100).astype(dtype)
    run_all(VECTOR_ADD, a, b)


def test_special_values() -> None:
    a = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38], np.float32)
    run_all(VECTOR_ADD, a, a[::-1])


@pytest.mark.parametrize("step", [2, -1, -3])
def test_strided_inputs(step: int) -> None:
    a, b = floats(200)[::step], floats(200)[::step]
    (c,) = run_all(VECTOR_ADD, a, b)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("size", [0, 4, 128, 1000])
def test_unrolled_add(size: int) -> None:
    a, b = floats(size), floats(size)
    (c,) = run_all(UNROLLED, a, b)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("text", [MATMUL, TILED])
@pytest.mark.parametrize("shape", [(0, 3, 2), (1, 1, 1), (3, 0, 4), (17, 13, 9), (16, 8, 24)])
def test_matmul(text: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = floats(m, k), floats(k, n)
    (c,) = run_all(text, a, b)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["f8", "f2", ml_dtypes.bfloat16, "i4", "u1"], ids=str)
def test_matmul_rounds_each_op_once(dtype: Any) -> None:
    a = (RANDOM.standard_normal((5, 7)) * 4).astype(dtype)
    b = (RANDOM.standard_normal((7, 3)) * 4).astype(dtype)
    (c,) = run_all(MATMUL, a, b)
    plain = run_all(TILED, a, b)[0]
    np.testing.assert_array_equal(c.astype("f8"), plain.astype("f8"))


@pytest.mark.parametrize("shape", [(8, 5, 4), (9, 3, 7), (1, 2, 3)])
def test_local_tensors(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = floats(m, k), floats(k, n)
    (c,) = run_all(LOCAL, a, b)
    np.testing.assert_array_equal(c, run_all(MATMUL, a, b)[0])
    loops = kernel_of(LOCAL).build(a, b).stage("loops").text
    assert "tile.check" not in loops


@pytest.mark.parametrize("size", SIZES)
def test_sum_in_order(size: int) -> None:
    a = floats(size)
    (s,) = run_all(SUM, a)
    total = np.float32(0)
    for each in a:
        total += each
    assert s == total


@pytest.mark.parametrize("size", [0, 4, 1000])
def test_sum_with_four_accumulators(size: int) -> None:
    (s,) = run_all(SUM4, floats(size))
    assert s.shape == ()


def test_histogram() -> None:
    text = """
    kernel histogram(input A: tensor<N, u8>, output H: tensor<256, i32>) {
        for i in 0..N { H[A[i]] += 1; }
    }"""
    a = RANDOM.integers(0, 256, 1000).astype(np.uint8)
    (h,) = run_all(text, a)
    np.testing.assert_array_equal(h, np.bincount(a, minlength=256))
    assert "tile.check" not in kernel_of(text).build(a).stage("loops").text


def test_collatz() -> None:
    text = """
    kernel collatz(input A: tensor<N, i64>, output C: tensor<N, i32>) {
        for i in 0..N {
            let n = A[i];
            let count = 0;
            while (n > 1) {
                n = n % 2 == 0 ? n // 2 : 3 * n + 1;
                count += 1;
            }
            C[i] = count;
        }
    }"""
    (c,) = run_all(text, np.arange(1, 30))
    assert list(c[:9]) == [0, 1, 7, 2, 5, 8, 16, 3, 19]
    assert c.dtype == np.int32


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (17, 3), (0, 5)])
def test_stencil_with_guards(shape: tuple[int, int]) -> None:
    a = floats(*shape)
    run_all(STENCIL, a)
    assert "tile.check" not in kernel_of(STENCIL).build(a).stage("loops").text


def test_triangular_loops() -> None:
    text = """
    kernel lower(input A: tensor<N, N, f32>, output L: tensor<N, N, f32>,
                 output D: tensor<N, f32>) {
        for i in 0..N {
            for j in 0..i + 1 { L[i, j] = A[i, j] - A[i - j, 0]; }
            for j in i..N { D[j] += A[j, i] * A[j - i, N - 1 - i]; }
        }
    }"""
    a = floats(17, 17)
    lower, _ = run_all(text, a)
    assert not np.triu(lower, 1).any()
    assert "tile.check" not in kernel_of(text).build(a).stage("loops").text


@pytest.mark.parametrize("size", SIZES)
def test_prefix_sum_in_place(size: int) -> None:
    text = """
    kernel prefix(inout A: tensor<N, f32>) {
        for i in 1..N { A[i] = A[i - 1] + A[i]; }
    }"""
    a = floats(size)
    before = a.copy()
    (out,) = run_all(text, a)
    total, wanted = np.float32(0), []
    for each in before:
        total = np.float32(total + each) if wanted else each
        wanted.append(total)
    np.testing.assert_array_equal(out, np.asarray(wanted, np.float32))


def test_bools_and_branches() -> None:
    text = """
    kernel count(input A: tensor<N, bool>, input B: tensor<N, i8>, output C: tensor<N, bool>,
                 output n: i64) {
        let found = 0;
        for i in 0..N {
            if (A[i] && !(B[i] == 0)) { found += 1; C[i] = true; } else { C[i] = B[i] < 0; }
        }
        n = found;
    }"""
    a = RANDOM.integers(0, 2, 127).astype(np.bool_)
    b = RANDOM.integers(-2, 3, 127).astype(np.int8)
    c, n = run_all(text, a, b)
    assert n == np.count_nonzero(a & (b != 0))
    np.testing.assert_array_equal(c, np.where(a & (b != 0), True, b < 0))


def test_functions_and_casts() -> None:
    text = """
    kernel activate(input A: tensor<N, f16>, input S: tensor<N, i32>, output C: tensor<N, f32>) {
        for i in 0..N {
            let x = cast(A[i], f32) * cast(S[i], f32);
            C[i] = relu(x) + sqrt(abs(x)) + max(x, 1.5) - clamp(x, min=0.0, max=2.0);
        }
    }"""
    run_all(text, floats(127, dtype=np.float16), np.arange(127, dtype=np.int32))


def test_exponentials() -> None:
    text = """
    kernel soft(input A: tensor<M, N, f32>, output C: tensor<M, N, f32>) {
        for i in 0..M {
            let top = A[i, 0];
            for j in 1..N { top = max(top, A[i, j]); }
            let sum = 0.0;
            for j in 0..N { sum += exp(A[i, j] - top); }
            for j in 0..N { C[i, j] = exp(A[i, j] - top) / sum; }
        }
    }"""
    a = floats(5, 17)
    (c,) = run_all(text, a, exact=False)
    np.testing.assert_allclose(c.sum(1), 1, rtol=1e-5)


def test_swaps_and_several_names() -> None:
    text = """
    kernel fibonacci(input n: i64, output F: tensor<90, i64>) {
        let a: i64 = 0;
        let b: i64 = 1;
        for i in 0..90 {
            if (i < n) { F[i] = a; }
            a, b = b, a + b;
        }
    }"""
    (f,) = run_all(text, 80)
    assert list(f[:8]) == [0, 1, 1, 2, 3, 5, 8, 13] and f[79] == 14472334024676221 and not f[80]


def test_kernels_of_both_sorts_call_each_other() -> None:
    a = floats(17, 9)
    (c,) = run_all(CALLS, a)
    sums = np.zeros(17, np.float32)
    for column in range(9):
        sums += np.maximum(a[:, column], 0)
    wanted = (a - (sums * np.float32(0.5))[:, None]) * np.float32(2)
    wanted[:, 0] += 1
    np.testing.assert_array_equal(c, wanted)


def test_outputs_that_are_not_written_everywhere_are_zero_there() -> None:
    text = """
    kernel even(input A: tensor<N, f32>, output C: tensor<N, f32>) {
        for i in 0..N step 2 { C[i] = A[i]; }
    }"""
    a = floats(17)
    (c,) = run_all(text, a)
    np.testing.assert_array_equal(c[1::2], 0)
    np.testing.assert_array_equal(c[::2], a[::2])
