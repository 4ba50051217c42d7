"""Rows of windows that slide: pools and folds over them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from conformance.matrix.row import Array, Bound, Call, Row, Shape


def _size(condition: str) -> int:
    return int(condition) if condition.isdigit() else 9


def line(condition: str) -> tuple[Shape, ...]:
    """Samples of channels over one axis of the size."""
    return ((2, 3, _size(condition)),)


def plane(condition: str) -> tuple[Shape, ...]:
    """Samples of channels over two axes, the last of the size."""
    return ((1, 2, 5, _size(condition)),)


def even(condition: str) -> tuple[Shape, ...]:
    """As many channels as the size, over two axes that windows divide."""
    return ((1, _size(condition), 4, 6),)


def windows(
    a: Array, kernel: tuple[int, ...], stride: int, padding: int, ceil: bool = False
) -> list[list[Array]]:
    """The elements of each window over the last axes, without padding, in row-major order.

    One list a window; each of its entries has the shape of the other axes.
    """
    axes = range(a.ndim - len(kernel), a.ndim)
    starts = [
        _starts(a.shape[axis], size, stride, padding, ceil)
        for axis, size in zip(axes, kernel, strict=True)
    ]
    found = list[list[Array]]()
    for corner in itertools.product(*starts):
        ranges = [
            [at + tap for tap in range(size) if 0 <= at + tap < a.shape[axis]]
            for at, size, axis in zip(corner, kernel, axes, strict=True)
        ]
        found.append([a[(..., *index)] for index in itertools.product(*ranges)])
    return found


def _starts(size: int, kernel: int, stride: int, padding: int, ceil: bool) -> list[int]:
    room = size + 2 * padding - kernel
    count = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (count - 1) * stride >= size + padding:
        count -= 1  # PyTorch drops a window that would begin in the padding behind
    return [number * stride - padding for number in range(count)]


def pooled(
    a: Array,
    kernel: tuple[int, ...],
    stride: int,
    padding: int,
    fold: Callable[[list[Array]], Any],
    ceil: bool = False,
) -> Array:
    """One fold of each window, in the shape of the result."""
    axes = range(a.ndim - len(kernel), a.ndim)
    counts = [
        len(_starts(a.shape[axis], size, stride, padding, ceil))
        for axis, size in zip(axes, kernel, strict=True)
    ]
    made = [np.asarray(fold(each)) for each in windows(a, kernel, stride, padding, ceil)]
    kept = a.shape[: a.ndim - len(kernel)]
    return (
        np.stack(made, axis=-1).reshape(*kept, *counts)
        if made
        else np.zeros((*kept, *counts), a.dtype)
    )


def _largest(each: list[Array]) -> Array:
    return np.max(np.stack(each), axis=0)


def _smallest(each: list[Array]) -> Array:
    return np.min(np.stack(each), axis=0)


def _total(each: list[Array]) -> Array:
    return np.sum(np.stack(each), axis=0)


def _mean_of(count: int | None) -> Callable[[list[Array]], Array]:
    return lambda each: _total(each) / np.longdouble(count or len(each))


def _mean(text: str, kernel: tuple[int, ...], stride: int, padding: int, count: int | None) -> Call:
    fold = _mean_of(count)
    return Call(
        text,
        lambda a: pooled(a, kernel, stride, padding, fold),
        Bound(1, 12, lambda a: pooled(np.abs(a), kernel, stride, padding, fold)),
    )


def _extreme(
    text: str, kernel: tuple[int, ...], stride: int, padding: int, ceil: bool = False
) -> Call:
    return Call(text, lambda a: pooled(a, kernel, stride, padding, _largest, ceil))


def _row(name: str, shapes: Callable[[str], tuple[Shape, ...]], *calls: Call) -> Row:
    return Row(name, shapes, calls, makers={"a": "small"})


_SUMS = Bound(1, 12, lambda a: pooled(np.abs(a), (3,), 2, 1, _total))

WINDOW_ROWS: tuple[Row, ...] = (
    _row(
        "reduce_window",
        line,
        _extreme('reduce_window(a, "max", [3], stride=[2], padding=[1])', (3,), 2, 1),
        Call(
            'reduce_window(a, "min", [3], stride=[1])',
            lambda a: pooled(a, (3,), 1, 0, _smallest),
        ),
        Call(
            'reduce_window(a, "sum", [3], stride=[2], padding=[1])',
            lambda a: pooled(a, (3,), 2, 1, _total),
            _SUMS,
        ),
    ),
    _row("max_pool", plane, _extreme("max_pool(a, 2)", (2, 2), 2, 0)),
    _row(
        "max_pool1d",
        line,
        _extreme("max_pool1d(a, 3, stride=2, padding=1)", (3,), 2, 1),
        _extreme("max_pool1d(a, 3, stride=2, ceil_mode=true)", (3,), 2, 0, True),
    ),
    _row("max_pool2d", plane, _extreme("max_pool2d(a, 3, stride=2, padding=1)", (3, 3), 2, 1)),
    _row("avg_pool", plane, _mean("avg_pool(a, 2)", (2, 2), 2, 0, 4)),
    _row(
        "avg_pool1d",
        line,
        _mean("avg_pool1d(a, 3, stride=2, padding=1)", (3,), 2, 1, 3),
        _mean("avg_pool1d(a, 3, 2, 1, count_include_pad=false)", (3,), 2, 1, None),
    ),
    _row("avg_pool2d", plane, _mean("avg_pool2d(a, 3, stride=2, padding=1)", (3, 3), 2, 1, 9)),
    _row(
        "adaptive_avg_pool",
        even,
        Call(
            "adaptive_avg_pool(a, [2, 3])",
            lambda a: pooled(a, (2, 2), 2, 0, _mean_of(4)),
            Bound(1, 12, lambda a: pooled(np.abs(a), (2, 2), 2, 0, _mean_of(4))),
        ),
    ),
    _row(
        "adaptive_avg_pool1d",
        line,
        _mean("adaptive_avg_pool1d(a, {n})", (1,), 1, 0, 1),
    ),
    _row(
        "adaptive_avg_pool2d",
        even,
        _mean("adaptive_avg_pool2d(a, [2, 3])", (2, 2), 2, 0, 4),
    ),
    _row("adaptive_max_pool", even, _extreme("adaptive_max_pool(a, [2, 3])", (2, 2), 2, 0)),
    _row(
        "global_avg_pool",
        even,
        Call(
            "global_avg_pool(a)",
            lambda a: np.sum(a, axis=(2, 3), keepdims=True) / 24,
            Bound(1, 24, lambda a: np.sum(np.abs(a), axis=(2, 3), keepdims=True) / 24),
        ),
    ),
    _row(
        "global_max_pool",
        even,
        Call("global_max_pool(a)", lambda a: np.max(a, axis=(2, 3), keepdims=True)),
    ),
)
