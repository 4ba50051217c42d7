"""Pooling of images: windows of 2x2 that halve them, windows of 3x3 that smooth them."""

from __future__ import annotations

from typing import Any

import numpy as np

from wia_kernels.definition import FLOATS, KernelDefinition

MAX_POOL_HALVES = """\
// The largest of each 2x2 block: height and width are halved, odd rows and columns are dropped.
kernel max_pool_halves(
    input X: tensor<N, C, H, W>,
    output Y: tensor
) {
    Y = max_pool2d(X, kernel=2);
}
"""

AVG_POOL_SMOOTH = """\
// The mean of each pixel's 3x3 neighbours that lie inside the image.
kernel avg_pool_smooth(
    input X: tensor<N, C, H, W>,
    output Y: tensor<N, C, H, W>
) {
    Y = avg_pool2d(X, kernel=3, stride=1, padding=1, count_include_pad=false);
}
"""


def _max_pool_halves(x: Any) -> Any:
    n, c, h, w = x.shape
    even = x[:, :, : h // 2 * 2, : w // 2 * 2]
    return even.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5), initial=-np.inf)


def _avg_pool_smooth(x: Any) -> Any:
    def sums(image: Any) -> Any:
        padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        return windows.sum(axis=(4, 5))

    return sums(x) / sums(np.ones_like(x))


KERNELS = (
    KernelDefinition(
        "max_pool_halves",
        MAX_POOL_HALVES,
        _max_pool_halves,
        (((8, 16, 64, 64),), ((2, 3, 17, 13),), ((1, 1, 2, 127),), ((0, 3, 4, 4),)),
        FLOATS,
        "Largest element of each 2x2 block of an image.",
    ),
    KernelDefinition(
        "avg_pool_smooth",
        AVG_POOL_SMOOTH,
        _avg_pool_smooth,
        (((8, 16, 64, 64),), ((2, 3, 17, 13),), ((1, 1, 1, 127),), ((0, 3, 4, 4),)),
        FLOATS,
        "Mean over 3x3 neighbours, of those inside the image at its edges.",
    ),
)
