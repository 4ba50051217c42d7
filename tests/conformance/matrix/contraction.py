"""Rows of matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
from conformance.matrix.row import Array, Bound, Call, Row, Shape
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.reference.rounding import dtype_of_array


def product(condition: str) -> tuple[Shape, ...]:
    """Matrices that meet over the size; over an ordinary one where 0 is the size of an axis."""
    sizes = {"0": (5, 0, 3), "1": (1, 1, 1), "3": (17, 3, 5), "17": (9, 17, 33)}
    sizes |= {"127": (5, 127, 17), "1000": (3, 1000, 5)}
    m, k, n = sizes.get(condition, (17, 33, 18))
    return ((m, k), (k, n))


def batches(condition: str) -> tuple[Shape, ...]:
    """Batches of small matrices; under ``broadcast`` one side has a batch axis of 1."""
    if condition == "broadcast":
        return ((3, 1, 5, 7), (2, 7, 4))
    count = {"1000": 50}.get(condition, int(condition) if condition.isdigit() else 4)
    return ((count, 5, 7), (count, 7, 9))


def vectors(condition: str) -> tuple[Shape, ...]:
    """Two vectors of one length."""
    size = int(condition) if condition.isdigit() else 33
    return ((size,), (size,))


def image(condition: str) -> tuple[Shape, ...]:
    """Input, filters and bias of a 2-D convolution of the width."""
    width = {"0": 0, "1": 1, "3": 3, "127": 127, "1000": 1000}.get(condition, 17)
    height = 3 if condition in ("127", "1000") else 5
    batch = 0 if condition == "0" else 2
    return ((batch, 4, height, max(width, 1)), (6, 2, 3, 3), (6,))


def _matmul_size(a: Array, b: Array) -> Array:
    return np.abs(a) @ np.abs(b)


def _length(*arrays: Array) -> int:
    return arrays[0].shape[-1]


_PRODUCT = Bound(ulps=1, terms=_length, scale=_matmul_size)


def convolution(
    stride: int, padding: int, dilation: int, groups: int
) -> Callable[[Array, Array, Array], Array]:
    """The sum over the window, one tap at a time, and then the bias."""

    def truth(x: Array, w: Array, b: Array) -> Array:
        batch, _, height, width = x.shape
        filters, channels, rows, columns = w.shape
        padded = np.zeros((batch, x.shape[1], height + 2 * padding, width + 2 * padding), x.dtype)
        padded[:, :, padding : padding + height, padding : padding + width] = x
        out = [
            (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1
            for size, taps in ((height, rows), (width, columns))
        ]
        result = np.zeros((batch, filters, *out), x.dtype)
        each = filters // groups
        for r in range(rows):
            for s in range(columns):
                top, left = r * dilation, s * dilation
                part = padded[:, :, top : top + stride * out[0] : stride]
                part = part[:, :, : out[0], left : left + stride * out[1] : stride]
                for g in range(groups):
                    here = part[:, g * channels : (g + 1) * channels]
                    taps = w[g * each : (g + 1) * each, :, r, s]
                    result[:, g * each : (g + 1) * each] += np.einsum("bcij,fc->bfij", here, taps)
        return result + b[:, None, None]

    return truth


def _conv(text: str, *settings: int) -> Call:
    truth = convolution(*settings)

    def size(x: Array, w: Array, b: Array) -> Array:
        return truth(np.abs(x), np.abs(w), np.abs(b))

    def taps(x: Array, w: Array, b: Array) -> float:
        # The bias is an addition of its own: the sum before it is rounded to the dtype.
        dtype = dtype_of_array(x)
        epsilon = [
            float(ml_dtypes.finfo(each.numpy).eps) for each in (dtype, DTYPES[dtype.accumulator])
        ]
        return w[0].size + 0.5 * epsilon[0] / epsilon[1]

    return Call(text, truth, Bound(ulps=1, terms=taps, scale=size))


CONTRACTION_ROWS: tuple[Row, ...] = (
    *(
        Row(
            "matmul",
            shapes,
            (Call("a @ b", lambda a, b: a @ b, _PRODUCT),),
            makers={"a": "small", "b": "small"},
        )
        for shapes in (product, batches, vectors)
    ),
    Row(
        "conv2d",
        image,
        (
            _conv("conv2d(a, b, c, padding=2, dilation=2, groups=2)", 1, 2, 2, 2),
            _conv("conv2d(a, b, c, padding=1, groups=2)", 1, 1, 1, 2),
            _conv("conv2d(a, b, c, stride=2, padding=1, groups=2)", 2, 1, 1, 2),
        ),
        makers={"a": "small", "b": "small", "c": "finite"},
    ),
)
