"""Convolutions on the CPU: every shape, stride, dilation and group against sums in float64."""

import itertools

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.backends.cpu.host import this_host

LANES = this_host().vector_bytes // 4


def padded(x: np.ndarray, padding: int) -> np.ndarray:
    return np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))


def convolved(
    x: np.ndarray, w: np.ndarray, stride: int, padding: int, dilation: int, groups: int
) -> np.ndarray:
    """The convolution in float64, one tap after another."""
    x = padded(x, padding)
    filters, own, rows, columns = w.shape
    height = (x.shape[2] - dilation * (rows - 1) - 1) // stride + 1
    width = (x.shape[3] - dilation * (columns - 1) - 1) // stride + 1
    y = np.zeros((len(x), filters, height, width))
    for r, s in itertools.product(range(rows), range(columns)):
        top, left = r * dilation, s * dilation
        taken = x[
            :,
            :,
            top : top + (height - 1) * stride + 1 : stride,
            left : left + (width - 1) * stride + 1 : stride,
        ]
        for g in range(groups):
            part = slice(g * filters // groups, (g + 1) * filters // groups)
            channels = taken[:, g * own : (g + 1) * own]
            y[:, part] += np.einsum("nchw,fc->nfhw", channels, w[part, :, r, s].astype(np.float64))
    return y


CASES = {
    # name: shape of x, filters, kernel, stride, padding, dilation, groups
    "whole": ((1, 3, 16, 16), 2 * LANES, 3, 1, 1, 1, 1),
    "ragged filters and pixels": ((2, 4, 9, 30), 2 * LANES + 8, 3, 1, 1, 1, 1),
    "one filter over": ((1, 2, 11, 11), LANES + 1, 5, 2, 2, 1, 1),
    "few pixels": ((3, 8, 7, 7), 4 * LANES, 3, 1, 1, 1, 1),
    "rows of few pixels": ((1, 8, 9, 3), LANES, 3, 1, 1, 1, 1),
    "one column": ((1, 1, 5, 1), LANES + 2, 3, 1, 1, 1, 1),
    "one row": ((2, 3, 1, 127), LANES, 3, 1, 1, 1, 1),
    "dilated groups": ((2, 6, 10, 12), 24, 3, 1, 2, 2, 2),
    "groups of many filters": ((1, 4, 8, 8), 4 * LANES, 3, 1, 1, 1, 2),
    "each channel": ((1, 16, 14, 40), 16, 3, 1, 1, 1, 16),
    "each channel, stride 2": ((1, 5, 17, 33), 5, 3, 2, 1, 1, 5),
    "each channel twice": ((1, 3, 9, 9), 6, 3, 1, 1, 1, 3),
    "few filters": ((1, 4, 12, 37), 7, 3, 1, 1, 1, 1),
    "without padding": ((1, 3, 5, 21), LANES, 3, 1, 0, 1, 1),
    "stride without taps": ((1, 4, 8, 9), LANES, 1, 2, 1, 1, 1),
    "large windows": ((2, 3, 30, 31), LANES + 4, 7, 2, 3, 1, 1),
    "stride 3": ((1, 5, 20, 20), 3 * LANES, 3, 3, 1, 1, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str) -> None:
    shape, filters, kernel, stride, padding, dilation, groups = CASES[name]
    random = np.random.default_rng(len(name))
    x = random.standard_normal(shape).astype(np.float32)
    w = random.standard_normal((filters, shape[1] // groups, kernel, kernel)).astype(np.float32)
    b = random.standard_normal(filters).astype(np.float32)
    wanted = convolved(x, w, stride, padding, dilation, groups) + b[:, None, None]
    (kernel_,) = wia.compile(
        f"""kernel k(input x: tensor, input w: tensor, input b: tensor, output y: tensor) {{
            y = relu(conv2d(x, w, bias=b, stride={stride}, padding={padding},
                            dilation={dilation}, groups={groups})); }}"""
    ).values()
    wanted = np.maximum(wanted, 0)
    scale = np.abs(w).sum(axis=(1, 2, 3)).max()
    np.testing.assert_allclose(kernel_(x, w, b), wanted, rtol=0, atol=2e-6 * scale)


@pytest.mark.parametrize(("dtype", "tolerance"), [("f8", 1e-13), ("f2", 4e-3)])
def test_other_dtypes_and_what_is_added_after(dtype: str, tolerance: float) -> None:
    """The epilogue reads an array that lies as the result does, and one number a filter."""
    random = np.random.default_rng(3)
    x, w, q = (
        random.standard_normal(shape).astype(dtype)
        for shape in ((1, 4, 9, 13), (LANES + 3, 4, 3, 3), (1, LANES + 3, 9, 13))
    )
    (kernel,) = wia.compile(
        """kernel k(input x: tensor, input w: tensor, input q: tensor, output y: tensor) {
            y = conv2d(x, w, padding=1) * 0.5 + q; }"""
    ).values()
    wanted = convolved(x, w, 1, 1, 1, 1) * 0.5 + q
    np.testing.assert_allclose(kernel(x, w, q), wanted, rtol=0, atol=tolerance * 10)


def test_arrays_that_are_no_block_of_memory_and_numbers_that_are_none() -> None:
    random = np.random.default_rng(5)
    x = random.standard_normal((2, 3, 20, 24)).astype(np.float32)[:, :, ::2, ::-1]
    w = random.standard_normal((3, 3, 3, 2 * LANES)).astype(np.float32).transpose(3, 0, 1, 2)
    x[0, 1, 3, 4], x[1, 2, 5, 6] = np.nan, np.inf
    (kernel,) = wia.compile(
        "kernel k(input x: tensor, input w: tensor, output y: tensor) "
        "{ y = conv2d(x, w, padding=1); }"
    ).values()
    with np.errstate(invalid="ignore"):
        wanted = convolved(x, w, 1, 1, 1, 1)
    np.testing.assert_allclose(kernel(x, w), wanted, rtol=1e-4, atol=1e-4)


def test_sums_stay_in_registers_and_pixels_are_copied_once() -> None:
    (kernel,) = wia.compile(
        "kernel k(input x: tensor, input w: tensor, output y: tensor) "
        "{ y = relu(conv2d(x, w, padding=1)); }"
    ).values()
    specs = wia.spec((1, 8, 16, 16), "f32"), wia.spec((32, 8, 3, 3), "f32")
    build = kernel.build(*specs, target="cpu:znver4")  # 32 registers of 16 elements
    (decision,) = [d for d in build.stage("schedule").decisions if d.kind == "schedule"]
    assert {"filters": 32, "lanes": 16}.items() <= decision.numbers.items()
    text = build.stage("schedule").text
    assert "memref<18x1x8x18xf32" in text  # the padded image, no copy for each tap
    assert 'x8x32xf32, "register"' in text  # the sums of eight pixels


def test_a_convolution_of_single_pixels_reads_them_where_they_lie() -> None:
    """A product of few rows: what a tile reads stays in the first cache, so nothing is copied."""
    (kernel,) = wia.compile(
        "kernel k(input x: tensor, input w: tensor, output y: tensor) { y = conv2d(x, w); }"
    ).values()
    w = wia.spec((64, 64, 1, 1), "f32")
    lies = kernel.build(wia.spec((1, 64, 56, 56), "f32"), w)
    assert "packed" not in lies.stage("schedule").text
    # Rows of 4 KiB fall on the same sets of the cache: these are copied.
    falls = kernel.build(wia.spec((1, 64, 64, 64), "f32"), w)
    assert "packed" in falls.stage("schedule").text
