"""Whether a result is what the reference gives, up to what rounding explains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wia_compiler.base.dtypes import DTYPES, DType
from wia_compiler.reference.comparison import (
    BASE_ROUNDINGS,
    EPSILON,
    Array,
    Comparison,
    compare,
    largest_magnitude,
)
from wia_compiler.runtime.build import Build


def compare_results(
    build: Build, inputs: Sequence[Array], results: Sequence[Array], expected: Sequence[Array]
) -> list[Comparison]:
    """Compare every result of a run with that of the reference.

    Integers and bools must be equal. Floats may differ by some units in the last place of the
    largest number that goes in or comes out, more where a result sums over many products.
    """
    elements = sum(spec.spec.num_elements for spec in build.outputs)
    roundings = BASE_ROUNDINGS + float(np.sqrt(build.flops / max(1, elements)))
    largest_input = max((largest_magnitude(array) for array in inputs), default=0.0)
    precision = _multiply_epsilon(build)
    return [
        compare(spec.name, result, wanted, roundings, precision, largest_input)
        for spec, result, wanted in zip(build.outputs, results, expected, strict=True)
    ]


def _multiply_epsilon(build: Build) -> float:
    """The precision of a target that multiplies in a type of its own, whatever the arguments'."""
    name: str | None = getattr(build.target, "multiply_dtype", None)
    dtype: DType | None = DTYPES.get(name) if name is not None else None
    return EPSILON[dtype.name] if dtype is not None else 0.0
