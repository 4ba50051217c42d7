"""Sums of an independent loop in the lanes of a vector: the same bits, and packed instructions."""

import numpy as np
import pytest
from loop_kernels import MATMUL, SUM, floats
from loop_running import kernel_of, run_all


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 64, 81, 100])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products_of_any_width(columns: int, dtype: str) -> None:
    a, b = floats(3, 5, dtype=dtype), floats(5, columns, dtype=dtype)
    b[2, columns // 2] = np.nan
    b[1, 0] = np.inf
    run_all(MATMUL, a, b)


def test_the_inner_loop_is_packed() -> None:
    build = kernel_of(MATMUL).build(floats(8, 8), floats(8, 128))
    code = build.assembly("x86")
    assert "mulps" in code and "addps" in code and "fmadd" not in code
    assert "mulss" not in code


OTHERS = {
    "columns that are not neighbours": """
        kernel k(input A: tensor<N, N, f32>, output C: tensor<N, f32>) {
            for j in 0..N { let s = 0.0; for k in 0..N { s += A[j, k]; } C[j] = s; }
        }""",
    "a branch inside": """
        kernel k(input A: tensor<N, N, f32>, output C: tensor<N, f32>) {
            for j in 0..N {
                let s = 0.0;
                for k in 0..N { if (A[k, j] > 0.0) { s += A[k, j]; } }
                C[j] = s;
            }
        }""",
    "an inner loop that depends on the outer": """
        kernel k(input A: tensor<N, N, f32>, output C: tensor<N, f32>) {
            for j in 0..N { let s = 0.0; for k in 0..j + 1 { s += A[k, j]; } C[j] = s; }
        }""",
    "two sums and a value of the row": """
        kernel k(input A: tensor<N, N, f32>, output C: tensor<N, f32>) {
            for j in 0..N {
                let s = 1.0;
                let t = 0.0;
                for k in 0..N { s = max(s, A[k, j] * A[k, 0]); t -= A[k, j] / 3.0; }
                C[j] = s + t * A[0, j];
            }
        }""",
    "the same element for all": """
        kernel k(input A: tensor<N, N, f32>, output C: tensor<N, f32>, output D: tensor<N, f32>) {
            for j in 0..N {
                let s = 0.0;
                for k in 0..N { s += A[k, k]; }
                C[j] = s;
                D[j] = cast(j, f32);
            }
        }""",
    "an array that is read and written": """
        kernel k(input A: tensor<N, N, f32>, inout C: tensor<N, f32>) {
            for j in 0..N {
                for k in 0..N { C[j] = C[j] * 0.5 + A[k, j]; }
                let s = C[j];
                for k in 0..N { s += A[k, j]; C[j] = s; }
            }
        }""",
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_other_loops_keep_their_bits(text: str) -> None:
    a = floats(37, 37)
    arrays = [a, floats(37)] if "inout" in text else [a]
    run_all(text, *arrays)


@pytest.mark.parametrize("step", [-1, 2])
def test_strided_arrays(step: int) -> None:
    run_all(MATMUL, floats(6, 10)[::step, ::step], floats(10, 200)[::step, ::step])


def test_a_lone_sum_stays_in_order() -> None:
    run_all(SUM, floats(100))
