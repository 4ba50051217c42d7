"""Texts of kernels with loops over elements, and numbers for them."""

from typing import Any

import numpy as np
from loop_running import Array

RANDOM = np.random.default_rng(5)

VECTOR_ADD = """
kernel vector_add(input A: tensor<N>, input B: tensor<N>, output C: tensor) {
    for i in 0..N { C[i] = A[i] + B[i]; }
}"""

UNROLLED = """
kernel unrolled(input a: tensor<N>, input b: tensor<N>, output c: tensor<N>) {
    for i in 0..N step 4 {
        c[i + 0] = a[i + 0] + b[i + 0];
        c[i + 1] = a[i + 1] + b[i + 1];
        c[i + 2] = a[i + 2] + b[i + 2];
        c[i + 3] = a[i + 3] + b[i + 3];
    }
}"""

MATMUL = """
kernel matmul(input A: tensor<M, K>, input B: tensor<K, N>, output C: tensor<M, N>) {
    for i in 0..M {
        for j in 0..N {
            let sum = 0;
            for k in 0..K {
                sum += A[i][k] * B[k][j];
            }
            C[i][j] = sum;
        }
    }
}"""

TILED = """
kernel tiled(input A: tensor<M, K>, input B: tensor<K, N>, output C: tensor<M, N>) {
    let TILE = 8;
    for ii in 0..M step TILE {
        for jj in 0..N step TILE {
            for i in ii..min(ii + TILE, M) {
                for j in jj..min(jj + TILE, N) {
                    let sum = 0;
                    for kk in 0..K step TILE {
                        for k in kk..min(kk + TILE, K) {
                            sum += A[i, k] * B[k, j];
                        }
                    }
                    C[i, j] = sum;
                }
            }
        }
    }
}"""

LOCAL = """
kernel blocked(input A: tensor<M, K, f32>, input B: tensor<K, N, f32>, output C: tensor<M, N>) {
    for ii in 0..M step 4 {
        for jj in 0..N step 4 {
            let acc: tensor<4, 4, f32> = 0;
            for k in 0..K {
                for i in ii..min(ii + 4, M) {
                    for j in jj..min(jj + 4, N) {
                        acc[i - ii, j - jj] += A[i, k] * B[k, j];
                    }
                }
            }
            for i in ii..min(ii + 4, M) {
                for j in jj..min(jj + 4, N) { C[i, j] = acc[i - ii, j - jj]; }
            }
        }
    }
}"""

SUM = """
kernel total(input array: tensor<N, f32>, output s: f32) {
    let sum = 0.0;
    for i in 0..N { sum += array[i]; }
    s = sum;
}"""

SUM4 = """
kernel total4(input array: tensor<N, f32>, output s: f32) {
    let sum0 = 0.0;
    let sum1 = 0.0;
    let sum2 = 0.0;
    let sum3 = 0.0;
    for i in 0..N step 4 {
        sum0 += array[i + 0];
        sum1 += array[i + 1];
        sum2 += array[i + 2];
        sum3 += array[i + 3];
    }
    s = sum0 + sum1 + sum2 + sum3;
}"""

STENCIL = """
kernel blur(input A: tensor<H, W, f32>, output B: tensor<H, W, f32>) {
    for i in 0..H {
        for j in 0..W {
            let sum = A[i, j];
            let count = 1.0;
            if (i > 0) { sum += A[i - 1, j]; count += 1.0; }
            if (i + 1 < H) { sum += A[i + 1, j]; count += 1.0; }
            if (j > 0 && j < W) { sum += A[i, j - 1]; count += 1.0; }
            if (!(j >= W - 1)) { sum += A[i, j + 1]; count += 1.0; }
            B[i, j] = sum / count;
        }
    }
}"""

CALLS = """
kernel row_sums(input A: tensor<M, N>, output s: tensor<M>) {
    for i in 0..M {
        let sum = 0;
        for j in 0..N { sum += A[i, j]; }
        s[i] = sum;
    }
}
kernel centred(input A: tensor<M, N, f32>, output C: tensor<M, N, f32>) {
    let sums = row_sums(relu(A));
    let halves = sums * 0.5;
    for i in 0..M { for j in 0..N { C[i, j] = A[i, j] - halves[i]; } }
    C = C * 2.0;
    for i in 0..M { C[i, 0] += 1.0; }
}"""


def floats(*shape: int, dtype: Any = np.float32) -> Array:
    """Normally distributed numbers."""
    return RANDOM.standard_normal(shape).astype(dtype)
