"""The meaning of matrix products and convolutions on numpy: f64 sums, rounded once."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from wia_compiler.dialects.wia.convolution import convolution_axes
from wia_compiler.dialects.wia.declaration import Attributes
from wia_compiler.reference.elementwise import Meaning, Named
from wia_compiler.reference.rounding import (
    Array,
    dtype_of_array,
    exact,
    round_fold,
    round_to,
    widen,
)


def _matmul(operands: Named, attributes: Attributes) -> Array:
    a, b = operands["input"], operands["other"]
    dtype = dtype_of_array(a)
    if not dtype.is_float:
        return np.asarray(np.matmul(a, b), dtype.numpy)
    return round_fold(np.asarray(np.matmul(exact(a), exact(b))), dtype)


def _conv2d(operands: Named, attributes: Attributes) -> Array:
    x, weight = operands["input"], operands["weight"]
    dtype = dtype_of_array(x)
    axes = convolution_axes(attributes, weight.shape[2:], "conv2d")
    groups = int(str(attributes["groups"]))
    padded = np.pad(_wide(x), ((0, 0), (0, 0), *((axis.before, axis.after) for axis in axes)))
    sizes = [
        max((size - axis.reach) // axis.stride + 1, 0)
        for size, axis in zip(padded.shape[2:], axes, strict=True)
    ]
    if not all(sizes):
        return _biased(np.zeros((x.shape[0], weight.shape[0], *sizes), dtype.numpy), operands)
    windows = sliding_window_view(padded, tuple(axis.reach for axis in axes), axis=(2, 3))
    places = tuple(slice(None, None, axis.stride) for axis in axes)
    taps = tuple(slice(None, None, axis.dilation) for axis in axes)
    windows = windows[(slice(None), slice(None), *places, *taps)]
    batch, channels, rows, columns = windows.shape[:4]
    split = windows.reshape(batch, groups, channels // groups, rows, columns, *weight.shape[2:])
    filters = _wide(weight).reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    sums = np.einsum("bgcijrs,gfcrs->bgfij", split, filters, optimize=True)
    result = sums.reshape(batch, weight.shape[0], rows, columns)
    rounded = round_fold(result, dtype) if dtype.is_float else result.astype(dtype.numpy)
    return _biased(rounded, operands)


def _wide(array: Array) -> Array:
    """Floats as f64. Integers as i64: sums wrap to the same value in 64 bits and in fewer."""
    return exact(array) if dtype_of_array(array).is_float else array.astype(np.int64)


def _biased(result: Array, operands: Named) -> Array:
    """The convolution plus its bias, which is an addition of its own: rounded like one."""
    if "bias" not in operands:
        return result
    dtype = dtype_of_array(result)
    total = widen(result) + widen(operands["bias"])[:, None, None]
    return round_to(total, dtype) if dtype.is_float else total.astype(dtype.numpy)


CONTRACTION_MEANING: dict[str, Meaning] = {"matmul": _matmul, "conv2d": _conv2d}
