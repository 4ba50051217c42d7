"""Rows of ops that fold axes, and of those built on folds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from conformance.matrix.row import Array, Bound, Call, Row, Shape


def matrix(condition: str) -> tuple[Shape, ...]:
    """A few rows of the size."""
    return ((3, int(condition)),) if condition.isdigit() else ((7, 18),)


def columns(condition: str) -> tuple[Shape, ...]:
    """A few columns of the size."""
    return ((int(condition), 3),) if condition.isdigit() else ((18, 7),)


def matrix_and_row(condition: str) -> tuple[Shape, ...]:
    """A matrix and two vectors as long as its rows."""
    ((rows, length),) = matrix(condition)
    return ((rows, length), (length,), (length,))


def _count(axis: int | None) -> Callable[..., int]:
    return lambda *arrays: arrays[0].size if axis is None else arrays[0].shape[axis]


def _summed(axis: int | None, *, keep: bool = False) -> Callable[[Array], Array]:
    return lambda a: np.sum(np.abs(a), axis=axis, keepdims=keep)


def _fold(name: str, function: Callable[..., Any], bounded: bool, shapes: Any) -> Row:
    calls = list[Call]()
    for axis, keep in ((None, False), (0, True), (1, False)):
        written = "" if axis is None else f", dim={axis}, keepdim={str(keep).lower()}"

        def truth(a: Array, axis: int | None = axis, keep: bool = keep) -> Array:
            return function(a, axis=axis, keepdims=keep)

        def size(a: Array, axis: int | None = axis, keep: bool = keep) -> Array:
            if name == "reduce_prod":
                return np.abs(np.prod(a, axis=axis, keepdims=keep))
            each = np.sum(np.abs(a), axis=axis, keepdims=keep)
            return each / max(1, _count(axis)(a)) if name == "reduce_mean" else each

        bound = Bound(ulps=1, terms=_count(axis), scale=size) if bounded else Bound()
        calls.append(Call(f"{name}(a{written})", truth, bound))
    return Row(name, shapes, tuple(calls), makers={"a": "near one" if "prod" in name else "small"})


def mean(a: Array, axis: int | None, keepdims: bool) -> Array:
    """The sum divided by the count: NaN of no elements."""
    return np.sum(a, axis=axis, keepdims=keepdims) / np.longdouble(_count(axis)(a))


def _fold_of_any(ufunc: np.ufunc) -> Callable[..., Any]:
    """A fold whose result over no elements of an integer type stays one."""

    def fold(a: Array, axis: int | None, keepdims: bool) -> Array:
        return np.asarray(ufunc.reduce(a, axis=axis, keepdims=keepdims))

    return fold


def largest(a: Array, axis: int | None, keepdims: bool) -> Array:
    """One ``maximum`` after another: NaN wins, +0 is larger than -0."""
    wide = a.astype(object)
    if axis is None:
        found = functools.reduce(_larger, wide.reshape(-1))
        return np.full((1,) * a.ndim if keepdims else (), found, object)
    return np.asarray(np.frompyfunc(_larger, 2, 1).reduce(wide, axis=axis, keepdims=keepdims))


def smallest(a: Array, axis: int | None, keepdims: bool) -> Array:
    """One ``minimum`` after another: NaN wins, -0 is smaller than +0."""
    return -largest(-a, axis, keepdims)


def _larger(x: Any, y: Any) -> Any:
    if x != x or y != y:
        return x if x != x else y
    return x + y if x == y == 0 else max(x, y)


def _softmax(axis: int) -> Callable[[Array], Array]:
    def truth(a: Array) -> Array:
        if not a.size:
            return a
        powers = np.exp(a - np.max(a, axis=axis, keepdims=True))
        return powers / np.sum(powers, axis=axis, keepdims=True)

    return truth


def _layer_norm(a: Array, b: Array, c: Array) -> Array:
    centered = a - mean(a, 1, True)
    variance = mean(centered * centered, 1, True)
    return centered / np.sqrt(variance + np.longdouble(1e-5)) * b + c


def _rms_norm(a: Array, b: Array, c: Array) -> Array:
    return a / np.sqrt(mean(a * a, 1, True) + np.longdouble(1e-5)) * b


def _ones(*arrays: Array) -> Array:
    return np.ones((), np.longdouble)


def _norm_size(a: Array, b: Array, c: Array) -> Array:
    """The largest a normalised element can be, scaled: the square root of the row's length."""
    return np.sqrt(np.longdouble(a.shape[1])) * np.abs(b) + np.abs(c)


def _length(*arrays: Array) -> float:
    return 8 + arrays[0].shape[-1]


_SOFTMAX = Bound(ulps=4, terms=lambda a: 4 + max(a.shape), scale=_ones)
_NORM = Bound(ulps=4, terms=_length, scale=_norm_size)

REDUCTION_ROWS: tuple[Row, ...] = (
    *(
        _fold(name, function, bounded, shapes)
        for shapes in (matrix, columns)
        for name, function, bounded in (
            ("reduce_sum", _fold_of_any(np.add), True),
            ("reduce_prod", _fold_of_any(np.multiply), True),
            ("reduce_max", largest, False),
            ("reduce_min", smallest, False),
            ("reduce_mean", mean, True),
        )
    ),
    Row(
        "softmax",
        matrix,
        (
            Call("softmax(a)", _softmax(-1), _SOFTMAX),
            Call("softmax(a, dim=0)", _softmax(0), _SOFTMAX),
        ),
        makers={"a": "small"},
    ),
    Row(
        "layer_norm",
        matrix_and_row,
        (Call("layer_norm(a, weight=b, bias=c)", _layer_norm, _NORM),),
        makers={"a": "small", "b": "finite", "c": "finite"},
    ),
    Row(
        "rms_norm",
        matrix_and_row,
        (Call("rms_norm(a, weight=b, eps=1e-5)", _rms_norm, _NORM),),
        makers={"a": "small", "b": "finite", "c": "finite"},
    ),
)
