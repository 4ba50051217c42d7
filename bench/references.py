"""What the workloads are to give, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _wide(*arrays: Array) -> list[Array]:
    return [array.astype(np.float64) for array in arrays]


def elementwise_reference(x: Array, z: Array) -> Array:
    x, z = _wide(x, z)
    return (np.minimum(np.maximum(1.7 * x - 0.3, 0) * z + 0.5, 6) - x) * 0.25


def transcendental_reference(x: Array) -> Array:
    (x,) = _wide(x)
    gelu = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return gelu / (1 + np.exp(-x)) + np.exp(-x * x)


def softmax_reference(x: Array) -> Array:
    (x,) = _wide(x)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm_reference(x: Array, g: Array, b: Array) -> Array:
    x, g, b = _wide(x, g, b)
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * g + b


def matmul_reference(a: Array, b: Array) -> Array:
    a, b = _wide(a, b)
    return a @ b


def _windows(x: Array, size: int, stride: int) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))
    return windows[:, :, ::stride, ::stride]


def convolution_reference(x: Array, w: Array, stride: int, padding: int) -> Array:
    x, w = _wide(x, w)
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = _windows(padded, w.shape[2], stride)
    return np.einsum("nchwij,ocij->nohw", windows, w, optimize=True)


def batch_norm_reference(x: Array, m: Array, v: Array, g: Array, b: Array) -> Array:
    x, *others = _wide(x, m, v, g, b)
    m, v, g, b = (each[:, None, None] for each in others)
    return (x - m) / np.sqrt(v + 1e-5) * g + b


def max_pool_reference(x: Array, size: int, stride: int, padding: int) -> Array:
    (x,) = _wide(x)
    border = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    return _windows(np.pad(x, border, constant_values=-np.inf), size, stride).max((4, 5))


def small_cnn_reference(x: Array, w1: Array, *others: Array) -> Array:
    *first, w2, m2, v2, g2, b2, fw, fb = others
    a = np.maximum(batch_norm_reference(convolution_reference(x, w1, 1, 1), *first), 0)
    p = max_pool_reference(a, 2, 2, 0)
    c = convolution_reference(p, w2, 1, 1)
    c = np.maximum(batch_norm_reference(c, m2, v2, g2, b2), 0)
    fw, fb = _wide(fw, fb)
    return softmax_reference(c.reshape(len(c), -1) @ fw + fb)


def attention_reference(q: Array, k: Array, v: Array) -> Array:
    q, k, v = _wide(q, k, v)
    return softmax_reference(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v
