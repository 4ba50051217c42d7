"""Attention, for all keys and for those that are not later than the query."""

from __future__ import annotations

from typing import Any

import numpy as np

from wia_kernels.definition import FLOATS, KernelDefinition

ATTENTION = """\
// softmax(Q Kt / sqrt(E)) V of every batch and head. One kernel: scores never reach memory.
kernel attention(
    input Q: tensor<B, L, E>,
    input K: tensor<B, S, E>,
    input V: tensor<B, S, W>,
    output O: tensor<B, L, W>
) {
    O = attention(Q, K, V);
}
"""

CAUSAL_ATTENTION = """\
// Query i sees keys 0 to i, as in a language model.
kernel causal_attention(
    input Q: tensor<B, L, E>,
    input K: tensor<B, S, E>,
    input V: tensor<B, S, W>,
    output O: tensor<B, L, W>
) {
    O = attention(Q, K, V, causal=true);
}
"""


def _weighted(scores: Any, values: Any) -> Any:
    if not scores.shape[-1]:
        return np.zeros((*scores.shape[:-1], values.shape[-1]))
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis=-1, keepdims=True) @ values


def _scores(q: Any, k: Any) -> Any:
    return q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])


def _attention(q: Any, k: Any, v: Any) -> Any:
    return _weighted(_scores(q, k), v)


def _causal_attention(q: Any, k: Any, v: Any) -> Any:
    seen = np.arange(k.shape[1]) <= np.arange(q.shape[1])[:, None]
    return _weighted(np.where(seen, _scores(q, k), -np.inf), v)


def _case(b: int, length: int, s: int, e: int, w: int) -> tuple[tuple[int, ...], ...]:
    return (b, length, e), (b, s, e), (b, s, w)


_CASES = (
    _case(4, 128, 128, 64, 64),
    _case(2, 17, 33, 8, 8),
    _case(1, 3, 127, 16, 4),
    _case(1, 1, 1, 1, 1),
    _case(0, 5, 5, 4, 4),
)

KERNELS = (
    KernelDefinition(
        "attention",
        ATTENTION,
        _attention,
        _CASES,
        FLOATS,
        "Scaled dot-product attention.",
    ),
    KernelDefinition(
        "causal_attention",
        CAUSAL_ATTENTION,
        _causal_attention,
        _CASES,
        FLOATS,
        "Scaled dot-product attention to keys that are not later than the query.",
    ),
)
