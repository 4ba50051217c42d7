"""numpy as a careful user writes it, with ``out=`` where that saves a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from contenders import Contender

REQUIRES = ("numpy",)

Array = np.ndarray[Any, Any]
_ZERO = np.float32(0)


def elementwise(x: Array, z: Array) -> Array:
    t = np.maximum(np.float32(1.7) * x - np.float32(0.3), _ZERO)
    t *= z
    t += np.float32(0.5)
    np.minimum(t, np.float32(6), out=t)
    t -= x
    t *= np.float32(0.25)
    return t


def transcendental(x: Array) -> Array:
    inner = np.float32(0.7978845608028654) * (x + np.float32(0.044715) * (x * x * x))
    t = np.tanh(inner)
    t += np.float32(1)
    t *= x
    t *= np.float32(0.5)
    e = np.exp(-x)
    e += np.float32(1)
    t /= e
    np.multiply(x, x, out=e)
    np.negative(e, out=e)
    t += np.exp(e, out=e)
    return t


def softmax(x: Array) -> Array:
    e = x - x.max(-1, keepdims=True)
    np.exp(e, out=e)
    e /= e.sum(-1, keepdims=True)
    return e


def layer_norm(x: Array, g: Array, b: Array) -> Array:
    y = x - x.mean(1, keepdims=True)
    variance = np.einsum("ij,ij->i", y, y)[:, None] / np.float32(x.shape[1])
    y *= 1 / np.sqrt(variance + np.float32(1e-5))
    y *= g
    y += b
    return y


def matmul_bias_relu(a: Array, b: Array, c: Array) -> Array:
    y = a @ b
    y += c
    return np.maximum(y, _ZERO, out=y)


def convolution(x: Array, w: Array, stride: int, padding: int) -> Array:
    batch, channels, height, width = x.shape
    filters, _, window, _ = w.shape
    if window == 1:
        flat = np.matmul(w.reshape(filters, channels), x.reshape(batch, channels, -1))
        return flat.reshape(batch, filters, height, width)
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (window, window), (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    table = windows.transpose(0, 1, 4, 5, 2, 3).reshape(batch, channels * window**2, -1)
    flat = np.matmul(w.reshape(filters, -1), table)
    return flat.reshape(batch, filters, *windows.shape[2:4])


def conv_bias_relu(x: Array, w: Array, b: Array, stride: int, padding: int) -> Array:
    y = convolution(x, w, stride, padding)
    y += b[:, None, None]
    return np.maximum(y, _ZERO, out=y)


def batch_norm_relu(x: Array, m: Array, v: Array, g: Array, b: Array) -> Array:
    scale = g / np.sqrt(v + np.float32(1e-5))
    y = x * scale[:, None, None]
    y += (b - m * scale)[:, None, None]
    return np.maximum(y, _ZERO, out=y)


def pool(x: Array, window: int, stride: int, padding: int) -> Array:
    if padding:
        border = ((0, 0), (0, 0), (padding, padding), (padding, padding))
        x = np.pad(x, border, constant_values=-np.inf)
    height, width = ((size - window) // stride + 1 for size in x.shape[2:])
    y: Array | None = None
    for row in range(window):
        for column in range(window):
            rows = slice(row, row + stride * height, stride)
            columns = slice(column, column + stride * width, stride)
            part = x[:, :, rows, columns][:, :, :height, :width]
            y = part.copy() if y is None else np.maximum(y, part, out=y)
    assert y is not None
    return y


def small_cnn(x: Array, w1: Array, *others: Array) -> Array:
    *first, w2, m2, v2, g2, b2, fw, fb = others
    a = batch_norm_relu(convolution(x, w1, 1, 1), *first)
    c = batch_norm_relu(convolution(pool(a, 2, 2, 0), w2, 1, 1), m2, v2, g2, b2)
    return softmax(c.reshape(len(c), -1) @ fw + fb)


def attention(q: Array, k: Array, v: Array) -> Array:
    scale = np.float32(q.shape[-1] ** -0.5)
    return softmax((q * scale) @ k.transpose(0, 2, 1)) @ v


def int8_matmul(a: Array, b: Array) -> Array:
    # Exact, and the fastest way numpy has: sums stay below 127 * 127 * 1024 < 2 ** 24.
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(np.int32)


FORMULAS: dict[str, Callable[..., Any]] = {
    "elementwise": elementwise,
    "transcendental": transcendental,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "matmul": np.matmul,
    "matmul_bias_relu": matmul_bias_relu,
    "conv_bias_relu": conv_bias_relu,
    "batch_norm_relu": batch_norm_relu,
    "max_pool": lambda x: pool(x, 3, 2, 1),
    "small_cnn": small_cnn,
    "attention": attention,
    "sum": np.sum,
    "int8_matmul": int8_matmul,
    "f16_weights": lambda a, b: a @ b.astype(np.float32),
}


def make(threads: int) -> Contender:
    return Contender(np.__version__, FORMULAS)
