"""Ops on the CPU beside the reference at the sizes where they could go wrong: 0, 1, odd, rank 0.

Each row is a call and the shapes of its inputs ``a``, ``b`` and ``c``; a shape of a class number or
an index is marked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import wia_compiler as wia

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Index:
    """The shape of whole numbers from 0 to 2."""

    shape: Shape


def array_of(shape: Shape | Index | Array) -> Array:
    """Numbers of a shape, the same at every run; an array is itself."""
    if isinstance(shape, np.ndarray):
        return shape
    if isinstance(shape, Index):
        return np.arange(int(np.prod(shape.shape))).reshape(shape.shape) % 3
    return (np.arange(int(np.prod(shape)), dtype=np.float32) * 0.37 % 3 - 1).reshape(shape)


def i8(*values: int) -> Array:
    """A list of i8."""
    return np.array(values, np.int8)


ROWS: tuple[tuple[Any, ...], ...] = (
    ("attention(a, b, c)", (2, 0, 4), (2, 3, 4), (2, 3, 5)),
    ("attention(a, b, c)", (2, 3, 4), (2, 0, 4), (2, 0, 5)),
    ("attention(a, b, c)", (1, 1), (1, 1), (1, 1)),
    ("attention(a, b, c, causal=true)", (2, 17, 3), (2, 5, 3), (2, 5, 127)),
    ("attention(a, b, c, causal=true)", (3, 4, 0), (3, 5, 0), (3, 5, 2)),
    ("cross_entropy(a, b)", (0, 3), Index((0,))),
    ("cross_entropy(a, b)", (1, 3), Index((1,))),
    ("cross_entropy(a, b)", (127, 3), Index((127,))),
    ("cross_entropy(a, b)", (3,), Index(())),
    ("nll_loss(a, b)", (0, 3, 2), Index((0, 2))),
    ("mse_loss(a, a)", (0,)),
    ('mse_loss(a, a, reduction="sum")', (0,)),
    ("conv_transpose2d(a, b)", (0, 2, 3, 3), (2, 1, 2, 2)),
    ("conv1d(a, b, padding=1)", (1, 1, 1), (1, 1, 3)),
    ("conv1d(a, b)", (2, 0, 5), (3, 0, 2)),
    ("linear(a, b)", (0, 4), (3, 4)),
    ("linear(a, b)", (2, 0), (3, 0)),
    ("linear(a, b, c)", (4,), (4,), ()),
    ("linear(a, b, c)", (4,), (3, 4), (3,)),
    ("max_pool2d(a, 2)", (0, 3, 4, 4)),
    ("max_pool1d(a, 1)", (1, 1, 1)),
    ("avg_pool2d(a, 3, stride=2, padding=1, ceil_mode=true)", (1, 1, 1, 127)),
    ("adaptive_avg_pool1d(a, 1)", (0, 3, 5)),
    ("global_avg_pool(a)", (2, 0, 3)),
    ("batch_norm(a, b, b * b)", (0, 3, 2), (3,)),
    ("group_norm(a, 3)", (0, 6, 2)),
    ("group_norm(a, 3)", (2, 6)),
    ("group_norm(a, 2)", (2, 4, 0)),
    ("instance_norm(a)", (2, 3, 1)),
    ("log_softmax(a)", (3, 1)),
    ("log_softmax(a)", (0, 3)),
    ("logsumexp(a, 0)", (0, 3)),
    ("logsumexp(a, 1)", (0, 3)),
    ("variance(a)", (1,)),
    ("variance(a)", ()),
    ("variance(a, 0)", (0, 3)),
    ("std(a, 1)", (3, 1000)),
    ("reduce_any(a > 0.5, 0)", (0, 3)),
    ("reduce_all(a > 0.5, 0)", (0, 3)),
    ("reduce_any(a > 0.5)", (17, 127)),
    ("argmax(a)", (1000,)),
    ("argmax(a)", (3, 17)),
    ("argmax(a)", ()),
    ("argmax(a, dim=1)", (0, 17)),
    ("argmin(a, dim=0, keepdim=true)", (17, 3)),
    ("cumsum(a, 0)", (0,)),
    ("cumsum(a, 1)", (3, 1000)),
    ("cumprod(a, 0)", (1, 5)),
    ("cumsum(a, 0)", (0, 4)),
    ("concat([a, b])", (0,), (3,)),
    ("concat([a, b], dim=1)", (3, 0), (3, 0)),
    ("concat([a, a, a])", (17,)),
    ("stack([a, a], dim=-1)", (3, 5)),
    ("stack([a, b])", (), ()),
    ("slice(a, starts=[5])", (3,)),
    ("slice(a, steps=[-1, -2])", (5, 7)),
    ("flip(a, [0])", (0, 3)),
    ("roll(a, 3)", (0,)),
    ("roll(a, [1], dims=[1])", (3, 1)),
    ("pad(a, [1, 1], interior=2)", (0,)),
    ("pad(a, [1, 1], interior=2)", (1,)),
    ("pad(a, [0, 0, 2, 0], value=3)", (0, 2)),
    ("pad(a, [-1, -1])", (2,)),
    ('pad(a, [2, 2], mode="replicate")', (1, 1)),
    ("gather(a, 0, b)", (3, 4), Index((0, 4))),
    ("index_select(a, 1, b)", (3, 4), Index(())),
    ("embedding(b, a)", (3, 4), Index((0,))),
    ("embedding(b, a)", (3, 4), Index((2, 1, 2))),
    ("one_hot(a, 3)", Index(())),
    ("one_hot(a, 3)", Index((0, 2))),
    ("one_hot(a - 1, 2)", Index((5,))),
    ("tile(a, [2, 0])", (3,)),
    ("tile(a, [3])", ()),
    ("repeat_interleave(a, 0)", (3,)),
    ("tril(a)", (0, 3)),
    ("tril(a, -1)", (1, 1)),
    ("squeeze(a)", (1, 1)),
    ("chunk(a, 4, 1)", (5,)),
    ("quantize(a, 0.1)", (0,)),
    ("dequantize(cast(a, i8), b, axis=0)", (0, 3), (0,)),
    ("glu(a)", (3, 0)),
    ("glu(a, dim=0)", (2, 1)),
    ("matmul_integer(cast(a, i8), cast(b, u8))", (2, 0), (0, 3)),
    ("iota(0)",),
    ("iota([3, 1, 2], dim=0, dtype=f32)",),
    ("iota(like=a, dim=0, dtype=i8)", (300,)),
    ("pixel_shuffle(a, 2)", (0, 4, 1, 1)),
    ("pow(a, b)", i8(3, -1, 0, 2, 1, 0, -1), i8(5, -3, 0, 100, -128, -1, 127)),
    ("bitwise_left_shift(a, b)", i8(1, -1, 127, 5), i8(9, 3, -1, 8)),
    ("bitwise_right_shift(a, b)", i8(-1, -128, 127, 5), i8(-1, 3, 8, 100)),
    ('reduce_window(a, "max", [2], padding=[[2, 0]], stride=[1])', (3,)),
    ("bitwise_not(a > 0.0)", (4,)),
)


@pytest.mark.parametrize("row", ROWS, ids=[f"{n}-{row[0]}" for n, row in enumerate(ROWS)])
def test_cpu_agrees_with_the_reference(row: tuple[Any, ...]) -> None:
    call, *shapes = row
    arrays = [array_of(shape) for shape in shapes]
    parameters = ", ".join(f"input {name}: tensor" for name in "abc"[: len(arrays)])
    kernel = wia.compile(f"kernel k({parameters}) {{ return {call}; }}")["k"]
    expected, found = np.asarray(wia.reference(kernel, *arrays)), np.asarray(kernel(*arrays))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(
        found.astype(np.float64), expected.astype(np.float64), rtol=1e-5, atol=1e-5
    )
