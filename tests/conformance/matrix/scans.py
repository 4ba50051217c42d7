"""Rows of positions, running folds, variances and logarithms of sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from conformance.matrix.reduction import columns, matrix, mean
from conformance.matrix.row import Array, Bound, Call, Row


def _position(name: str, function: Callable[..., Any]) -> Row:
    calls = (
        Call(f"{name}(a)", lambda a: np.asarray(function(a)).astype(object)),
        Call(f"{name}(a, dim=0)", lambda a: function(a, axis=0).astype(object)),
        Call(
            f"{name}(a, dim=1, keepdim=true)",
            lambda a: function(a, axis=1, keepdims=True).astype(object),
        ),
    )
    return Row(name, matrix, calls)


def _length(axis: int) -> Callable[..., int]:
    return lambda a: a.shape[axis]


def _running(name: str, function: Callable[..., Any], maker: str, axis: int) -> Row:
    def truth(a: Array) -> Array:
        return function(a, axis=axis)

    def size(a: Array) -> Array:
        return function(np.abs(a), axis=axis)

    bound = Bound(1, _length(axis), size)
    shapes = matrix if axis else columns
    return Row(name, shapes, (Call(f"{name}(a, dim={axis})", truth, bound),), makers={"a": maker})


def _variance(a: Array, unbiased: bool) -> Array:
    centered = a - mean(a, 1, True)
    count = a.shape[1] - unbiased
    if count <= 0:
        return np.full(a.shape[0], np.nan, np.longdouble)
    return np.sum(centered * centered, axis=1) / np.longdouble(count)


def _mean_square(a: Array) -> Array:
    return np.sum(a * a, axis=1) / np.longdouble(max(1, a.shape[1] - 1))


def _spread(name: str, finish: Callable[[Array], Array]) -> Row:
    bound = Bound(2, lambda a: 2 * a.shape[1] + 8, lambda a: finish(_mean_square(a)))
    calls = (
        Call(f"{name}(a, dim=1)", lambda a: finish(_variance(a, True)), bound),
        Call(f"{name}(a, dim=1, unbiased=false)", lambda a: finish(_variance(a, False)), bound),
    )
    return Row(name, matrix, calls, makers={"a": "small"})


def _log_sum(a: Array, axis: int, keep: bool = False) -> Array:
    if not a.shape[axis]:
        shape = [1 if keep else None if n == axis else s for n, s in enumerate(a.shape)]
        return np.full([s for s in shape if s is not None], -np.inf, np.longdouble)
    top = np.max(a, axis=axis, keepdims=True)
    top = np.where(np.isinf(top), 0, top)
    total = np.log(np.sum(np.exp(a - top), axis=axis, keepdims=True)) + top
    return total if keep else np.squeeze(total, axis=axis)


def log_softmax(a: Array) -> Array:
    """The logarithm of softmax along the last axis."""
    shifted = a - (np.max(a, axis=-1, keepdims=True) if a.size else 0)
    return shifted - _log_sum(shifted, a.ndim - 1, True) if a.size else a


def _log_size(a: Array) -> Array:
    finite = np.where(np.isfinite(a), np.abs(a), 0)
    return 1 + np.max(finite, axis=1, initial=0)


_LOG_SUM = Bound(2, lambda a: a.shape[1] + 8, _log_size)
_LOG_SOFTMAX = Bound(2, lambda a: a.shape[1] + 8, lambda a: 2 * _log_size(a)[:, None])

SCAN_ROWS: tuple[Row, ...] = (
    _position("argmax", np.argmax),
    _position("argmin", np.argmin),
    *(_running("cumsum", np.cumsum, "small", axis) for axis in (0, 1)),
    *(_running("cumprod", np.cumprod, "near one", axis) for axis in (0, 1)),
    _spread("variance", lambda value: value),
    _spread("std", np.sqrt),
    Row("reduce_any", matrix, (Call("reduce_any(a, dim=1)", lambda a: np.any(a, axis=1)),)),
    Row("reduce_all", matrix, (Call("reduce_all(a, dim=1)", lambda a: np.all(a, axis=1)),)),
    Row(
        "logsumexp",
        matrix,
        (Call("logsumexp(a, dim=1)", lambda a: _log_sum(a, 1), _LOG_SUM),),
        makers={"a": "small"},
    ),
    Row(
        "log_softmax",
        matrix,
        (Call("log_softmax(a)", log_softmax, _LOG_SOFTMAX),),
        makers={"a": "small"},
    ),
)
