"""Random arrays of any dtype, the same for the same generator on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.dtypes import DType

# Small enough that sums and products of many elements stay in range.
INTEGER_RANGE = (-4, 5)


def random_array(
    shape: Sequence[int], dtype: DType, generator: np.random.Generator
) -> NDArray[Any]:
    """An array in C order.

    Floats are drawn from the standard normal distribution, integers from -4 … 4 (0 … 4 where
    unsigned), bools are even odds.
    """
    if dtype.is_float:
        return generator.standard_normal(shape).astype(dtype.numpy)
    if dtype.is_integer:
        low, high = INTEGER_RANGE
        low = max(low, 0) if dtype.kind == "uint" else low
        return generator.integers(low, high, shape).astype(dtype.numpy)
    return generator.integers(0, 2, shape).astype(np.bool_)


def with_strides(array: NDArray[Any], strides: Sequence[int] | None) -> NDArray[Any]:
    """The same elements in memory with other strides, in elements (``None``: C order).

    Where a stride is 0, the first element along that axis stands for all of them.
    """
    if strides is None or not array.size:
        return np.array(array, order="C")
    low = sum(min(0, (n - 1) * step) for n, step in zip(array.shape, strides, strict=True))
    high = sum(max(0, (n - 1) * step) for n, step in zip(array.shape, strides, strict=True))
    memory = np.zeros(high - low + 1, array.dtype)
    steps = [step * array.itemsize for step in strides]
    strided = np.lib.stride_tricks.as_strided(memory[-low:], array.shape, steps)
    own = tuple(slice(0, 1) if step == 0 else slice(None) for step in strides)
    strided[own] = array[own]
    return strided
