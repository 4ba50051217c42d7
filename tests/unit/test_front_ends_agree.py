"""Equal programs in the language, in C++ and in Python are equal IR."""

# Annotations are types of the language, and names in them sizes.
# ruff: noqa: F722, F821, UP037

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.frontend.import_dsl import import_program


def same(*kernels: wia.Kernel) -> None:
    texts = [kernel.ir() for kernel in kernels]
    for text in texts[1:]:
        assert text == texts[0]


def cpp(text: str, name: str) -> wia.Kernel:
    return wia.compile(text, language="c++")[name]


def dsl(text: str, name: str) -> wia.Kernel:
    return wia.compile(text)[name]


def test_vector_add():
    @wia.kernel
    def add(a: "tensor<N, f32>", b: "tensor<N, f32>", c: "output tensor<N, f32>"):
        for i in range(N):
            c[i] = a[i] + b[i]

    same(
        dsl(
            "kernel add(input a: tensor<N, f32>, input b: tensor<N, f32>, "
            "output c: tensor<N, f32>) { for i in 0..N { c[i] = a[i] + b[i]; } }",
            "add",
        ),
        cpp(
            "void add(const float* a, const float* b, float* c, int N) {"
            " for (int i = 0; i < N; i++) { c[i] = a[i] + b[i]; } }",
            "add",
        ),
        add,
    )


def test_vector_add_as_bare_statements():
    same(
        dsl(
            "kernel snippet(input a: tensor<N>, input b: tensor<N>, output c: tensor<N>)"
            " { for i in 0..N { c[i] = a[i] + b[i]; } }",
            "snippet",
        ),
        cpp("for (int i = 0; i < N; i++) {\n    c[i] = a[i] + b[i];\n}", "snippet"),
    )


def test_naive_matmul():
    @wia.kernel
    def matmul(A: "tensor<M, K, f32>", B: "tensor<K, N, f32>", C: "output tensor<M, N, f32>"):
        rows, depth = A.shape
        for i in range(rows):
            for j in range(B.shape[1]):
                sum: "f32" = 0.0
                for k in range(depth):
                    sum += A[i, k] * B[k, j]
                C[i, j] = sum

    same(
        dsl(
            """kernel matmul(
                input A: tensor<M, K, f32>, input B: tensor<K, N, f32>, output C: tensor<M, N, f32>
            ) {
                for i in 0..M { for j in 0..N {
                    let sum: f32 = 0.0;
                    for k in 0..K { sum += A[i, k] * B[k, j]; }
                    C[i, j] = sum;
                } }
            }""",
            "matmul",
        ),
        cpp(
            """void matmul(int M, int N, int K,
                           const float A[M][K], const float B[K][N], float C[M][N]) {
                for (int i = 0; i < M; i++) {
                    for (int j = 0; j < N; j++) {
                        float sum = 0;
                        for (int k = 0; k < K; k++) {
                            sum += A[i][k] * B[k][j];
                        }
                        C[i][j] = sum;
                    }
                }
            }""",
            "matmul",
        ),
        matmul,
    )


def test_tiled_matmul():
    @wia.kernel
    def tiled(A: "tensor<M, K, f32>", B: "tensor<K, N, f32>", C: "output tensor<M, N, f32>"):
        for ii in range(0, M, 32):
            for jj in range(0, N, 32):
                for i in range(ii, min(ii + 32, M)):
                    for j in range(jj, min(jj + 32, N)):
                        sum: "f32" = 0.0
                        for kk in range(0, K, 32):
                            for k in range(kk, min(kk + 32, K)):
                                sum += A[i, k] * B[k, j]
                        C[i, j] = sum

    same(
        dsl(
            """kernel tiled(
                input A: tensor<M, K, f32>, input B: tensor<K, N, f32>, output C: tensor<M, N, f32>
            ) {
                for ii in 0..M step 32 { for jj in 0..N step 32 {
                    for i in ii..min(ii + 32, M) { for j in jj..min(jj + 32, N) {
                        let sum: f32 = 0.0;
                        for kk in 0..K step 32 { for k in kk..min(kk + 32, K) {
                            sum += A[i, k] * B[k, j];
                        } }
                        C[i, j] = sum;
                    } }
                } }
            }""",
            "tiled",
        ),
        cpp(
            """#define TILE 32
            void tiled(const float A[M][K], const float B[K][N], float C[M][N],
                       int M, int N, int K) {
                for (int ii = 0; ii < M; ii += TILE) {
                    for (int jj = 0; jj < N; jj += TILE) {
                        for (int i = ii; i < min(ii + TILE, M); i++) {
                            for (int j = jj; j < min(jj + TILE, N); j++) {
                                float sum = 0;
                                for (int kk = 0; kk < K; kk += TILE) {
                                    for (int k = kk; k < min(kk + TILE, K); k++) {
                                        sum += A[i][k] * B[k][j];
                                    }
                                }
                                C[i][j] = sum;
                            }
                        }
                    }
                }
            }""",
            "tiled",
        ),
        tiled,
    )


