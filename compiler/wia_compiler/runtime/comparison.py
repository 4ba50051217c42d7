"""Whether a result is what the reference gives, up to what rounding explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.dtypes import DTYPES, DType, from_numpy
from wia_compiler.runtime.build import Build

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


def compare_results(
    build: Build, inputs: Sequence[Array], results: Sequence[Array], expected: Sequence[Array]
) -> list[Comparison]:
    """Compare every result of a run with that of the reference.

    Integers and bools must be equal. Floats may differ by some units in the last place of the
    largest number that goes in or comes out, more where a result sums over many products.
    """
    elements = sum(spec.spec.num_elements for spec in build.outputs)
    roundings = BASE_ROUNDINGS + float(np.sqrt(build.flops / max(1, elements)))
    largest_input = max((_largest(array) for array in inputs), default=0.0)
    precision = _multiply_epsilon(build)
    return [
        compare(spec.name, result, wanted, roundings, precision, largest_input)
        for spec, result, wanted in zip(build.outputs, results, expected, strict=True)
    ]


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
    allowed = relative * max(_largest(wanted), largest_input)
    return Comparison(name, text, difference, allowed, mean)


def _integer_difference(result: Array, wanted: Array) -> float:
    if np.array_equal(result, wanted):
        return 0.0
    # At least 1, also where the numbers are too large for a float to tell them apart.
    return max(1.0, float(np.abs(result.astype(np.float64) - wanted.astype(np.float64)).max()))


def _multiply_epsilon(build: Build) -> float:
    """The precision of a target that multiplies in a type of its own, whatever the arguments'."""
    name: str | None = getattr(build.target, "multiply_dtype", None)
    dtype: DType | None = DTYPES.get(name) if name is not None else None
    return EPSILON[dtype.name] if dtype is not None else 0.0


def _largest(array: Array) -> float:
    """The largest finite magnitude of an array of floats; 0 for other types."""
    dtype = from_numpy(array.dtype)
    if dtype is None or not dtype.is_float:
        return 0.0
    magnitudes = np.abs(array.astype(np.float64))
    return float(magnitudes[np.isfinite(magnitudes)].max(initial=0.0))
