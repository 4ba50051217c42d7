"""Losses of a batch: one number from many."""

from __future__ import annotations

from typing import Any

import numpy as np

from wia_kernels.definition import FLOATS, KernelDefinition

CLASSIFICATION_LOSS = """\
// Cross-entropy of scores with the class that each row of targets marks with its largest element.
kernel classification_loss(
    input scores: tensor<N, C>,
    input targets: tensor<N, C>,
    output losses: tensor<N>
) {
    losses = cross_entropy(scores, argmax(targets, dim=1), reduction="none");
}
"""

SQUARED_ERROR = """\
// The squared distance of each row of X from the same row of Y.
kernel squared_error(
    input X: tensor<M, N>,
    input Y: tensor<M, N>,
    output E: tensor<M>
) {
    let difference = X - Y;
    E = reduce_sum(difference * difference, dim=1);
}
"""


def _classification_loss(scores: Any, targets: Any) -> Any:
    shifted = scores - scores.max(axis=1, keepdims=True, initial=-np.inf)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -logs[np.arange(len(scores)), targets.argmax(axis=1)]


def _squared_error(x: Any, y: Any) -> Any:
    return ((x - y) ** 2).sum(axis=1)


_CASES = (
    ((512, 1000), (512, 1000)),
    ((17, 127), (17, 127)),
    ((3, 1), (3, 1)),
    ((1, 33), (1, 33)),
    ((0, 5), (0, 5)),
)

KERNELS = (
    KernelDefinition(
        "classification_loss",
        CLASSIFICATION_LOSS,
        _classification_loss,
        _CASES,
        FLOATS,
        "Cross-entropy of each row of scores with its target class.",
    ),
    KernelDefinition(
        "squared_error",
        SQUARED_ERROR,
        _squared_error,
        _CASES,
        FLOATS,
        "Sum over each row of the squared differences of two arrays.",
    ),
)
