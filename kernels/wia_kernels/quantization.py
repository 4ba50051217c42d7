"""What is left of numbers that pass through 8-bit integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from wia_kernels.definition import FLOATS, KernelDefinition

EIGHTHS = """\
// Every number to the nearest eighth that an i8 can count: from -16 to 15.875.
kernel eighths(
    input X: tensor,
    output Y: tensor
) {
    Y = fake_quantize(X, 0.125);
}
"""


def _eighths(x: Any) -> Any:
    return np.clip(np.rint(x * 8), -128, 127) / 8


KERNELS = (
    KernelDefinition(
        "eighths",
        EIGHTHS,
        _eighths,
        (((1024, 1024),), ((17, 127),), ((1000,),), ((3,),), ((1,),), ((0,),), ((),)),
        FLOATS,
        "Quantised to i8 with a step of an eighth, and back.",
    ),
)
