"""Rows brought to a common scale: one reduction or two along the last axis, then a map."""

from __future__ import annotations

from typing import Any

import numpy as np

from wia_kernels.definition import FLOATS, KernelDefinition

SOFTMAX = """\
// Each row becomes positive weights that sum to 1. Inside itself a kernel's name means the op.
kernel softmax(
    input X: tensor,
    output Y: tensor
) {
    Y = softmax(X, axis=-1);
}
"""

LAYER_NORM = """\
// Rows of mean 0 and variance 1, then scaled and shifted column by column.
kernel layer_norm(
    input X: tensor<M, N>,
    input gamma: tensor<N>,
    input beta: tensor<N>,
    output Y: tensor<M, N>
) {
    Y = layer_norm(X, weight=gamma, bias=beta, eps=1e-5);
}
"""

RMS_NORM = """\
// Rows of root mean square 1, then scaled column by column.
kernel rms_norm(
    input X: tensor<M, N>,
    input gamma: tensor<N>,
    output Y: tensor<M, N>
) {
    Y = rms_norm(X, weight=gamma, eps=1e-6);
}
"""


def _softmax(x: Any) -> Any:
    shifted = np.exp(x - x.max(axis=-1, keepdims=True, initial=-np.inf))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def _layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = (centered * centered).mean(axis=-1, keepdims=True)
    return centered / np.sqrt(variance + 1e-5) * gamma + beta


def _rms_norm(x: Any, gamma: Any) -> Any:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * gamma


_ROWS = ((512, 1024), (17, 1000), (3, 127), (1, 17), (5, 3), (4, 1), (0, 8))

KERNELS = (
    KernelDefinition(
        "softmax",
        SOFTMAX,
        _softmax,
        (*((shape,) for shape in _ROWS), ((2, 3, 33),), ((1000,),)),
        FLOATS,
        "Softmax over the last axis, stable for large inputs.",
    ),
    KernelDefinition(
        "layer_norm",
        LAYER_NORM,
        _layer_norm,
        tuple((shape, shape[-1:], shape[-1:]) for shape in _ROWS),
        FLOATS,
        "Layer normalisation of rows with weight and bias.",
    ),
    KernelDefinition(
        "rms_norm",
        RMS_NORM,
        _rms_norm,
        tuple((shape, shape[-1:]) for shape in _ROWS),
        FLOATS,
        "Root-mean-square normalisation of rows with weight.",
    ),
)
