"""Ops on whole numbers and bools: the CPU gives exactly what the reference says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import wia_compiler as wia

IMAGE = "reshape(x, [1, 1, 6, 7])"
FILTER = "reshape(slice(y, stops=[2, 3]), [1, 1, 2, 3])"
GROUPS = {
    "scans": (
        "cumsum(x, 1)",
        "cumprod(x, 0)",
        "argmax(x, dim=1)",
        "argmin(x)",
        "argmax(y, 0, true)",
    ),
    "windows": (
        f"max_pool2d({IMAGE}, 3, stride=2, padding=1)",
        'reduce_window(x, "sum", [2, 3], stride=[1, 2], padding=[1, 1])',
        'reduce_window(x, "min", [2, 2], dilation=[2, 3], stride=[1, 1])',
        'reduce_window(x, "prod", [2], stride=[2])',
        f"global_max_pool({IMAGE})",
    ),
    "numbers": ("sign(x)", "square(x)", "relu6(x)", "x ** 3", "dequantize(x, cast(0.5, f32), 3)"),
    "powers": ("pow(x, y)",),
    "bits": (
        "bitwise_and(x, y)",
        "bitwise_or(x, y)",
        "bitwise_xor(x, y)",
        "bitwise_not(x)",
        "bitwise_left_shift(x, y)",
        "bitwise_right_shift(x, y)",
    ),
    "moves": (
        "tril(x)",
        "pad(x, [1, 2], value=3, interior=[1, 2])",
        "concat([x, y], dim=1)",
        "flip(x, [0, 1])",
        "roll(x, [2], dims=[1])",
        "gather(x, 0, cast(y * y % 6, i64))",
        "repeat_interleave(x, 2, dim=0)",
        "one_hot(y, 5, dtype=bool)",
    ),
    "products": (
        "linear(x, y)",
        f"conv2d({IMAGE}, {FILTER}, padding=1)",
        f"conv_transpose2d({IMAGE}, {FILTER}, stride=2)",
    ),
}
BOOLS = (
    "bitwise_and(b, b)",
    "bitwise_xor(b, b)",
    "bitwise_not(b)",
    "flip(b, [1])",
    "pad(b, [1, 0], value=true)",
    "concat([b, b])",
    "tril(b)",
    "gather(b, 1, cast(b, i64))",
    "reduce_all(b, dim=0, keepdim=true)",
    "reduce_any(b)",
    "tile(b, [2, 1])",
    "slice(b, starts=[1])",
)


def assert_exact(text: str, *arrays: np.ndarray[Any, Any]) -> None:
    """Every result of a kernel is the reference's."""
    kernel = wia.compile(text)["k"]
    found, expected = kernel(*arrays), wia.reference(kernel, *arrays)
    if not isinstance(found, tuple):
        found, expected = (found,), (expected,)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("group", GROUPS)
def test_whole_numbers(group: str, dtype: type[np.integer[Any]]) -> None:
    random, ends = np.random.default_rng(1), np.iinfo(dtype)
    x = random.integers(ends.min, ends.max, (6, 7), dtype=dtype, endpoint=True)
    y = random.integers(max(ends.min, -9), 9, (6, 7), dtype=dtype)
    x[0, :3] = [ends.min, ends.max, 0]
    calls = ", ".join(GROUPS[group])
    assert_exact(f"kernel k(input x: tensor, input y: tensor) {{ return {calls}; }}", x, y)


def test_bools() -> None:
    b = np.array([[True, False, True], [False, False, True]])
    assert_exact(f"kernel k(input b: tensor) {{ return {', '.join(BOOLS)}; }}", b)
