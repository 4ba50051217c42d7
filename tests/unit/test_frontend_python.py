"""``@wia.kernel``: names of numpy and torch, sizes, roles, other kernels, where errors point to."""

from __future__ import annotations

import importlib.util
import math
import sys
import traceback
import types
from pathlib import Path

import numpy as np
import pytest
import wia_compiler as wia
from numpy import tanh as hyperbolic

# Annotations are types of the language, and names in them sizes.
# ruff: noqa: F722, F821, UP037, SIM108, SIM300

WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4)
PARAMETERS = (np.float32([1, 2, 3, 4]), 2.5)
STEPS = 3


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path / "cache"))


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


X = normal(2, 3)


def fake_torch() -> types.ModuleType:
    """Modules with torch's names: what counts is how they are called."""
    torch = types.ModuleType("torch")
    functional = types.ModuleType("torch.nn.functional")
    torch.nn = types.SimpleNamespace(functional=functional)
    torch.float16 = type("dtype", (), {"__str__": lambda self: "torch.float16"})()
    for module, names in (
        (torch, ("relu", "exp", "sum", "maximum", "max", "where", "cat", "transpose")),
        (functional, ("softmax", "gelu", "layer_norm", "dropout")),
    ):
        for name in names:
            setattr(module, name, types.SimpleNamespace(__module__=module.__name__, __name__=name))
    return torch


torch = fake_torch()
F = torch.nn.functional


