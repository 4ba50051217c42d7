"""Rows of ops that only place elements anew: exact for every dtype."""

from __future__ import annotations

import numpy as np
from conformance.matrix.row import Call, Row, Shape


def cube(condition: str) -> tuple[Shape, ...]:
    """Three axes, the middle one of the size."""
    return ((2, int(condition) if condition.isdigit() else 9, 3),)


def flat(condition: str) -> tuple[Shape, ...]:
    """A row that stretches."""
    return ((1, int(condition) if condition.isdigit() else 9),)


MOVEMENT_ROWS: tuple[Row, ...] = (
    Row(
        "reshape",
        cube,
        (
            Call("reshape(a, [3, -1])", lambda a: a.reshape(3, a.size // 3)),
            Call("reshape(a, [-1])", lambda a: a.reshape(a.size)),
        ),
    ),
    Row(
        "flatten",
        cube,
        (
            Call("flatten(a)", lambda a: a.reshape(a.size)),
            Call("flatten(a, 0, 1)", lambda a: a.reshape(-1, 3)),
        ),
    ),
    Row(
        "transpose",
        cube,
        (
            Call("transpose(a)", lambda a: np.swapaxes(a, -1, -2)),
            Call("transpose(a, 0, 2)", lambda a: np.swapaxes(a, 0, 2)),
        ),
    ),
    Row("permute", cube, (Call("permute(a, [1, 2, 0])", lambda a: np.transpose(a, (1, 2, 0))),)),
    Row(
        "broadcast",
        flat,
        (Call("broadcast(a, [4, {n}])", lambda a: np.broadcast_to(a, (4, a.shape[1]))),),
    ),
)