def test_sums_with_one_and_with_four_accumulators():
    @wia.kernel
    def sums(array: "tensor<N, f32>"):
        sum: "f32" = 0.0
        for i in range(N):
            sum += array[i]
        sum0: "f32" = 0.0
        sum1: "f32" = 0.0
        for i in range(0, N, 2):
            sum0 += array[i + 0]
            sum1 += array[i + 1]
        return sum + (sum0 + sum1)

    same(
        dsl(
            """kernel sums(input array: tensor<N, f32>) {
                let sum: f32 = 0.0;
                for i in 0..N { sum += array[i]; }
                let sum0: f32 = 0.0;
                let sum1: f32 = 0.0;
                for i in 0..N step 2 { sum0 += array[i + 0]; sum1 += array[i + 1]; }
                return sum + (sum0 + sum1);
            }""",
            "sums",
        ),
        cpp(
            """float sums(const float* array, int N) {
                float sum = 0;
                for (int i = 0; i < N; i++) sum += array[i];
                float sum0 = 0, sum1 = 0;
                for (int i = 0; i < N; i += 2) {
                    sum0 += array[i + 0];
                    sum1 += array[i + 1];
                }
                return sum + (sum0 + sum1);
            }""",
            "sums",
        ),
        sums,
    )


def test_branches_and_while():
    @wia.kernel
    def halve(x: "tensor<N, f32>", y: "output tensor<N, f32>", limit: "f32"):
        for i in range(N):
            v: "f32" = x[i]
            n: "i32" = 0
            while v > limit and n < 10:
                v *= 0.5
                n += 1
            if n % 3 == 0:
                y[i] = v
            elif v < 0.0 or i == 2:
                y[i] = -v
            else:
                y[i] = v if v > 0.25 else limit

    same(
        dsl(
            """kernel halve(input x: tensor<N, f32>, output y: tensor<N, f32>, limit: f32) {
                for i in 0..N {
                    let v: f32 = x[i];
                    let n: i32 = 0;
                    while v > limit && n < 10 { v *= 0.5; n += 1; }
                    if n % 3 == 0 { y[i] = v; }
                    else if v < 0.0 || i == 2 { y[i] = -v; }
                    else { y[i] = v > 0.25 ? v : limit; }
                }
            }""",
            "halve",
        ),
        halve,
    )
    x = np.array([-3.0, 0.1, 0.7, 9.0, 1000.0, np.nan], np.float32)
    in_cpp = cpp(
        """void halve(const float* x, float* y, float limit, int N) {
            for (int i = 0; i < N; i++) {
                float v = x[i];
                int n = 0;
                while (v > limit && n < 10) { v *= 0.5f; n++; }
                if (n % 3 == 0) y[i] = v;
                else if (v < 0 || i == 2) y[i] = -v;
                else y[i] = v > 0.25f ? v : limit;
            }
        }""",
        "halve",
    )
    np.testing.assert_array_equal(wia.reference(in_cpp, x, 0.6), wia.reference(halve, x, 0.6))


def test_whole_tensors_in_the_language_and_in_python():
    @wia.kernel
    def layer(x: "tensor<M, K, f32>", w: "tensor<N, K, f32>", bias: "tensor<N, f32>"):
        h = x @ w.T + bias
        p = np.exp(h - h.max(axis=-1, keepdims=True))
        return np.maximum(p / p.sum(axis=1, keepdims=True), 0.5), h.mean(dim=0)

    same(
        dsl(
            """kernel layer(
                input x: tensor<M, K, f32>, input w: tensor<N, K, f32>, input bias: tensor<N, f32>
            ) {
                h = x @ transpose(w) + bias;
                p = exp(h - reduce_max(h, axis=-1, keepdims=true));
                return max(p / reduce_sum(p, axis=1, keepdims=true), 0.5), reduce_mean(h, dim=0);
            }""",
            "layer",
        ),
        layer,
    )


@pytest.mark.parametrize("size", [0, 1, 3, 17, 127])
def test_all_three_count_down_alike(size):
    @wia.kernel
    def reverse(a: "tensor<N, f32>", b: "inout tensor<N, f32>"):
        for i in range(N - 2, -1, -1):
            b[i] = b[i + 1] + a[i]

    in_cpp = cpp(
        "void reverse(const float a[N], float* b, int N) {"
        " for (int i = N - 2; i >= 0; i--) { b[i] = b[i + 1] + a[i]; } }",
        "reverse",
    )
    same(in_cpp, reverse)
    generator = np.random.default_rng(size)
    a = generator.standard_normal(size).astype(np.float32)
    expected = a.copy()
    for i in range(size - 2, -1, -1):
        expected[i] = expected[i + 1] + a[i]
    given = a.copy()
    np.testing.assert_array_equal(reverse(a, given), expected)
    np.testing.assert_array_equal(given, expected)
    np.testing.assert_array_equal(wia.reference(in_cpp, a, a), expected)


def test_one_importer_makes_all_of_them(monkeypatch):
    seen = []

    def recording(program, bindings=None):
        seen.append(program)
        return import_program(program, bindings)

    monkeypatch.setattr("wia_compiler.frontend.import_dsl.import_program", recording)

    @wia.kernel
    def double(x):
        return x * 2.0

    dsl("kernel double(x: tensor) { return x * 2.0; }", "double")
    cpp("float f(float x) { return x * 2; }", "f")
    assert len(seen) == 3