def test_names_of_numpy_and_torch():
    @wia.kernel
    def f(x):
        a = np.exp(x).sum(axis=1, keepdims=True)
        b = torch.relu(x) + hyperbolic(x) * math.pi
        c = F.softmax(x, dim=-1) + F.gelu(x, approximate="tanh")
        d = np.concatenate([x, b], axis=0).reshape(-1)
        e = torch.transpose(x, 0, 1) @ x
        return a, b, c, d, e, abs(x), np.where(x > 0.0, x, 0.0), x.mean(), np.max(x, axis=0)

    found = f(X)
    softmax = np.exp(X) / np.exp(X).sum(axis=1, keepdims=True)
    gelu = 0.5 * X * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)))
    expected = [
        np.exp(X).sum(axis=1, keepdims=True),
        np.maximum(X, 0) + np.tanh(X) * np.float32(math.pi),
        softmax + gelu,
        np.concatenate([X, np.maximum(X, 0) + np.tanh(X) * np.float32(math.pi)]).reshape(-1),
        X.T @ X,
        abs(X),
        np.where(X > 0, X, 0),
        X.mean(),
        X.max(axis=0),
    ]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)
    for one, other in zip(wia.reference(f, X), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


def test_dtypes_and_casts():
    @wia.kernel
    def f(x: "tensor<N, f32>", n: np.int32, on: bool):
        same = x if on else -x
        return x.astype(np.float16).half(), np.float64(x), x.to(torch.float16), float(n), same

    found = f(np.float32([1.5, 2.5]), 3, False)
    assert [each.dtype.name for each in found] == [
        "float16",
        "float64",
        "float16",
        "float64",
        "float32",
    ]
    assert found[3] == 3.0 and found[4][0] == -1.5


def test_numbers_arrays_and_tuples_around_the_function():
    factor = 2.0
    offsets = np.float32([10, 20, 30, 40])

    @wia.kernel
    def f(x):
        return (x @ WEIGHT) * factor + offsets + PARAMETERS[0]

    np.testing.assert_allclose(f(X), X @ WEIGHT * 2 + offsets + [1, 2, 3, 4], rtol=1e-6)
    offsets[:] = 0
    np.testing.assert_allclose(f(X), X @ WEIGHT * 2 + [1, 2, 3, 4], rtol=1e-6)
    assert "binding factor = 2.0" in f.build(X).cache.key.flags
    assert [p.name for p in f.signature.passed] == ["x"]


def test_kernels_call_kernels_of_any_language():
    in_cpp = wia.compile(
        "void halve(const float a[M][N], float b[M][N], int M, int N) { for (int i = 0; i < M; i++)"
        " for (int j = 0; j < N; j++) b[i][j] = a[i][j] / 2; }",
        language="c++",
    ).halve
    in_wia = wia.compile("kernel twice(input A: tensor, output B: tensor) { B = A + A; }").twice

    @wia.kernel
    def dense(x):
        return x @ WEIGHT

    @wia.kernel
    def f(x):
        return in_cpp(in_wia(dense(x))) - dense(x=x)

    np.testing.assert_array_equal(f(X), np.zeros((2, 4), np.float32))
    assert "dense" in f.ir() or "func.call @dense" in f.ir()


def test_the_key_tells_kernels_of_equal_text_apart():
    def build(operation):
        maximum = operation

        @wia.kernel
        def f(x, y):
            return maximum(x, y)

        return f

    larger, smaller = build(np.maximum), build(np.minimum)
    assert larger(X, -X).min() >= 0 >= smaller(X, -X).max()
    assert larger.build(X, X).cache.digest != smaller.build(X, X).cache.digest


def test_sizes():
    @wia.kernel
    def f(A, b: "tensor<K, f32>", C: "output tensor<M, f32>", w: "tensor<M, f32>"):
        rows, columns = A.shape
        for i in range(rows):
            total: "f32" = 0.0
            for k in range(len(b)):
                total += A[i, k] * b[k]
            C[i] = total / cast(columns, f32) + w[i] * 0.0

    A, b = normal(5, 7), normal(7)
    np.testing.assert_allclose(f(A, b, np.zeros(5, np.float32)), A @ b / 7, rtol=1e-5)


def test_arrays_of_its_own():
    @wia.kernel
    def f(a: "tensor<N, 4, f32>", c: "output tensor<N, f32>"):
        for i in range(a.shape[0]):
            acc = np.zeros((2, 2), np.float32)
            for j in range(3, -1, -1):
                acc[j // 2, j % 2] += a[i, j]
            ones = np.full(4, 2.0, dtype=np.float32)
            c[i] = acc[0, 0] * ones[STEPS] - acc[1, 1]

    a = normal(6, 4)
    np.testing.assert_allclose(f(a), a[:, 0] * 2 - a[:, 3], rtol=1e-6)


def test_whole_outputs_branches_and_loops_over_tensors():
    @wia.kernel
    def f(x: "tensor<M, N, f32>", y: wia.Output["M", "N", "f32"], z: wia.Inout):
        total = abs(x).sum()
        if total > 3.0:
            h = x * 2.0
        else:
            h = -x
        for _ in range(STEPS):
            h = h + 1.0
        y[:] = h
        z[...] = z + h

    for scale in (0.01, 100.0):
        z = np.ones((2, 3), np.float32)
        expected = (X * scale * 2 if scale > 1 else -X * np.float32(scale)) + 3
        y, given = f(X * np.float32(scale), z)
        np.testing.assert_allclose(y, expected, rtol=1e-6)
        assert given is z
        np.testing.assert_allclose(z, expected + 1, rtol=1e-6)


def test_minimum_of_python_and_of_numpy_treat_nan_as_they_do():
    @wia.kernel
    def f(a: "f32", b: "f32"):
        return min(a, b), max(a, b, 0.5), np.minimum(a, b)

    for a, b in ((math.nan, 1.0), (1.0, math.nan), (2.0, -1.0)):
        low, high, both = f(a, b)
        np.testing.assert_equal(float(low), min(a, b))
        np.testing.assert_equal(float(high), max(a, b, 0.5))
        np.testing.assert_equal(float(both), float(np.minimum(a, b)))


def test_functions_that_libraries_have_other_defaults_or_names_for():
    @wia.kernel
    def f(x):
        return np.var(x, axis=0), x.std(unbiased=False), np.arange(4) * 2 + 1, np.clip(x, -1.0, 1.0)

    variance, deviation, counted, clipped = f(X)
    np.testing.assert_allclose(variance, np.var(X, axis=0), rtol=1e-6)
    np.testing.assert_allclose(deviation, np.std(X), rtol=1e-6)
    np.testing.assert_array_equal(counted, np.arange(4) * 2 + 1)
    np.testing.assert_array_equal(clipped, np.clip(X, -1, 1))
    with pytest.raises(wia.CompileError, match="arange with a start") as caught:

        @wia.kernel
        def g():
            return np.arange(1, 4)

    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [Path(frame.filename).name for frame in frames] == [
        "test_frontend_python.py",
        "python_kernel.py",
    ]


def test_infinity_and_nan():
    @wia.kernel
    def f(x: "tensor<N, f32>"):
        largest: "f32" = -math.inf
        for i in range(N):
            largest = max(largest, x[i])
        return largest, np.where(x > 0.0, x, np.nan)

    largest, kept = f(np.float32([-3, -1, 2]))
    assert largest == 2.0
    np.testing.assert_array_equal(kept, [np.nan, np.nan, 2])
    assert f(np.float32([]))[0] == -math.inf


def test_chained_comparisons_and_bits():
    @wia.kernel
    def f(x: "tensor<N, i32>"):
        return (0 < x) & (x < 3), 0 <= x <= 2, x // 2, x % 3, x << 1 | 1, not x[0] > 2

    x = np.int32([-4, 0, 1, 2, 3])
    found = f(x)
    np.testing.assert_array_equal(found[0], (0 < x) & (x < 3))
    np.testing.assert_array_equal(found[1], (0 <= x) & (x <= 2))
    for place, expected in ((2, x // 2), (3, x % 3), (4, x << 1 | 1), (5, True)):
        np.testing.assert_array_equal(found[place], expected)


def test_it_is_a_kernel_as_any_other():
    @wia.kernel
    def scale(x: "tensor<N, f32>", by: "f32" = 2.0):
        """Scales."""
        return x * by

    assert isinstance(scale, wia.Kernel) and scale.name == "scale"
    assert scale.__doc__ == "Scales." and scale.__module__ == __name__
    assert scale.source.startswith("def scale(") and "return x * by" in scale.source
    build = scale.build(wia.spec((8,), "f32"))
    span = build.stage("import").ops[-1].spans[0]
    assert build.trace.source.split("\n")[span.line - 1].strip() == "return x * by"
    assert build.trace.source_name == __file__
    np.testing.assert_array_equal(scale.to("cpu", debug=True)(np.float32([1, 2]), 3.0), [3, 6])


def test_errors_name_the_file_and_its_line(tmp_path):
    script = tmp_path / "model.py"
    script.write_text(
        "import wia_compiler as wia\n\n\n@wia.kernel\ndef f(x):\n    return x @ nothing\n"
    )
    spec = importlib.util.spec_from_file_location("model", script)
    assert spec is not None and spec.loader is not None
    with pytest.raises(wia.CompileError) as caught:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert f"--> {script}:6:16" in str(caught.value)


def test_errors_of_shapes_point_into_the_function_too():
    @wia.kernel
    def f(x, w):
        return x @ w

    with pytest.raises(wia.CompileError) as caught:
        f(X, X)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.source is not None and diagnostic.span is not None
    assert diagnostic.source.name == __file__
    assert diagnostic.source.line(diagnostic.span.line).strip() == "return x @ w"


def test_functions_without_source_are_told_so():
    scope: dict = {}
    exec("def f(x):\n    return x", scope)
    with pytest.raises(wia.CompileError, match="the source of 'f' is not available"):
        wia.kernel(scope["f"])
    with pytest.raises(wia.CompileError, match="write a function: def scale"):
        wia.kernel(lambda x: x)
    with pytest.raises(wia.ArgumentError, match="got a builtin_function_or_method"):
        wia.kernel(print)


def test_names_that_are_two_things_are_refused():
    def other():
        factor = 3.0

        @wia.kernel
        def inner(x):
            return x * factor

        return inner

    inner = other()
    factor = 2.0
    with pytest.raises(wia.CompileError, match="'factor' is one thing in outer and another"):

        @wia.kernel
        def outer(x):
            return inner(x) * factor


def test_importing_torch_is_never_needed():
    assert not isinstance(sys.modules.get("torch"), types.ModuleType)
    assert Path(__file__).exists()
