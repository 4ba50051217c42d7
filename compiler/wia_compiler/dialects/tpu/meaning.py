"""The arithmetic of the instructions, on numpy: the one definition that the simulator runs."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from wia_compiler.base.dtypes import DTYPES

Tile: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

# Rows of partial sums worked on at a time: 256 rows of 128 f32 stay in a CPU's second-level cache.
_ROWS_AT_ONCE = 256


def convert(values: Tile, dtype: str) -> Tile:
    """A copy in another dtype of the language, rounded to nearest, ties to even."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(DTYPES[dtype].numpy)


def systolic_product(inputs: Tile, weights: Tile) -> Tile:
    """The sums one pass adds to the accumulators: (M, K) bf16 times (K, N) bf16 gives (M, N) f32.

    Products of two bf16 numbers are exact in f32 unless they overflow or underflow. Column n of
    row m is the f32 sum of its products in the order k = 0, 1, …, starting from 0, as partial
    sums travel down a column.
    """
    wide = weights.astype(np.float32)
    sums = np.zeros((inputs.shape[0], weights.shape[1]), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, inputs.shape[0], _ROWS_AT_ONCE):
            part = sums[first : first + _ROWS_AT_ONCE]
            columns = inputs[first : first + _ROWS_AT_ONCE].T.astype(np.float32, order="C")
            product = np.empty_like(part)
            for column, row in zip(columns, wide, strict=True):
                np.multiply(column[:, None], row, out=product)
                np.add(part, product, out=part)
    return sums


def add(left: Tile, right: Tile) -> Tile:
    """Sum in f32; one row, one column or one element is repeated to fit the other side."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.add(left, right, dtype=np.float32)


def relu(values: Tile) -> Tile:
    """The larger of each element and 0; NaN stays NaN."""
    with np.errstate(invalid="ignore"):
        return np.maximum(values, np.float32(0))


def round_to(values: Tile, dtype: str) -> Tile:
    """f32 values, each the nearest one that ``dtype`` can hold."""
    return convert(convert(values, dtype), "f32")
