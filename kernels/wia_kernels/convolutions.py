"""Two-dimensional convolutions with what usually follows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from wia_kernels.definition import FLOATS, KernelDefinition

CONV_BIAS_RELU = """\
// A convolutional layer of 3x3 windows. Written as three steps, run as one kernel: the result is
// written once and what lies between stays in registers.
kernel conv_bias_relu(
    input X: tensor<N, C, H, W>,        // images, channels first
    input weight: tensor<F, C, 3, 3>,
    input bias: tensor<F, 1, 1>,        // one value a filter, the same for each pixel
    output Y: tensor<N, F, H, W>
) {
    let product = conv2d(X, weight, padding=1);
    let shifted = product + bias;
    Y = relu(shifted);
}
"""


def _conv_bias_relu(x: Any, weight: Any, bias: Any) -> Any:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    product = np.einsum("nchwrs,fcrs->nfhw", windows, weight)
    return np.maximum(product + bias, 0)


def _case(n: int, c: int, f: int, h: int, w: int) -> tuple[tuple[int, ...], ...]:
    return (n, c, h, w), (f, c, 3, 3), (f, 1, 1)


KERNELS = (
    KernelDefinition(
        "conv_bias_relu",
        CONV_BIAS_RELU,
        _conv_bias_relu,
        (
            _case(1, 16, 32, 56, 56),
            _case(1, 3, 8, 128, 96),
            _case(2, 3, 5, 17, 13),
            _case(1, 1, 1, 3, 127),
            _case(3, 2, 1, 1, 1),
            _case(0, 3, 4, 8, 8),
        ),
        FLOATS,
        "relu(conv2d(X, weight, padding=1) + bias) with 3x3 windows.",
    ),
)
