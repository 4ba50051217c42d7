"""Activation functions: element by element, with a transcendental each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wia_kernels.definition import FLOATS, KernelDefinition

GELU = """\
// Gaussian error linear unit, the exact form: x * P(Z <= x) for a standard normal Z.
kernel gelu(
    input X: tensor,
    output Y: tensor
) {
    Y = 0.5 * X * (1.0 + erf(X * 0.7071067811865476));  // 1 / sqrt(2)
}
"""

_ERF = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1.0 + _ERF(x / math.sqrt(2.0)))


KERNELS = (
    KernelDefinition(
        "gelu",
        GELU,
        _gelu,
        (((1024, 1024),), ((17, 127),), ((1000,),), ((3,),), ((1,),), ((0,),), ((0, 5),), ((),)),
        FLOATS,
        "0.5 x (1 + erf(x / sqrt 2)) of every element.",
    ),
)
