"""The reference of reductions, norms, contractions and movement against plain formulas."""

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from special_values import assert_same_bits
from wia_compiler.base.dtypes import DTYPES, F16
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.reference.meaning import evaluate
from wia_compiler.reference.reductions import machine_epsilon

RANDOM = np.random.default_rng(7)


def fold(name: str, x: np.ndarray, dim: Any = None, keepdim: bool = False) -> np.ndarray:
    return evaluate(name, {"input": x}, {"dim": dim, "keepdim": keepdim})


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 17), (2, 0, 4), (5, 1, 3)])
@pytest.mark.parametrize("dim", [None, -1, 0])
@pytest.mark.parametrize("keepdim", [False, True])
def test_sums_products_and_means_of_any_shape(
    shape: tuple[int, ...], dim: Any, keepdim: bool
) -> None:
    x = RANDOM.normal(size=shape).astype(np.float32)
    wide = x.astype(np.float64)
    for name, function in (("reduce_sum", np.sum), ("reduce_prod", np.prod)):
        expected = function(wide, axis=dim, keepdims=keepdim).astype(np.float32)
        assert_same_bits(fold(name, x, dim, keepdim), np.asarray(expected))
    count = x.size if dim is None else shape[dim]
    mean = fold("reduce_mean", x, dim, keepdim)
    if count:
        expected = wide.mean(axis=dim, keepdims=keepdim)
        np.testing.assert_allclose(mean, expected, rtol=1e-6, atol=1e-7)
    else:
        assert np.isnan(mean).all()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_largest_and_smallest_keep_nan(dtype: str) -> None:
    x = np.array([[1, 5, -2], [np.nan, 9, 3]], DTYPES[dtype].numpy)
    largest = fold("reduce_max", x, 1).astype(np.float64)
    assert largest[0] == 5
    assert np.isnan(largest[1])
    assert fold("reduce_min", x, 1).dtype == x.dtype


def test_half_precision_sums_are_carried_in_f32() -> None:
    x = np.full(4096, 1.0, np.float16)
    assert fold("reduce_sum", x) == 4096
    tail = np.concatenate([np.full(1, 2048.0, np.float16), np.full(9, 1.0, np.float16)])
    assert fold("reduce_sum", tail) == 2056  # 2057 rounded once, to an even last bit


def test_integer_sums_wrap() -> None:
    assert fold("reduce_sum", np.full(3, 100, np.int8)) == 44
    assert fold("reduce_prod", np.array([16, 17], np.uint8)) == 16


def test_several_axes_at_once() -> None:
    x = RANDOM.integers(-5, 5, (2, 3, 4)).astype(np.int32)
    assert_same_bits(fold("reduce_sum", x, (0, 2)), x.sum(axis=(0, 2), dtype=np.int32))


def test_softmax_is_stable_and_sums_to_one() -> None:
    x = np.array([[1000.0, 1000.0, -1000.0], [-1e30, -1e30, -1e30]], np.float32)
    found = evaluate("softmax", {"input": x}, {"dim": -1})
    np.testing.assert_allclose(found, [[0.5, 0.5, 0], [1 / 3] * 3], rtol=1e-6)
    masked = evaluate("softmax", {"input": np.full((1, 3), -np.inf, np.float32)}, {"dim": -1})
    assert np.isnan(masked).all()
    partly = np.array([[0.0, -np.inf]], np.float16)
    assert evaluate("softmax", {"input": partly}, {"dim": 1}).tolist() == [[1, 0]]
    assert evaluate("softmax", {"input": np.zeros((0, 3))}, {"dim": 1}).shape == (0, 3)
    assert evaluate("softmax", {"input": np.zeros((3, 0))}, {"dim": 1}).shape == (3, 0)


def test_layer_norm_of_a_large_offset_does_not_cancel() -> None:
    x = (RANDOM.normal(size=(3, 64)) + 1e4).astype(np.float32)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    found = evaluate("layer_norm", {"input": x}, {"normalized_shape": None, "eps": 1e-5})
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_norms_scale_and_shift_over_several_axes() -> None:
    x = RANDOM.normal(size=(2, 3, 4))
    weight, bias = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=(3, 4))
    attributes = {"normalized_shape": (3, 4), "eps": 1e-5}
    found = evaluate("layer_norm", {"input": x, "weight": weight, "bias": bias}, attributes)
    flat = x.reshape(2, -1)
    normal = (flat - flat.mean(1, keepdims=True)) / np.sqrt(flat.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found, normal.reshape(x.shape) * weight + bias, rtol=1e-12)
    root = evaluate("rms_norm", {"input": x, "weight": weight}, {**attributes, "eps": None})
    scale = np.sqrt((flat**2).mean(1, keepdims=True) + np.finfo(np.float64).eps)
    np.testing.assert_allclose(root, (flat / scale).reshape(x.shape) * weight, rtol=1e-12)


def test_machine_epsilons() -> None:
    for name, eps in (("f64", 2.0**-52), ("f32", 2.0**-23), ("f16", 2.0**-10), ("bf16", 2.0**-7)):
        assert machine_epsilon(TensorSpec((), DTYPES[name])) == eps


