"""Matrix products, alone and with what usually follows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from wia_kernels.definition import FLOATS, KernelDefinition

MATMUL = """\
// Leading axes are batches, as in torch.matmul.
kernel matmul(
    input A: tensor,
    input B: tensor,
    output C: tensor
) {
    C = A @ B;
}
"""

MATMUL_BIAS_RELU = """\
// A dense layer. The bias and the activation are applied before the product is written.
kernel matmul_bias_relu(
    input A: tensor<M, K>,
    input B: tensor<K, N>,
    input bias: tensor<N>,
    output C: tensor<M, N>
) {
    C = relu(A @ B + bias);
}
"""


def _matmul_bias_relu(a: Any, b: Any, bias: Any) -> Any:
    return np.maximum(a @ b + bias, 0)


_SIZES = (
    (256, 256, 256),
    (128, 512, 64),
    (17, 127, 33),
    (1, 1000, 3),
    (3, 1, 17),
    (1, 1, 1),
    (4, 0, 5),
    (0, 8, 3),
)
"""Rows, summed length and columns."""

KERNELS = (
    KernelDefinition(
        "matmul",
        MATMUL,
        np.matmul,
        (
            *(((m, k), (k, n)) for m, k, n in _SIZES),
            ((3, 17, 5), (3, 5, 7)),
            ((2, 1, 5, 3), (4, 3, 6)),
            ((127,), (127, 9)),
        ),
        (*FLOATS, "i64", "i32"),
        "Matrix product; leading axes are batches and broadcast.",
    ),
    KernelDefinition(
        "matmul_bias_relu",
        MATMUL_BIAS_RELU,
        _matmul_bias_relu,
        tuple(((m, k), (k, n), (n,)) for m, k, n in _SIZES),
        FLOATS,
        "relu(A @ B + bias): a dense layer.",
    ),
)
