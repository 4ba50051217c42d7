"""Kernels with branches and loops over whole tensors: on the CPU, by the reference, verified."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import wia_compiler as wia

PROGRAMS: dict[str, tuple[str, Callable[..., Any]]] = {}


def program(text: str):
    """Note a kernel and the Python function that says what it means."""

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = (text, function)
        return function

    return note


@program(
    """kernel k(input a: tensor, input b: tensor, output y: tensor) {
        if (reduce_sum(a) > 0) { y = a + b; } else { y = a - b; } }"""
)
def either(a, b):
    return a + b if a.sum() > 0 else a - b


@program(
    """kernel k(input a: tensor, input b: tensor, output y: tensor) {
        y = a;
        if (reduce_sum(a) > 0) { y = y + b; if (reduce_sum(b) > 0) { y = y * b; } }
        else { if (reduce_sum(b) > 0) { y = -y; } }
    }"""
)
def nested(a, b):
    if a.sum() > 0:
        return (a + b) * b if b.sum() > 0 else a + b
    return -a if b.sum() > 0 else a


@program(
    """kernel k(input a: tensor, input b: tensor) {
        if (reduce_sum(a) > 0) { return a; }
        if (reduce_sum(b) > 0) { return b; }
        return a * b;
    }"""
)
def early_return(a, b):
    if a.sum() > 0:
        return a
    return b if b.sum() > 0 else a * b


@program(
    """kernel k(input a: tensor, input b: tensor, output y: tensor) {
        x = a; z = b;
        for i in 0..7 { t = x; x = z; z = t; }
        y = x * 2 + z;
    }"""
)
def swap(a, b):
    return b * 2 + a


@program(
    """kernel k(input a: tensor, input b: tensor, output y: tensor, output z: tensor) {
        y = a; z = b;
        for i in 0..5 { t = y; y = z; z = t + z; }
    }"""
)
def fibonacci_of_tensors(a, b):
    for _ in range(5):
        a, b = b, a + b
    return a, b


@program(
    """kernel k(input a: tensor, input b: tensor, output y: tensor) {
        x = a; z = b; w = a + b;
        for i in 0..4 { t = x; x = z; z = w; w = t; }
        y = x + 2 * z + 4 * w;
    }"""
)
def ring(a, b):
    x, z, w = a, b, a + b
    for _ in range(4):
        x, z, w = z, w, x
    return x + 2 * z + 4 * w


@program(
    """kernel k(input a: tensor, input b: tensor, output y: tensor) {
        y = a;
        while (reduce_max(abs(y)) > 0.5) { y = y * 0.75; }
        y = y + b;
    }"""
)
def shrink(a, b):
    y = a
    while y.size and np.abs(y).max() > 0.5:
        y = y * a.dtype.type(0.75)
    return y + b


@program(
    """kernel k(input a: tensor, input b: tensor, output y: tensor) {
        y = b;
        for i in 0..3 { for j in 0..i { y = y + a; } }
    }"""
)
def loops_in_loops(a, b):
    return b + a + a + a


@program(
    """kernel k(input a: tensor, input b: tensor, output y: tensor) {
        s = 0;
        y = a;
        for i in 0..6 step 2 { s = s + i; y = y + cast(i, DTYPE) * b; }
        y = y + cast(s, DTYPE);
    }"""
)
def loop_variable(a, b):
    return a + a.dtype.type(6) * b + a.dtype.type(6)


@program(
    """kernel choose(input x: tensor, input y: tensor) {
        if (reduce_sum(x) > reduce_sum(y)) { return x; } return y;
    }
    kernel k(input a: tensor, input b: tensor, output y: tensor) {
        m = choose(a, b);
        n = choose(-a, -b);
        y = choose(m * m, n);
    }"""
)
def calls(a, b):
    def choose(x, y):
        return x if x.sum() > y.sum() else y

    m, n = choose(a, b), choose(-a, -b)
    return choose(m * m, n)


@program(
    """kernel k(input a: tensor, input b: tensor, output y: tensor) {
        y = a;
        for i in 0..0 { y = y * b; }
    }"""
)
def no_iteration(a, b):
    return a


@program(
    """kernel k(input a: tensor, input b: tensor, output y: tensor, output z: tensor) {
        if (reduce_sum(a) > 0) { y = a; } else { y = b; }
        z = y;
    }"""
)
def one_value_twice(a, b):
    y = a if a.sum() > 0 else b
    return y, y


@program(
    """kernel k(input a: tensor, input b: tensor, output y: tensor) {
        c = 1.0;
        if (reduce_sum(a) > 0) { c = 2.0; }
        y = a * c + b;
    }"""
)
def number_on_both_ways(a, b):
    return a * a.dtype.type(2 if a.sum() > 0 else 1) + b


@program(
    """kernel k(input a: tensor, input b: tensor, output y: tensor, output steps: tensor) {
        y = a + b; n = 0; go = true;
        while (go && n < 20) {
            y = y - b; n = n + 1;
            if (n > 4) { go = reduce_sum(y) > 100; }
        }
        steps = n;
    }"""
)
def count(a, b):
    y, n, go = a + b, 0, True
    while go and n < 20:
        y, n = y - b, n + 1
        if n > 4:
            go = y.sum() > 100
    return y, np.array(n)


WITHOUT_MAXIMUM = [name for name in PROGRAMS if name != "shrink"]
"""Those that nothing without elements, and no whole number, leaves without an answer."""

ARRAYS = {
    "mixed": (lambda n: np.linspace(-1, 1, n), lambda n: np.linspace(2, -1, n)),
    "positive": (lambda n: np.full(n, 0.75), lambda n: np.linspace(0.1, 1, n)),
    "negative": (lambda n: np.full(n, -0.5), lambda n: np.full(n, -0.25)),
}


def check(name: str, a: np.ndarray, b: np.ndarray, dtype: str, *, verify: bool = False) -> None:
    """Compile and run a program, and verify it; compare with what it means."""
    text, means = PROGRAMS[name]
    kernel = wia.compile(text.replace("DTYPE", dtype))["k"]
    with np.errstate(all="ignore"):
        expected = means(a, b)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for way in (kernel, lambda *arrays: wia.reference(kernel, *arrays)):
        found = way(a, b)
        found = found if isinstance(found, tuple) else (found,)
        for each, want in zip(found, wanted, strict=True):
            assert each.shape == want.shape
            np.testing.assert_allclose(
                np.asarray(each, np.float64), np.asarray(want, np.float64), rtol=1e-5, atol=1e-6
            )
    if verify:
        build = kernel.build(a, b, verify=True)
        checked = [each for each in build.trace.decisions if each.kind == "verify"]
        assert {"canonicalize", "dce", "loops", "schedule", "x86"} <= {e.candidate for e in checked}


@pytest.mark.parametrize("arrays", ARRAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, arrays: str) -> None:
    first, second = ARRAYS[arrays]
    verify = arrays == "mixed"
    check(name, first(17).astype(np.float32), second(17).astype(np.float32), "f32", verify=verify)


@pytest.mark.parametrize("size", [0, 1, 1000])
@pytest.mark.parametrize("name", WITHOUT_MAXIMUM)
def test_sizes(name: str, size: int) -> None:
    a = np.linspace(-1, 1.5, size, dtype=np.float64)
    b = np.linspace(1, -2, size, dtype=np.float64)
    check(name, a, b, "f64", verify=size == 0)


@pytest.mark.parametrize("name", [n for n in WITHOUT_MAXIMUM if n != "number_on_both_ways"])
@pytest.mark.parametrize("dtype", ["i64", "i8"])
def test_integers(name: str, dtype: str) -> None:
    numpy = {"i64": np.int64, "i8": np.int8}[dtype]
    check(name, np.arange(-3, 4).astype(numpy), np.arange(4, -3, -1).astype(numpy), dtype)


@pytest.mark.parametrize("name", ["either", "swap", "early_return", "shrink"])
def test_strided_arrays(name: str) -> None:
    a = np.linspace(-1, 1, 60, dtype=np.float32)[::-3]
    b = np.linspace(-2, 1, 40, dtype=np.float32)[::2]
    check(name, a, b, "f32")
