"""Sums of vectors: one read of each input, one write, bound by memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from wia_kernels.definition import FLOATS, INTEGERS, KernelDefinition

VECTOR_ADD = """\
// C = A + B, element by element.
kernel vector_add(
    input A: tensor,
    input B: tensor,
    output C: tensor
) {
    C = A + B;
}
"""

SAXPY = """\
// BLAS saxpy: a scaled vector plus another. N must be the same for all three.
kernel saxpy(
    input x: tensor<N, f32>,
    input y: tensor<N, f32>,
    output z: tensor<N, f32>,
    alpha: f32 = 1.0
) {
    z = alpha * x + y;
}
"""


def _saxpy(x: Any, y: Any, alpha: float = 1.0) -> Any:
    return np.asarray(alpha) * x + y


_LENGTHS = (1 << 20, 1000, 127, 17, 3, 1, 0)

KERNELS = (
    KernelDefinition(
        "vector_add",
        VECTOR_ADD,
        np.add,
        (*(((n,), (n,)) for n in _LENGTHS), ((33, 65), (33, 65)), ((5, 1, 7), (3, 1))),
        (*FLOATS, *INTEGERS),
        "Sum of two arrays, which may broadcast.",
    ),
    KernelDefinition(
        "saxpy",
        SAXPY,
        _saxpy,
        tuple(((n,), (n,), ()) for n in _LENGTHS),
        ("f32",),
        "alpha * x + y over vectors of f32.",
    ),
)
