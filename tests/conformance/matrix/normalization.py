"""Rows of normalisations along channels, of pools and of losses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from conformance.matrix.reduction import matrix
from conformance.matrix.row import Array, Bound, Call, Row, Shape
from conformance.matrix.scans import log_softmax


def _size(condition: str) -> int:
    return int(condition) if condition.isdigit() else 9


def statistics(condition: str) -> tuple[Shape, ...]:
    """Samples of three channels and what belongs to each channel, four times."""
    return ((2, 3, _size(condition)), *((3,),) * 4)


def channels(condition: str) -> tuple[Shape, ...]:
    """Samples of four channels, and two numbers for each channel."""
    return ((2, 4, _size(condition)), (4,), (4,))


def _batch_norm(x: Array, m: Array, v: Array, w: Array, b: Array) -> Array:
    m, v, w, b = (each[:, None] for each in (m, v, w, b))
    return (x - m) / np.sqrt(v + np.longdouble(1e-5)) * w + b


def _batch_norm_size(x: Array, m: Array, v: Array, w: Array, b: Array) -> Array:
    return _batch_norm(np.abs(x), -np.abs(m), v, np.abs(w), np.abs(b))


def _grouped(groups: int) -> Callable[[Array, Array, Array], Array]:
    def truth(x: Array, w: Array, b: Array) -> Array:
        if not x.size:
            return x
        parts = x.reshape(x.shape[0], groups, -1)
        centered = parts - np.mean(parts, axis=2, keepdims=True)
        variance = np.mean(centered * centered, axis=2, keepdims=True)
        normal = (centered / np.sqrt(variance + np.longdouble(1e-5))).reshape(x.shape)
        return normal * w[:, None] + b[:, None]

    return truth


def _norm_bound(groups: int) -> Bound:
    def count(x: Array, w: Array, b: Array) -> int:
        return x.shape[1] // groups * x.shape[2]

    def size(x: Array, w: Array, b: Array) -> Array:
        root = np.sqrt(np.longdouble(count(x, w, b)))
        return root * np.abs(w)[:, None] + np.abs(b)[:, None] + 0 * np.abs(x)

    return Bound(4, lambda x, w, b: 8 + count(x, w, b), size)


def _loss(
    name: str,
    each: Callable[[Array, Array], Array],
    size: Callable[[Array, Array], Array],
    maker: str,
) -> Row:
    calls = list[Call]()
    for reduction in ("mean", "sum", "none"):

        def reduced(values: Array, reduction: str = reduction) -> Array:
            if reduction == "none":
                return values
            total = np.sum(values)
            return total if reduction == "sum" else total / np.longdouble(values.size)

        def truth(a: Array, b: Array, reduced: Callable[[Array], Array] = reduced) -> Array:
            return np.asarray(reduced(each(a, b)))

        def scale(a: Array, b: Array, reduced: Callable[[Array], Array] = reduced) -> Array:
            return np.asarray(reduced(size(a, b)))

        bound = Bound(2, lambda a, b: 8 + a.size, scale)
        calls.append(Call(f'{name}(a, b, reduction="{reduction}")', truth, bound))
    return Row(name, pairs, tuple(calls), makers={"a": "small", "b": maker})


def pairs(condition: str) -> tuple[Shape, ...]:
    """Two matrices of one shape."""
    return matrix(condition) * 2


def classes(condition: str) -> tuple[Shape, ...]:
    """Scores of three classes for each sample, and the class of each."""
    return ((_size(condition), 3), (_size(condition),))


def _binary(a: Array, b: Array) -> Array:
    return np.maximum(a, 0) - a * b + np.log1p(np.exp(-np.abs(a)))


def _binary_size(a: Array, b: Array) -> Array:
    return 1 + np.abs(a) * (1 + np.abs(b))


def _chosen(a: Array, b: Array) -> Array:
    """The element of each row that ``b`` names."""
    return np.take_along_axis(a, b.astype(np.int64)[:, None], axis=1)[:, 0]


def _likelihood(a: Array, b: Array) -> Array:
    picked = -_chosen(a, b)
    return np.asarray(np.sum(picked) / np.longdouble(picked.size))


def _likelihood_size(a: Array, b: Array) -> Array:
    picked = np.abs(_chosen(a, b))
    return np.asarray(np.sum(picked) / np.longdouble(max(1, picked.size)))


def _entropy(a: Array, b: Array) -> Array:
    return _likelihood(log_softmax(a), b)


def _entropy_size(a: Array, b: Array) -> Array:
    finite = np.where(np.isfinite(a), np.abs(a), 0)
    return np.asarray(1 + 4 * np.max(finite, initial=0))


def _count(a: Array, b: Array) -> int:
    return 8 + a.size


NORMALIZATION_ROWS: tuple[Row, ...] = (
    Row(
        "batch_norm",
        statistics,
        (Call("batch_norm(a, b, c, d, e)", _batch_norm, Bound(2, 12, _batch_norm_size)),),
        makers={"a": "small", "b": "finite", "c": "positive", "d": "finite", "e": "finite"},
    ),
    Row(
        "group_norm",
        channels,
        (Call("group_norm(a, 2, b, c)", _grouped(2), _norm_bound(2)),),
        makers={"a": "small", "b": "finite", "c": "finite"},
    ),
    Row(
        "instance_norm",
        channels,
        (Call("instance_norm(a, weight=b, bias=c)", _grouped(4), _norm_bound(4)),),
        makers={"a": "small", "b": "finite", "c": "finite"},
    ),
    _loss(
        "mse_loss", lambda a, b: (a - b) ** 2, lambda a, b: (np.abs(a) + np.abs(b)) ** 2, "small"
    ),
    _loss("l1_loss", lambda a, b: np.abs(a - b), lambda a, b: np.abs(a) + np.abs(b), "small"),
    _loss("binary_cross_entropy_with_logits", _binary, _binary_size, "unit"),
    Row(
        "nll_loss",
        classes,
        (Call("nll_loss(a, b)", _likelihood, Bound(2, _count, _likelihood_size)),),
        dtypes={"b": "i64"},
        makers={"a": "small", "b": "below 3"},
    ),
    Row(
        "cross_entropy",
        classes,
        (Call("cross_entropy(a, b)", _entropy, Bound(2, _count, _entropy_size)),),
        dtypes={"b": "i64"},
        makers={"a": "small", "b": "below 3"},
    ),
)
