"""Whether one array is what another is, up to what rounding explains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.dtypes import from_numpy

Array = NDArray[Any]

# Roundings that add up beside those of long sums.
BASE_ROUNDINGS = 8
# Distance from 1 to the next number: bits of the significand that are stored.
EPSILON = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}


@dataclass(frozen=True)
class Comparison:
    """One result beside the reference: its largest difference, and what rounding explains.

    ``largest_difference`` is infinite where shape, dtype, or the place of a NaN or an infinity
    differs.
    """

    name: str
    result: str
    largest_difference: float
    allowed: float
    mean: float

    @property
    def agrees(self) -> bool:
        """Whether rounding explains the difference."""
        return self.largest_difference <= self.allowed


def compare(
    name: str,
    result: Array,
    wanted: Array,
    roundings: float,
    operand_epsilon: float = 0.0,
    largest_input: float = 0.0,
) -> Comparison:
    """Compare one result; NaN and infinities must stand in the same places."""
    dtype = from_numpy(result.dtype)
    text = f"{dtype or result.dtype}[{','.join(map(str, result.shape))}]"
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf is NaN, and shown as such
        mean = float(result.mean(dtype=np.float64)) if result.size else float("nan")
    if dtype is None or result.shape != wanted.shape or result.dtype != wanted.dtype:
        return Comparison(name, text, float("inf"), 0.0, mean)
    if not dtype.is_float:
        return Comparison(name, text, _integer_difference(result, wanted), 0.0, mean)
    actual, exact = result.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(exact)
    if not np.array_equal(actual[~finite], exact[~finite], equal_nan=True):
        return Comparison(name, text, float("inf"), 0.0, mean)
    difference = float(np.abs(actual[finite] - exact[finite]).max(initial=0.0))
    # Rounded operands err in random directions: their sum errs no more, relative to its size.
    relative = roundings * EPSILON[dtype.name] + BASE_ROUNDINGS * operand_epsilon
    allowed = relative * max(largest_magnitude(wanted), largest_input)
    return Comparison(name, text, difference, allowed, mean)


def _integer_difference(result: Array, wanted: Array) -> float:
    if np.array_equal(result, wanted):
        return 0.0
    # At least 1, also where the numbers are too large for a float to tell them apart.
    return max(1.0, float(np.abs(result.astype(np.float64) - wanted.astype(np.float64)).max()))


def largest_magnitude(array: Array) -> float:
    """The largest finite magnitude of an array of floats; 0 for other types."""
    dtype = from_numpy(array.dtype)
    if dtype is None or not dtype.is_float:
        return 0.0
    magnitudes = np.abs(array.astype(np.float64))
    return float(magnitudes[np.isfinite(magnitudes)].max(initial=0.0))


def first_difference(result: Array, wanted: Array, allowed: float) -> tuple[int, ...] | None:
    """The index, in C order, of the first element that differs by more than ``allowed``.

    ``None`` where none does, or where shapes differ and no index is meant.
    """
    if result.shape != wanted.shape:
        return None
    actual, exact = result.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore"):
        differs = ~(np.abs(actual - exact) <= allowed)
    same = (result == wanted) | (np.isnan(actual) & np.isnan(exact))
    places = np.argwhere(differs & ~same)
    return tuple(int(each) for each in places[0]) if len(places) else None
