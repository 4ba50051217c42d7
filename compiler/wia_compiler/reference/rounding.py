"""How the reference rounds: from the precision it computes in to the dtype of a result."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from wia_compiler.base.dtypes import BF16, BOOL, DTYPES, F16, DType, from_numpy

Array: TypeAlias = "np.ndarray[Any, Any]"


def dtype_of_array(array: Array) -> DType:
    """The language's dtype of a numpy array; ``TypeError`` where it has none."""
    dtype = from_numpy(array.dtype)
    if dtype is None:
        raise TypeError(f"no dtype of the language for numpy's {array.dtype}")
    return dtype


def widen(array: Array) -> Array:
    """f16 and bf16 as f32, in which their ops compute; other dtypes as they are."""
    dtype = dtype_of_array(array)
    return array.astype(np.float32) if dtype in (F16, BF16) else array


def exact(array: Array) -> Array:
    """A float array as f64 in C order, in which functions and folds are computed."""
    return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)


def accumulator(array: Array) -> Array:
    """An array in the dtype that its folds are carried in (f32 for f16 and bf16)."""
    return array.astype(DTYPES[dtype_of_array(array).accumulator].numpy, copy=False)


def round_to(array: Array, dtype: DType) -> Array:
    """Floats rounded to the nearest value of a float dtype, ties to even; overflow gives inf."""
    if dtype is BF16 and array.dtype == np.float64:
        array = _to_odd_f32(array)
    return np.asarray(array).astype(dtype.numpy, copy=False)


def round_fold(array: Array, dtype: DType) -> Array:
    """The f64 value of a fold, rounded to the accumulator of ``dtype`` and then to ``dtype``."""
    return round_to(round_to(array, DTYPES[dtype.accumulator]), dtype)


def _to_odd_f32(array: Array) -> Array:
    """f64 to f32, inexact values to the neighbour with an odd last bit.

    Rounding such an f32 to bf16 gives what rounding the f64 directly would: numpy's own
    conversion goes through f32 and rounds twice.
    """
    nearest = array.astype(np.float32)
    bits = nearest.view(np.int32)
    inexact = np.isfinite(nearest) & (nearest.astype(np.float64) != array)
    too_large = np.abs(nearest.astype(np.float64)) > np.abs(array)
    truncated = bits - (inexact & too_large).astype(np.int32)
    return np.where(inexact, truncated | 1, bits).astype(np.int32).view(np.float32)


def cast(array: Array, dtype: DType) -> Array:
    """A value in another dtype, by the numerics contract.

    To a float it rounds to nearest even; a float to an integer truncates and saturates, NaN
    becomes 0; integers wrap; to bool is ``!= 0``. i64 reaches bf16 through f32.
    """
    source = dtype_of_array(array)
    if dtype is BOOL:
        return np.asarray(widen(array) != 0)
    if not source.is_float:
        return (
            array.astype(np.float32).astype(dtype.numpy)
            if dtype is BF16
            else array.astype(dtype.numpy)
        )
    if dtype.is_float:
        return round_to(array, dtype)
    return _saturate(exact(array), dtype)


def _saturate(array: Array, dtype: DType) -> Array:
    limits = np.iinfo(dtype.numpy)
    whole = np.trunc(np.where(np.isnan(array), 0.0, array))
    inside = (whole >= float(limits.min)) & (whole < float(limits.max) + 1.0)
    values = np.where(inside, whole, 0.0).astype(np.int64).astype(dtype.numpy)
    ends = np.where(whole < 0, limits.min, limits.max).astype(dtype.numpy)
    return np.where(inside, values, ends)
