"""Whatever the C++ or Python, the front ends give kernels or a ``CompileError``, nothing else."""

# Words in rows are read more easily than lists of them.
# ruff: noqa: SIM905
from __future__ import annotations

import itertools
import linecache
import textwrap

import numpy as np
import pytest
import wia_compiler as wia
from hypothesis import given, settings
from hypothesis import strategies as st

CPP = [
    """#define TILE 8
    float square(float x) { const float y = x * x; return y; }
    void f(const float A[M][N], const int* k, float C[M][N], float& sum, int M, int N) {
        float acc[2][2] = {{1, 2}, {3}}; sum = 0;
        for (int i = 0; i < M; i += 2) for (int j = N - 1; j >= 0; j--) {
            C[i][j] = A[i][j] > 0.5f && k[j] % 3 != -1
                ? std::min(A[i][j], 2.0f) : square(acc[0][1]);
            if (i / 2 == TILE) { sum += C[i][j] * 0.1; } else while (sum > 1e3) sum /= 2;
        }
    }""",
    "float s = 0, t; int i;\nfor (i = 0; i < N; ++i) { s += a[i] * b[i + 1]; c[i] = expf(s); }\n",
    "int g(int n) { int c = 0; while (n > 1) { n = n >> 1; c++; } return ~c & 0xff; }",
]
PYTHON = [
    """def f(x: "tensor<M, N, f32>", y: "output tensor<M, f32>", by: "f32" = 2.0):
        M2, N2 = x.shape
        for i in range(M2 - 1, -1, -1):
            s: "f32" = 0.0
            for j in range(0, N2, 2):
                if x[i, j] > by and j % 3 == 0 or not i < 2:
                    s += min(x[i, j], 1.0) * W[0]
                elif 0 < s < 3.5:
                    s -= x[i][j] if j else -by
            y[i] = s // 2.0 + np.exp(s)
    """,
    """def g(x, w):
        '''Text.'''
        h = np.maximum(x @ w.T + B, 0.0)
        total = h.sum(axis=-1, keepdims=True)
        while total.max() > 3.0:
            total = total * 0.5
        return h / total, x[0:1, :].reshape(-1), abs(x).astype(np.float16), np.where(x > 0, x, T[1])
    """,
]
CPP_WORDS = [
    *"int float double const bool auto void for while if else return i j k N a c".split(),
    *"( ) [ ] { } ; , . + - * / % & | ^ ~ ! < > <= == = += ++ -- && || ? : ::".split(),
    *"0 1 2.5f 1e9 0x 'c' #define #include std::min goto struct template sizeof new".split(),
    *"-> size_t unsigned __kernel threadIdx barrier() // /* */ 행".split(),
    *("\n", '"s"'),
]
PYTHON_WORDS = [
    *"x y i j W B T np ( ) [ ] { } : , . + - * / // % ** @ & | ^ ~ not and or".split(),
    *"in is < > == = += -> 0 1 2.5 's' None True lambda yield await if else elif".split(),
    *"for while return pass break def class import with try range(3) len(x)".split(),
    *"x.shape x.T np.exp np.dot .sum() *x **y f'' ... := global del 행".split(),
    "\n",
]
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 8)), min_size=1, max_size=4)
BOUNDED = settings(max_examples=150, deadline=None, derandomize=True)

W = np.ones(3, np.float32)
B = np.float32(1)
T = (1, 2.0)
COUNT = itertools.count()


def edited(text: str, edits: list[tuple[float, int]], words: list[str]) -> str:
    for place, length in edits:
        at = int(place * len(text))
        word = words[int(place * 1e6) % len(words)]
        text = text[:at] + word + text[at + length :]
    return text


def check_cpp(text: str) -> None:
    try:
        program = wia.compile(text, language="c++", bindings={"W": W, "k": 3})
    except wia.CompileError as error:
        check_places(error, text)
        return
    for kernel in program.values():
        kernel.unit.program.module.verify()


def check_python(text: str) -> None:
    name = f"<robust {next(COUNT)}>"
    scope = {"W": W, "B": B, "T": T, "np": np, "wia": wia, "__name__": "robust"}
    try:
        code = compile(text, name, "exec")
    except (SyntaxError, ValueError):
        return
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    try:
        exec(code, scope)
    except Exception:
        return  # the mutation is at fault before any function is a kernel
    functions = [each for each in scope.values() if getattr(each, "__module__", "") == "robust"]
    for function in functions:
        if type(function).__name__ != "function":
            continue
        try:
            kernel = wia.kernel(function)
        except wia.CompileError as error:
            check_places(error, text)
            continue
        kernel.unit.program.module.verify()


def check_places(error: wia.CompileError, text: str) -> None:
    lines = text.split("\n")
    assert error.diagnostics
    for diagnostic in error.diagnostics:
        assert diagnostic.message in str(error)
        if diagnostic.span is None or diagnostic.source is None:
            continue
        assert 1 <= diagnostic.span.line <= len(lines)
        assert 1 <= diagnostic.span.column <= len(lines[diagnostic.span.line - 1]) + 1


@pytest.mark.parametrize("text", CPP)
def test_the_cpp_that_is_mutated_is_whole(text):
    for kernel in wia.compile(text, language="c++").values():
        kernel.unit.program.module.verify()


@BOUNDED
@given(st.sampled_from(CPP), EDITS)
def test_mutated_cpp(text: str, edits: list[tuple[float, int]]) -> None:
    check_cpp(edited(text, edits, CPP_WORDS))


@BOUNDED
@given(st.lists(st.sampled_from(CPP_WORDS), max_size=40))
def test_words_of_cpp(words: list[str]) -> None:
    check_cpp(" ".join(words))
    check_cpp(f"void f(const float* a, float* c, int N) {{ {' '.join(words)} }}")


@BOUNDED
@given(st.binary(max_size=120))
def test_random_bytes_as_cpp(data: bytes) -> None:
    check_cpp(data.decode("utf-8", "replace"))
    check_cpp(data.decode("latin-1"))


@BOUNDED
@given(st.sampled_from(PYTHON), EDITS)
def test_mutated_python(text: str, edits: list[tuple[float, int]]) -> None:
    check_python(textwrap.dedent(edited(text, edits, PYTHON_WORDS)))


@BOUNDED
@given(st.lists(st.sampled_from(PYTHON_WORDS), max_size=12))
def test_words_of_python(words: list[str]) -> None:
    check_python(f"def f(x, y):\n    return {' '.join(words)}\n")
    check_python(f"def f(x: {' '.join(words[:3])}, y):\n    {' '.join(words)}\n")
