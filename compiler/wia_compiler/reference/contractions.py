"""The meaning of matrix products and convolutions on numpy: f64 sums, rounded once."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from wia_compiler.dialects.wia.convolution import conv2d_window
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
    stride, padding, dilation = conv2d_window(attributes)
    groups = int(str(attributes["groups"]))
    padded = np.pad(_wide(x), ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    reach = [dilation[axis] * (weight.shape[2 + axis] - 1) + 1 for axis in (0, 1)]
    if any(padded.shape[2 + axis] < reach[axis] for axis in (0, 1)):
        return _biased(
            np.zeros(_empty_shape(x, weight, padded, reach, stride), dtype.numpy), operands
        )
    windows = sliding_window_view(padded, tuple(reach), axis=(2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
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


def _empty_shape(
    x: Array, weight: Array, padded: Array, reach: list[int], stride: tuple[int, ...]
) -> tuple[int, ...]:
    sizes = [max((padded.shape[2 + a] - reach[a]) // stride[a] + 1, 0) for a in (0, 1)]
    return (x.shape[0], weight.shape[0], *sizes)


def _biased(result: Array, operands: Named) -> Array:
    """The convolution plus its bias, which is an addition of its own: rounded like one."""
    if "bias" not in operands:
        return result
    dtype = dtype_of_array(result)
    total = widen(result) + widen(operands["bias"])[:, None, None]
    return round_to(total, dtype) if dtype.is_float else total.astype(dtype.numpy)


CONTRACTION_MEANING: dict[str, Meaning] = {"matmul": _matmul, "conv2d": _conv2d}
