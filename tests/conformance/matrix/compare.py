"""How far a result is from the truth, in units of what the contract allows."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
from conformance.matrix.row import Array, Bound, Call
from wia_compiler.base.dtypes import DTYPES, DType, from_numpy


def as_exact(array: Array) -> Array:
    """Floats as ``longdouble``, integers as Python numbers, bools as they are."""
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind in "iu":
        return array.astype(object)
    return array.astype(np.float64).astype(np.longdouble)


def unit_in_last_place(value: Array, dtype: DType) -> Array:
    """The distance between neighbours of a float dtype at a value."""
    info = ml_dtypes.finfo(dtype.numpy)
    magnitude = np.maximum(np.abs(value), np.longdouble(float(info.smallest_normal)))
    return np.exp2(np.floor(np.log2(magnitude))) * np.longdouble(float(info.eps))


def wrapped(value: Array, dtype: DType) -> Array:
    """Python numbers in the range of an integer dtype, modulo 2 to the number of its bits."""
    limits = np.iinfo(dtype.numpy)
    low, count = int(limits.min), int(limits.max) - int(limits.min) + 1
    flat = [(int(each) - low) % count + low for each in np.asarray(value, object).reshape(-1)]
    return np.array(flat, dtype.numpy).reshape(np.shape(value))


def truth_of(call: Call, operands: Sequence[Array], result: DType) -> Array | None:
    """What the row says the result is: ``longdouble`` for floats, else the dtype itself."""
    if call.truth is None:
        return None
    with np.errstate(all="ignore"):
        value = np.asarray(call.truth(*(as_exact(array) for array in operands)))
    if result.is_float:
        return value.astype(np.longdouble)
    return wrapped(value, result) if result.is_integer else value.astype(bool)


def allowance(bound: Bound, operands: Sequence[Array], truth: Array, dtype: DType) -> Array:
    """The largest error a float result may have, element by element."""
    with np.errstate(all="ignore"):
        # An exact op of f64 is rounded once more on its way out of the longdouble.
        allowed = max(bound.ulps, 0.5 + 2.0**-10) * unit_in_last_place(truth, dtype)
        if bound.scale is None:
            return allowed
        exact = [as_exact(array) for array in operands]
        terms = bound.terms(*operands) if callable(bound.terms) else bound.terms
        epsilon = float(ml_dtypes.finfo(DTYPES[dtype.accumulator].numpy).eps)
        return allowed + np.longdouble(epsilon * terms) * np.abs(bound.scale(*exact))


def check_close(
    found: Array, truth: Array, bound: Bound, operands: Sequence[Array], what: str
) -> float:
    """Fail unless a float result is within its bound; the largest error in ulp of the truth.

    NaN and infinities stand where they belong. A truth beyond the largest number is an infinity,
    and a number near that border may be either.
    """
    dtype = from_numpy(found.dtype)
    assert dtype is not None
    have = as_exact(found)
    assert have.shape == truth.shape, f"{what}: shape {have.shape}, expected {truth.shape}"
    if not have.size:
        return 0.0
    with np.errstate(all="ignore"):
        largest = np.longdouble(float(ml_dtypes.finfo(dtype.numpy).max))
        allowed = np.broadcast_to(allowance(bound, operands, truth, dtype), truth.shape)
        error = np.abs(have - truth)
        same = (have == truth) | (np.isnan(have) & np.isnan(truth))
        near_border = (np.abs(truth) + allowed > largest) & (np.sign(have) == np.sign(truth))
        good = same | (error <= allowed) | (np.isinf(have) & near_border)
    if not good.all():
        first = tuple(int(axis[0]) for axis in np.nonzero(~good))
        raise AssertionError(
            f"{what}: {int((~good).sum())} of {good.size} elements, first at {first}: "
            f"{have[first]!s}, expected {truth[first]!s} ± {allowed[first]!s}; "
            f"operands {[array[first] for array in operands if array.shape == have.shape]}"
        )
    return _largest_ulps(error, truth, dtype)


def _largest_ulps(error: Array, truth: Array, dtype: DType) -> float:
    with np.errstate(all="ignore"):
        units = error / unit_in_last_place(truth, dtype)
    return float(np.max(units, initial=0.0, where=np.isfinite(units)))


def check_same(found: Array, expected: Array, what: str) -> None:
    """Fail unless dtype, shape and bits are equal; all NaN are alike, zeros have their signs."""
    assert found.dtype == expected.dtype, f"{what}: {found.dtype}, expected {expected.dtype}"
    assert found.shape == expected.shape, f"{what}: {found.shape}, expected {expected.shape}"
    one, other = (as_exact(each) for each in (found, expected))
    same = np.asarray(one == other)
    if found.dtype.kind not in "iub":
        same = np.where(
            np.isnan(one), np.isnan(other), same & (np.signbit(one) == np.signbit(other))
        )
    if not np.all(same):
        first = tuple(int(axis[0]) for axis in np.nonzero(~same))
        raise AssertionError(
            f"{what}: {int((~same).sum())} of {same.size} elements, first at {first}: "
            f"{one[first]!s}, expected {other[first]!s}"
        )
