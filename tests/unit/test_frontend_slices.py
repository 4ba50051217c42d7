"""Parts of tensors: what NumPy reads in the same brackets."""

from __future__ import annotations

import numpy as np
import pytest
import wia_compiler as wia

A = np.arange(4 * 5 * 6, dtype=np.float32).reshape(4, 5, 6)


@pytest.mark.parametrize(
    "part",
    [
        "A[0:2]",
        "A[1:3, :]",
        "A[:, ::2, 1:]",
        "A[-1]",
        "A[-2:, -3:-1]",
        "A[0, :, 2]",
        "A[3:0:-1]",
        "A[::-1, :, ::-2]",
        "A[2, 3]",
        "A[1, 2, 3]",
        "A[:, -1:]",
        "A[5:2]",
        "A[0:100]",
        "(A + A)[0:2, 1]",
        "A[1][2]",
        "A[0:2][1:, 0]",
    ],
)
def test_parts_are_numpy_s(part: str) -> None:
    kernel = wia.compile(f"kernel k(input A: tensor) {{ return {part}; }}").k
    expected = eval(part, {"A": A})
    np.testing.assert_array_equal(wia.reference(kernel, A), expected)
    np.testing.assert_array_equal(kernel(A), expected)
    strided = np.asfortranarray(A)
    np.testing.assert_array_equal(kernel(strided), expected)


@pytest.mark.parametrize("place", [0, 3, 1])
def test_a_place_may_be_computed(place: int) -> None:
    text = "kernel k(input A: tensor, i: i64) { j = i + 0; return A[j, :, 1:3], A[0, :, j]; }"
    rows, column = wia.compile(text).k(A, place)
    np.testing.assert_array_equal(rows, A[place, :, 1:3])
    np.testing.assert_array_equal(column, A[0, :, place])


def test_a_step_of_a_loop_takes_a_row() -> None:
    text = """kernel scan(input X: tensor<T, N, f32>, output h: tensor<N, f32>) {
        h = X[0, :] * 0.0;
        for t in 0..T { h = tanh(h * 0.5 + X[t, :]); }
    }"""
    x = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    h = np.zeros(3, np.float32)
    for row in x:
        h = np.tanh(h * np.float32(0.5) + row)
    np.testing.assert_allclose(wia.compile(text).scan(x), h, rtol=1e-5)


def test_one_element_at_a_computed_place() -> None:
    text = (
        "kernel k(input A: tensor<M, N, f32>, i: i64, output y: tensor) { y = A[0:2] * A[i, i]; }"
    )
    x = A[0]
    np.testing.assert_array_equal(wia.compile(text).k(x, 2), x[0:2] * x[2, 2])


@pytest.mark.parametrize(
    "part", ["x[0:2, 1]", "x[i, :, 1]", "x[i, i]", "x[i]", "x[0][i]", "x[i, i, i]"]
)
def test_parts_in_the_ir_notation(part: str) -> None:
    line = part.replace("x", "%x").replace("i", "%i")
    text = f"func @f(%x: tensor, %i: i64) -> tensor {{\n%y = {line}\nreturn %y\n}}"
    np.testing.assert_array_equal(wia.compile(text).f(A, 2), eval(part, {"x": A, "i": 2}))


def test_the_size_of_a_slice_is_known_from_the_text() -> None:
    with pytest.raises(wia.CompileError, match="the bounds of a slice are constants"):
        wia.compile("kernel k(input A: tensor, n: i64) { return A[0:n]; }")


def test_a_place_outside_of_the_tensor_is_an_error() -> None:
    kernel = wia.compile("kernel k(input A: tensor) { return A[7]; }").k
    with pytest.raises(wia.CompileError):
        kernel(A)
