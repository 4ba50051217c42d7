"""The C++ front end: the chapter's own texts on the CPU, roles and sizes, and what C++ means."""

from __future__ import annotations

import math

import numpy as np
import pytest
import wia_compiler as wia

NAIVE = """
// 타일링 전: 캐시 비효율적
for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
        float sum = 0;
        for (int k = 0; k < K; k++) {
            sum += A[i][k] * B[k][j];  // B 접근이 스트라이드됨
        }
        C[i][j] = sum;
    }
}
"""
TILED = """
// 타일링 후: 캐시 친화적
#define TILE 32
for (int ii = 0; ii < M; ii += TILE) {
    for (int jj = 0; jj < N; jj += TILE) {
        // 타일을 캐시로 로드
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
"""
ADD = """
// 언롤링 전
for (int i = 0; i < N; i++) {
    c[i] = a[i] + b[i];
}
"""
UNROLLED = """
// 4배 언롤링
for (int i = 0; i < N; i += 4) {
    c[i+0] = a[i+0] + b[i+0];  // 독립적 - 병렬 실행 가능
    c[i+1] = a[i+1] + b[i+1];
    c[i+2] = a[i+2] + b[i+2];
    c[i+3] = a[i+3] + b[i+3];
}
"""
SUM = """
// 나쁨: 긴 의존성 체인
float sum = 0;
for (int i = 0; i < N; i++) {
    sum += array[i];  // sum에 의존, 순차적
}
"""
SUM4 = """
// 좋음: 독립적 누적기
float sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
for (int i = 0; i < N; i += 4) {
    sum0 += array[i+0];  // 4개 누적기가 독립적
    sum1 += array[i+1];  // 병렬 실행 가능
    sum2 += array[i+2];
    sum3 += array[i+3];
}
float sum = sum0 + sum1 + sum2 + sum3;
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))


def snippet(text: str, **options) -> wia.Kernel:
    return wia.compile(text, language="c++", **options).snippet


def function(text: str) -> wia.Kernel:
    return list(wia.compile(text, language="c++").values())[-1]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def in_order(values: np.ndarray) -> np.float32:
    """The sum as one loop adds it: rounded to f32 after each addition."""
    total = np.float32(0)
    for value in values:
        total = np.float32(total + value)
    return total


@pytest.mark.parametrize("text", [NAIVE, TILED], ids=["naive", "tiled"])
@pytest.mark.parametrize("m, k, n", [(1, 1, 1), (3, 0, 5), (0, 4, 3), (17, 31, 23), (65, 33, 70)])
def test_the_chapters_matmuls(text, m, k, n):
    kernel = snippet(text)
    A, B = normal(m, k), normal(k, n)
    expected = np.zeros((m, n), np.float32)
    for depth in range(k):
        expected = expected + A[:, depth, None] * B[depth]
    np.testing.assert_array_equal(kernel(A, B), expected)
    np.testing.assert_array_equal(wia.reference(kernel, A, B), expected)
    assert str(kernel.signature) == (
        "snippet(input A: tensor<M, K>, input B: tensor<K, N>, output C: tensor<M, N>)"
        if text is NAIVE
        else str(kernel.signature)
    )


@pytest.mark.parametrize("text, sizes", [(ADD, [0, 1, 3, 17, 1000]), (UNROLLED, [0, 4, 16, 1000])])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_the_chapters_vector_adds(text, sizes, dtype):
    kernel = snippet(text)
    for size in sizes:
        a, b = (normal(size) * 100).astype(dtype), (normal(size + 1)[:size] * 100).astype(dtype)
        np.testing.assert_array_equal(kernel(a, b), a + b)


def test_what_unrolling_would_read_outside_of_the_array_is_refused():
    with pytest.raises(wia.CompileError, match="index"):
        snippet(UNROLLED)(normal(17), normal(17))


@pytest.mark.parametrize("text, sizes", [(SUM, [0, 1, 3, 127, 1000]), (SUM4, [0, 4, 128, 1000])])
def test_the_chapters_sums(text, sizes):
    kernel = snippet(text)
    assert [p.name for p in kernel.signature.parameters] == ["array", "sum"]
    for size in sizes:
        array = normal(size)
        if text is SUM:
            expected = in_order(array)
        else:
            expected = in_order([in_order(array[start::4]) for start in range(4)])
        assert kernel(array) == expected == wia.reference(kernel, array)


def test_strided_arrays():
    A, B = normal(40, 26)[::-2, ::3], normal(7, 9).T
    np.testing.assert_allclose(snippet(NAIVE)(A, B[:, ::-1]), A @ B[:, ::-1], rtol=1e-4, atol=1e-5)


ROLES = {
    "for (int i = 0; i < n; i++) c[i] = a[i];": "output",
    "for (int i = 0; i < n; i++) c[i] += a[i];": "inout",
    "for (int i = 0; i < n; i++) { c[i] = 0; c[i] += a[i]; }": "output",
    "for (int i = 0; i < n; i++) c[i] = 0; for (int i = 0; i < n; i++) c[i] += a[i];": "output",
    "for (int i = 1; i < n; i++) c[i] = 0; for (int i = 0; i < n; i++) c[i] += a[i];": "inout",
    "for (int i = 0; i < n; i++) if (a[i] > 0) c[i] = 0; "
    "for (int i = 0; i < n; i++) c[i] += a[i];": "inout",
    "c[0] = a[0]; for (int i = 1; i < n; i++) c[i] = c[i - 1] + a[i];": "inout",
    "int k = 0; for (int i = 0; i < n; i++) { c[k] = a[i]; k++; c[k - 1] = c[k]; }": "inout",
}


@pytest.mark.parametrize("body", ROLES)
def test_roles_of_arrays(body):
    kernel = function(f"void f(const float a[n], float c[n], int n) {{ {body} }}")
    assert [p.role for p in kernel.signature.parameters] == ["input", ROLES[body]]


def test_an_inout_is_updated_in_place():
    kernel = function(
        "void f(const float* a, float* c, int n) { for (int i = 0; i < n; i++) c[i] += a[i]; }"
    )
    a, c = normal(17), normal(17) + 1
    expected = c + a
    np.testing.assert_array_equal(kernel(a, c), expected)
    np.testing.assert_array_equal(c, expected)


SIZES = {
    "for (int i = 0; i < N; i++) c[i] = a[i];": "N",
    "for (int i = 0; i <= N - 1; i++) c[i] = a[i];": "N",
    "for (int i = N - 1; i >= 0; i--) c[i] = a[i];": "N",
    "for (int t = 0; t < N; t += 8) for (int i = t; i < min(N, t + 8); i++) c[i] = a[i];": "N",
    "for (int i = 0; N > i; i = i + 1) { c[i] = a[i]; }": "N",
    "int i; for (i = 0; i < N; ++i) c[i] = a[i];": "N",
    "for (int i = 1; i < N; i++) c[i - 1] = a[i]; c[N - 1] = a[0];": "N",
}


@pytest.mark.parametrize("text", SIZES)
def test_sizes_follow_from_loops(text):
    kernel = snippet(text)
    assert {str(p.type) for p in kernel.signature.parameters} == {f"tensor<{SIZES[text]}>"}
    a = normal(19)
    np.testing.assert_array_equal(np.sort(kernel(a)), np.sort(a))


# What C++ computes, by its rules: [expr.mul], [conv.prom], [expr.arith.conv], [alg.min.max].
MEANINGS = [
    ("int a, int b", "a / b", (-7, 2), -3),
    ("int a, int b", "a % b", (-7, 2), -1),
    ("int a, int b", "a % b", (7, -2), 1),
    ("int a", "a / -4", (7,), -1),
    ("int8_t a, int8_t b", "a * b", (100, 100), 10000),
    ("uint8_t a, uint8_t b", "a - b", (1, 2), -1),
    ("bool a, bool b", "a + b", (True, True), 2),
    ("int a", "a / 2 * 2.0f", (7,), 6.0),
    ("int a", "(int8_t)(a)", (300,), 44),
    ("float a", "(int)a", (-2.9,), -2),
    ("float a", "int(a) / 2", (-3.7,), -1),
    ("int a", "a << 2 | 1", (5,), 21),
    ("int a", "a >> 1", (-5,), -3),
    ("int a", "~a & 0xff", (5,), 250),
    ("int a", "a && 3", (2,), True),
    ("float a", "!a", (0.0,), True),
    ("int a", "a ? 1 : 0", (-5,), 1),
    ("float a", "010 + 0x10 + 0b11 + a", (0.0,), 27.0),
    ("float a, float b", "std::min(a, b)", (np.nan, 1.0), np.nan),
    ("float a, float b", "std::min(a, b)", (1.0, np.nan), 1.0),
    ("float a, float b", "std::max(a, b)", (-0.0, 0.0), -0.0),
    ("float a, float b", "fminf(a, b)", (np.nan, 1.0), 1.0),
    ("float a, float b", "fmaxf(a, b)", (1.0, np.nan), 1.0),
    ("float a, float b", "fmodf(a, b)", (-5.5, 2.0), -1.5),
    ("int a, int b", "std::min(a, b)", (3, -4), -4),
    ("float a", "isnan(a)", (np.nan,), True),
    ("float a", "fabsf(a) + std::abs(-2)", (-1.5,), 3.5),
    ("float a", "rintf(a)", (2.5,), 2.0),
    ("double a", "a * 0.1f", (1.0,), float(np.float32(0.1))),
    ("float a", "a * 0.1", (3.0,), 3.0 * 0.1),
    ("float a", "(float)(a * 0.1)", (3.0,), np.float32(3.0 * 0.1)),
    ("float a", "a < 1 == true", (0.5,), True),
    ("int64_t a", "a + 1", (2**40,), 2**40 + 1),
    ("int a, float b", "a > 2 ? a : b", (3, 0.5), 3.0),
    ("float a", "INT_MAX % 1000 + a", (0.0,), 647.0),
    ("float a", "std::max(-INFINITY, a)", (-1e38,), np.float32(-1e38)),
    ("float a", "a > 0 ? NAN : INFINITY", (0.0,), math.inf),
]


@pytest.mark.parametrize("parameters, expression, values, expected", MEANINGS)
def test_what_cpp_means(parameters, expression, values, expected):
    result = {bool: "bool", int: "int64_t", float: "double"}.get(type(expected), "float")
    kernel = function(f"{result} f({parameters}) {{ return {expression}; }}")
    for found in (kernel(*values), wia.reference(kernel, *values)):
        np.testing.assert_array_equal(found, expected)
        assert np.signbit(found) == np.signbit(expected) or expected != expected


def test_one_operation_in_double_is_one_in_float_where_that_is_the_same():
    exact = function("float f(float a) { return a * 0.5; }").ir()
    rounded = function("float f(float a) { return a * 0.1; }").ir()
    assert "cast" not in exact and rounded.count("wia.cast") == 2


def test_local_arrays_lists_and_hidden_names():
    kernel = function(
        """void f(const float a[N][4], float c[N], int N) {
            float w[2][2] = {{1, 2}, {3}};
            const float half = 0.5f;
            for (int i = 0; i < N; i++) {
                float acc[4] = {0}, i_1 = 1;
                for (int j = 3; j >= 0; j -= 1) acc[j] = a[i][j] * w[j / 2][j % 2];
                { float half = 2; acc[0] *= half; }
                float total = 0;
                for (int i = 0; i < 4; i++) total += acc[i];
                c[i] = total * half + i_1;
            }
        }"""
    )
    a = normal(5, 4)
    expected = (a * np.float32([2, 2, 3, 0])).sum(axis=1) * 0.5 + 1
    np.testing.assert_allclose(kernel(a), expected, rtol=1e-6)


def test_loops_that_move_their_own_goal_are_while_loops():
    kernel = function(
        """int f(const int* a, int n) {
            int count = 0, limit = n;
            for (int i = 0; i < limit; i += 2) { if (a[i] < 0) limit -= 1; count++; }
            for (int step = 1; step < n; step *= 2) count += 100;
            return count;
        }"""
    )
    a = np.array([1, 5, -1, 5, 2, 5, -3, 5], np.int32)
    assert kernel(a, 8) == 4 + 300


def test_functions_call_functions():
    program = wia.compile(
        """
        float square(float x) { const float y = x * x; return y; }
        void scale(const float* a, float* b, float by, int n) {
            for (int i = 0; i < n; i++) b[i] = square(a[i]) * by;
        }
        void both(const float a[n], float c[n], float d[n], int n) {
            scale(a, d, 2, n);
            for (int i = 0; i < n; i++) c[i] = d[i] + square(i);
        }
        """,
        language="c++",
    )
    a = normal(6)
    c, d = program.both(a)
    np.testing.assert_array_equal(d, a * a * 2)
    np.testing.assert_array_equal(c, d + np.arange(6, dtype=np.float32) ** 2)


def test_numbers_that_come_in_by_value_can_be_set():
    kernel = function("int f(int n) { int c = 0; while (n > 1) { n = n / 2; c += 1; } return c; }")
    assert kernel(1000) == 9


def test_results_by_reference_and_defaults():
    kernel = function(
        """void f(const float* a, float& sum, float *largest, float by = 2.0f, int n) {
            sum = 0; *largest = -FLT_MAX;
            for (int i = 0; i < n; i++) { sum += a[i] * by; *largest = fmaxf(*largest, a[i]); }
        }"""
    )
    a = np.float32([1, 5, -3])
    assert kernel(a) == (6.0, 5.0) and kernel(a, 1.0) == (3.0, 5.0)


def test_wide_characters_do_not_move_carets():
    with pytest.raises(wia.CompileError) as caught:
        wia.compile("/* 행렬 곱셈 */ float x = compute(1);", language="c++")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None and diagnostic.span.column == 23


@pytest.mark.parametrize("text", ["", "\n", ";", "}", "void f(", "int", "#define", "((((", "\0"])
def test_broken_text_is_reported(text):
    with pytest.raises(wia.CompileError):
        wia.compile(text, language="c++")


def test_deep_nesting_is_reported():
    deep = "(" * 500 + "1" + ")" * 500
    with pytest.raises(wia.CompileError, match="nested deeper"):
        wia.compile(f"float f(float x) {{ return x + {deep}; }}", language="c++")
    long = " + ".join(["x"] * 2000)
    assert function(f"float f(float x) {{ return {long}; }}")(1.0) == 2000