@pytest.mark.parametrize(
    ("a", "b"),
    [((3,), (3,)), ((3,), (3, 5)), ((4, 3), (3,)), ((2, 1, 4, 3), (5, 3, 2)), ((2, 0), (0, 3))],
)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "i8"])
def test_matrix_products(a: tuple[int, ...], b: tuple[int, ...], dtype: str) -> None:
    kind = DTYPES[dtype].numpy
    x, y = (RANDOM.integers(-3, 4, shape).astype(kind) for shape in (a, b))
    expected = np.matmul(x.astype(np.int64), y.astype(np.int64)).astype(kind)
    assert_same_bits(evaluate("matmul", {"input": x, "other": y}, {}), np.asarray(expected))


def test_half_precision_products_round_once() -> None:
    x = np.full((1, 2), 255.0, ml_dtypes.bfloat16)
    y = np.array([[1.0], [2.0**-9]], ml_dtypes.bfloat16)
    found = evaluate("matmul", {"input": x, "other": y}, {})
    assert found.astype(np.float64).item() == 255.0
    big = evaluate(
        "matmul",
        {"input": np.full((1, 300), 256, np.float16), "other": np.ones((300, 1), np.float16)},
        {},
    )
    assert np.isinf(big).all()


def direct_conv2d(
    x: np.ndarray, w: np.ndarray, stride: Any, padding: Any, dilation: Any, groups: int
) -> np.ndarray:
    """The definition, tap by tap."""
    padded = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    sizes = [
        (padded.shape[2 + a] - dilation[a] * (w.shape[2 + a] - 1) - 1) // stride[a] + 1
        for a in (0, 1)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    per_group = w.shape[0] // groups
    for n, f, i, j in itertools.product(*(range(size) for size in out.shape)):
        for c, r, s in itertools.product(*(range(size) for size in w.shape[1:])):
            channel = f // per_group * w.shape[1] + c
            row, column = i * stride[0] + r * dilation[0], j * stride[1] + s * dilation[1]
            out[n, f, i, j] += padded[n, channel, row, column] * w[f, c, r, s]
    return out


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation"), [(1, 0, 1), ((2, 1), (0, 2), 1), (1, 1, (2, 1)), (3, 2, 2)]
)
def test_convolutions(stride: Any, padding: Any, dilation: Any, groups: int) -> None:
    x = RANDOM.normal(size=(2, 4, 7, 6))
    w = RANDOM.normal(size=(6, 4 // groups, 3, 2))
    bias = RANDOM.normal(size=6)
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    pairs = [v if isinstance(v, tuple) else (v, v) for v in (stride, padding, dilation)]
    expected = direct_conv2d(x, w, *pairs, groups)
    found = evaluate("conv2d", {"input": x, "weight": w}, attributes)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    biased = evaluate("conv2d", {"input": x, "weight": w, "bias": bias}, attributes)
    np.testing.assert_allclose(biased, expected + bias[:, None, None], rtol=1e-10, atol=1e-12)


def test_a_convolution_without_output_or_channels() -> None:
    attributes = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    x, w = np.ones((1, 2, 2, 2), np.float32), np.ones((3, 2, 3, 3), np.float32)
    assert evaluate("conv2d", {"input": x, "weight": w}, attributes).shape == (1, 3, 0, 0)
    x, w = np.ones((1, 0, 4, 4), np.float32), np.ones((3, 0, 3, 3), np.float32)
    found = evaluate("conv2d", {"input": x, "weight": w}, attributes)
    assert_same_bits(found, np.zeros((1, 3, 2, 2), np.float32))


def test_movement() -> None:
    x = np.arange(24, dtype=np.int16).reshape(2, 3, 4)

    def move(name: str, **attributes: Any) -> np.ndarray:
        return evaluate(name, {"input": x}, attributes)

    assert_same_bits(move("reshape", shape=(4, -1)), x.reshape(4, 6))
    assert_same_bits(move("flatten", start_dim=1, end_dim=-1), x.reshape(2, 12))
    assert_same_bits(move("transpose", dim0=-2, dim1=-1), x.transpose(0, 2, 1).copy())
    assert_same_bits(move("permute", dims=(2, 0, -2)), x.transpose(2, 0, 1).copy())
    assert_same_bits(move("broadcast", shape=(5, 2, 3, 4)), np.broadcast_to(x, (5, 2, 3, 4)).copy())
    empty = evaluate("reshape", {"input": np.zeros((0, 3))}, {"shape": (-1, 3)})
    assert empty.shape == (0, 3)
    assert evaluate("flatten", {"input": np.zeros(())}, {"start_dim": 0, "end_dim": -1}).shape == (
        1,
    )
    assert move("permute", dims=(2, 1, 0)).flags.c_contiguous


def test_f16_is_carried_in_f32_by_norms() -> None:
    x = np.full((1, 8), 300.0, F16.numpy)
    found = evaluate("rms_norm", {"input": x}, {"normalized_shape": None, "eps": 0.0})
    np.testing.assert_array_equal(found, np.ones((1, 8), np.float16))
