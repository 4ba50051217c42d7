"""Rows of dense layers, 1-D and transposed convolutions, integer products and attention."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from conformance.matrix.contraction import convolution
from conformance.matrix.functions import own_roundings
from conformance.matrix.row import Array, Bound, Call, Row, Shape


def _size(condition: str) -> int:
    return int(condition) if condition.isdigit() else 9


def dense(condition: str) -> tuple[Shape, ...]:
    """A batch of rows, a weight out×in, and a bias."""
    return ((3, _size(condition)), (5, _size(condition)), (5,))


def bytes_product(condition: str) -> tuple[Shape, ...]:
    """Matrices that meet over the size."""
    return ((5, _size(condition)), (_size(condition), 9))


def signal(condition: str) -> tuple[Shape, ...]:
    """Samples of four channels, filters of two groups, and a bias."""
    return ((2, 4, _size(condition)), (6, 2, 3), (6,))


def transposed_signal(condition: str) -> tuple[Shape, ...]:
    """Samples of four channels and filters that make two channels of each."""
    return ((2, 4, _size(condition)), (4, 2, 3), (2,))


def transposed_image(condition: str) -> tuple[Shape, ...]:
    """Images of three channels and filters that make two channels of each."""
    return ((1, 3, 3, _size(condition)), (3, 2, 3, 2), (2,))


def heads(condition: str) -> tuple[Shape, ...]:
    """Queries, keys and values: as many keys as the size."""
    return ((2, 4, 8), (2, _size(condition), 8), (2, _size(condition), 5))


def masked(condition: str) -> tuple[Shape, ...]:
    """Queries, keys, values, and which keys a query sees."""
    return (*heads(condition), (4, _size(condition)))


def _biased(count: Callable[..., int]) -> Callable[..., float]:
    """A sum of products, rounded to the dtype before the bias is added."""
    half = own_roundings(0.5)
    return lambda *operands: count(*operands) + half(*operands)


def _conv1d(stride: int, padding: int, groups: int) -> Callable[[Array, Array, Array], Array]:
    plane = convolution(1, 0, 1, groups)

    def truth(x: Array, w: Array, b: Array) -> Array:
        margin = np.zeros((*x.shape[:2], padding), x.dtype)
        wide = np.concatenate([margin, x, margin], axis=2)
        return plane(wide[:, :, None], w[:, :, None], b)[:, :, 0, ::stride]

    return truth


def _transposed(stride: int, padding: int) -> Callable[[Array, Array, Array], Array]:
    def truth(x: Array, w: Array, b: Array) -> Array:
        space = w.ndim - 2
        sizes = [(n - 1) * stride + taps for n, taps in zip(x.shape[2:], w.shape[2:], strict=True)]
        result = np.zeros((x.shape[0], w.shape[1], *sizes), x.dtype)
        for tap in np.ndindex(*w.shape[2:]):
            part = np.einsum("bc...,cf->bf...", x, w[(slice(None), slice(None), *tap)])
            index = [
                slice(at, at + (n - 1) * stride + 1, stride)
                for at, n in zip(tap, x.shape[2:], strict=True)
            ]
            result[(slice(None), slice(None), *index)] += part
        if padding:
            inner = (slice(padding, -padding),) * space
            result = result[(slice(None), slice(None), *inner)]
        return result + b.reshape(-1, *[1] * space)

    return truth


def _sized(
    text: str, truth: Callable[[Array, Array, Array], Array], taps: Callable[..., int]
) -> Call:
    def size(x: Array, w: Array, b: Array) -> Array:
        return truth(np.abs(x), np.abs(w), np.abs(b))

    return Call(text, truth, Bound(1, _biased(taps), size))


def _attention(
    q: Array, k: Array, v: Array, seen: Array | None = None, causal: bool = False
) -> Array:
    scores = q @ np.swapaxes(k, 1, 2) / np.sqrt(np.longdouble(q.shape[2]))
    if causal:
        seen = np.tri(q.shape[1], k.shape[1], dtype=bool)
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    top = np.max(scores, axis=2, keepdims=True, initial=-np.inf)
    powers = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = np.sum(powers, axis=2, keepdims=True)
    weights = np.where(np.isneginf(top), 0, powers / total)
    # What is not seen has no influence, whatever stands there.
    return np.einsum("blk,bkd->bld", weights, v)


def _attention_size(q: Array, k: Array, v: Array, *rest: Array) -> Array:
    def largest(x: Array) -> Array:
        return np.max(np.where(np.isfinite(x), np.abs(x), 0), initial=0)

    return (1 + largest(q) * largest(k) * 8) * largest(v)


def _attention_terms(q: Array, k: Array, v: Array, *rest: Array) -> int:
    return 16 + k.shape[1]


_SEEN = Bound(2, _attention_terms, _attention_size)
_LAYER = {"a": "small", "b": "small", "c": "finite"}
# Zeros stand between and around the elements: NaN and inf in a filter would meet them.
_SPREAD = {"a": "small", "b": "finite", "c": "finite"}
_HEADS = {"a": "finite", "b": "finite", "c": "finite"}

LAYER_ROWS: tuple[Row, ...] = (
    Row(
        "linear",
        dense,
        (_sized("linear(a, b, c)", lambda x, w, b: x @ w.T + b, lambda x, w, b: w.shape[1]),),
        makers=_LAYER,
    ),
    Row(
        "matmul_integer",
        bytes_product,
        (Call("matmul_integer(a, b)", lambda a, b: a @ b),),
        only=("i8", "u8"),
    ),
    Row(
        "conv1d",
        signal,
        (
            _sized(
                "conv1d(a, b, c, stride=2, padding=1, groups=2)",
                _conv1d(2, 1, 2),
                lambda x, w, b: w[0].size,
            ),
        ),
        makers=_LAYER,
    ),
    Row(
        "conv_transpose1d",
        transposed_signal,
        (
            _sized(
                "conv_transpose1d(a, b, c, stride=2, padding=1)",
                _transposed(2, 1),
                lambda x, w, b: w[:, 0].size,
            ),
        ),
        makers=_SPREAD,
    ),
    Row(
        "conv_transpose2d",
        transposed_image,
        (
            _sized(
                "conv_transpose2d(a, b, c, stride=2)",
                _transposed(2, 0),
                lambda x, w, b: w[:, 0].size,
            ),
        ),
        makers=_SPREAD,
    ),
    Row(
        "attention",
        heads,
        (
            Call("attention(a, b, c)", _attention, _SEEN),
            Call(
                "attention(a, b, c, causal=true)",
                lambda q, k, v: _attention(q, k, v, causal=True),
                _SEEN,
            ),
        ),
        makers=_HEADS,
    ),
    Row(
        "attention",
        masked,
        (Call("attention(a, b, c, mask=d)", _attention, _SEEN),),
        dtypes={"d": "bool"},
        makers=_HEADS,
    ),
)
