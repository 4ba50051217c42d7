"""The loops of the numba contender."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

f32 = np.float32
PARALLEL = {"parallel": True, "fastmath": True, "cache": True, "nogil": True}


@njit(**PARALLEL)
def elementwise(x, z, y):
    for i in prange(x.size):
        t = max(f32(1.7) * x[i] - f32(0.3), f32(0)) * z[i] + f32(0.5)
        y[i] = (min(t, f32(6)) - x[i]) * f32(0.25)


@njit(**PARALLEL)
def transcendental(x, y):
    for i in prange(x.size):
        v = x[i]
        u = f32(0.7978845608028654) * (v + f32(0.044715) * v * v * v)
        # tanh through exp, which numba vectorises; np.tanh is a scalar call.
        t = f32(1) - f32(2) / (np.exp(min(f32(80), f32(2) * u)) + f32(1))
        y[i] = f32(0.5) * v * (f32(1) + t) / (f32(1) + np.exp(-v)) + np.exp(-v * v)


@njit(**PARALLEL)
def softmax(x, y):
    columns = x.shape[1]
    for i in prange(x.shape[0]):
        largest = x[i, 0]
        for j in range(columns):
            largest = max(largest, x[i, j])
        total = f32(0)
        for j in range(columns):
            e = np.exp(x[i, j] - largest)
            y[i, j] = e
            total += e
        total = f32(1) / total
        for j in range(columns):
            y[i, j] *= total


@njit(**PARALLEL)
def layer_norm(x, g, b, y):
    columns = x.shape[1]
    for i in prange(x.shape[0]):
        total = f32(0)
        for j in range(columns):
            total += x[i, j]
        mean = total / f32(columns)
        squares = f32(0)
        for j in range(columns):
            squares += (x[i, j] - mean) * (x[i, j] - mean)
        scale = f32(1) / np.sqrt(squares / f32(columns) + f32(1e-5))
        for j in range(columns):
            y[i, j] = (x[i, j] - mean) * scale * g[j] + b[j]


@njit(fastmath=True, cache=True)
def matmul(a, b, y):
    np.dot(a, b, y)


@njit(**PARALLEL)
def _bias_relu(y, c):
    for i in prange(y.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] = max(y[i, j] + c[j], f32(0))


def matmul_bias_relu(a, b, c, y):
    matmul(a, b, y)
    _bias_relu(y, c)


@njit(**PARALLEL)
def conv_bias_relu(x, w, b, stride, padding, y):
    batch, channels, height, width = x.shape
    filters, _, window, _ = w.shape
    rows, columns = y.shape[2], y.shape[3]
    for place in prange(batch * filters):
        image, filter = x[place // filters], place % filters
        out = y[place // filters, filter]
        for r in range(rows):
            for q in range(columns):
                out[r, q] = b[filter]
            for c in range(channels):
                for i in range(window):
                    row = r * stride - padding + i
                    if row < 0 or row >= height:
                        continue
                    for j in range(window):
                        weight = w[filter, c, i, j]
                        first = max(0, (padding - j + stride - 1) // stride)
                        last = min(columns, (width - 1 + padding - j) // stride + 1)
                        for q in range(first, last):
                            out[r, q] += weight * image[c, row, q * stride + j - padding]
            for q in range(columns):
                out[r, q] = max(out[r, q], f32(0))


@njit(**PARALLEL)
def scale_shift_relu(x, scale, shift, y):
    batch, channels, height, width = x.shape
    for place in prange(batch * channels):
        image, channel = place // channels, place % channels
        a, b = scale[channel], shift[channel]
        source = x[image, channel].reshape(-1)
        target = y[image, channel].reshape(-1)
        for j in range(height * width):
            target[j] = max(source[j] * a + b, f32(0))


@njit(**PARALLEL)
def max_pool(x, y):
    batch, channels, height, width = x.shape
    rows, columns = y.shape[2], y.shape[3]
    for place in prange(batch * channels):
        source, target = (
            x[place // channels, place % channels],
            y[place // channels, place % channels],
        )
        for r in range(rows):
            for q in range(columns):
                largest = f32(-3e38)
                for i in range(max(0, 2 * r - 1), min(height, 2 * r + 2)):
                    for j in range(max(0, 2 * q - 1), min(width, 2 * q + 2)):
                        largest = max(largest, source[i, j])
                target[r, q] = largest


@njit(**PARALLEL)
def total(x):
    s = f32(0)
    for i in prange(x.size):
        s += x[i]
    return s


@njit(**PARALLEL)
def int8_matmul(a, b, y):
    rows, depth = a.shape
    columns = b.shape[1]
    for i in prange(rows):
        out = y[i]
        for j in range(columns):
            out[j] = 0
        for k in range(depth):
            value = np.int32(a[i, k])
            row = b[k]
            for j in range(columns):
                out[j] += value * np.int32(row[j])
