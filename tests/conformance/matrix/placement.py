"""Rows of ops that take parts, put arrays together, and look elements up."""

from __future__ import annotations

import numpy as np
from conformance.matrix.movement import cube
from conformance.matrix.row import Array, Call, Row, Shape
from wia_compiler.base.dtypes import DTYPES


def _size(condition: str) -> int:
    return int(condition) if condition.isdigit() else 9


def thin(condition: str) -> tuple[Shape, ...]:
    """An array with axes of size 1."""
    return ((1, _size(condition), 1),)


def pair(condition: str) -> tuple[Shape, ...]:
    """Two arrays of one shape."""
    return cube(condition) * 2


def squares(condition: str) -> tuple[Shape, ...]:
    """Channels of four over two axes."""
    return ((1, 8, _size(condition), 3),)


def listed(condition: str) -> tuple[Shape, ...]:
    """An array whose last axis has three elements, and a list of positions in it."""
    return (*cube(condition), (5,))


def alike(condition: str) -> tuple[Shape, ...]:
    """An array whose last axis has three elements, and a position for each element."""
    return cube(condition) * 2


def table(condition: str) -> tuple[Shape, ...]:
    """Positions, and a table of five rows."""
    return ((_size(condition),), (5, 7))


def _padded(a: Array) -> Array:
    return np.concatenate([a, np.zeros((*a.shape[:2], 2), a.dtype)], axis=2)


def _interior(a: Array) -> Array:
    made = np.zeros((*a.shape[:2], max(2 * a.shape[2] - 1, 0)), a.dtype)
    made[:, :, ::2] = a
    return made


def _selected(a: Array, b: Array) -> Array:
    return np.take(a, b.astype(np.int64), axis=2)


def _gathered(a: Array, b: Array) -> Array:
    return np.take_along_axis(a, b.astype(np.int64), axis=2)


def _shuffled(a: Array) -> Array:
    n, channels, height, width = a.shape
    parts = a.reshape(n, channels // 4, 2, 2, height, width).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, channels // 4, 2 * height, 2 * width)


def _one_hot(a: Array) -> Array:
    return (a[..., None] == np.arange(5, dtype=object)).astype(int).astype(object)


def _positions(a: Array) -> Array:
    return np.broadcast_to(np.arange(a.shape[1])[:, None], a.shape).astype(object)


_NUMBERS = tuple(name for name in DTYPES if name != "bool")

PLACEMENT_ROWS: tuple[Row, ...] = (
    Row(
        "slice",
        cube,
        (
            Call("slice(a, [0, 1], [none, -1])", lambda a: a[0:, 1:-1]),
            Call("slice(a, steps=[1, -1])", lambda a: a[:, ::-1]),
            Call("slice(a, [none, 2], [none, 100], [none, 3])", lambda a: a[:, 2:100:3]),
        ),
    ),
    Row(
        "pad",
        cube,
        (
            Call("pad(a, [0, 2])", _padded),
            Call("pad(a, [-1, 1])", lambda a: _padded(a)[:, :, 1:4]),
            Call("pad(a, [0, 0], interior=[1])", _interior),
            Call(
                'pad(a, [1, 2], mode="reflect")',
                lambda a: np.pad(a, ((0, 0), (0, 0), (1, 2)), "reflect"),
            ),
            Call(
                'pad(a, [1, 2], mode="replicate")',
                lambda a: np.pad(a, ((0, 0), (0, 0), (1, 2)), "edge"),
            ),
            Call(
                'pad(a, [1, 2], mode="circular")',
                lambda a: np.pad(a, ((0, 0), (0, 0), (1, 2)), "wrap"),
            ),
        ),
    ),
    Row(
        "concat",
        pair,
        (
            Call("concat([a, b], dim=1)", lambda a, b: np.concatenate([a, b], axis=1)),
            Call("concat([a, b, a], dim=-1)", lambda a, b: np.concatenate([a, b, a], axis=-1)),
        ),
    ),
    Row("stack", pair, (Call("stack([a, b], dim=1)", lambda a, b: np.stack([a, b], axis=1)),)),
    Row(
        "iota",
        cube,
        tuple(Call(f"iota(like=a, dim=1, dtype={name})", _positions) for name in _NUMBERS),
    ),
    Row(
        "index_select",
        listed,
        (Call("index_select(a, 2, b)", _selected),),
        dtypes={"b": "i64"},
        makers={"b": "below 3"},
    ),
    Row(
        "gather",
        alike,
        (Call("gather(a, 2, b)", _gathered),),
        dtypes={"b": "i64"},
        makers={"b": "below 3"},
    ),
    Row(
        "embedding",
        table,
        (Call("embedding(a, b)", lambda a, b: b[a.astype(np.int64)]),),
        dtypes={"a": "i32"},
        makers={"a": "below 5"},
    ),
    Row("one_hot", cube, (Call("one_hot(a, 5)", _one_hot),), makers={"a": "below 5"}),
    Row("tril", cube, (Call("tril(a)", np.tril), Call("tril(a, -1)", lambda a: np.tril(a, -1)))),
    Row("triu", cube, (Call("triu(a)", np.triu), Call("triu(a, 1)", lambda a: np.triu(a, 1)))),
    Row("squeeze", thin, (Call("squeeze(a, [0, 2])", lambda a: a[0, :, 0]),)),
    Row("unsqueeze", cube, (Call("unsqueeze(a, -1)", lambda a: a[..., None]),)),
    Row("chunk", cube, (Call("chunk(a, 2, 1, dim=2)", lambda a: a[:, :, 2:]),)),
    Row("split", cube, (Call("split(a, 2, 0, dim=2)", lambda a: a[:, :, :2]),)),
    Row("narrow", cube, (Call("narrow(a, 2, 1, 2)", lambda a: a[:, :, 1:3]),)),
    Row("select", cube, (Call("select(a, 0, -1)", lambda a: a[-1]),)),
    Row("flip", cube, (Call("flip(a, [0, 1])", lambda a: a[::-1, ::-1]),)),
    Row(
        "roll",
        cube,
        (
            Call("roll(a, 1, 1)", lambda a: np.roll(a, 1, axis=1)),
            Call("roll(a, -2)", lambda a: np.roll(a, -2)),
        ),
    ),
    Row("tile", cube, (Call("tile(a, [2, 1, 2])", lambda a: np.tile(a, (2, 1, 2))),)),
    Row(
        "repeat_interleave",
        cube,
        (
            Call("repeat_interleave(a, 2, dim=2)", lambda a: np.repeat(a, 2, axis=2)),
            Call("repeat_interleave(a, 3)", lambda a: np.repeat(a, 3)),
        ),
    ),
    Row("pixel_shuffle", squares, (Call("pixel_shuffle(a, 2)", _shuffled),)),
)
