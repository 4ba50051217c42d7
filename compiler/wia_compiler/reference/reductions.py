"""The meaning of ops that fold axes, on numpy.

A fold of floats is carried in f64 and rounded once to the accumulator (f32 for f32 and below),
then to the op's dtype: the value that every order of accumulation approaches. Softmax and the
norms take each of their other steps in the accumulator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import Attributes
from wia_compiler.dialects.wia.reduction import normalized_axes
from wia_compiler.dialects.wia.rules import normalize_axes, normalize_axis
from wia_compiler.reference.elementwise import (
    Meaning,
    Named,
    function_of,
    inverse_root,
    largest,
    smallest,
)
from wia_compiler.reference.rounding import (
    Array,
    accumulator,
    dtype_of_array,
    exact,
    round_fold,
    round_to,
    widen,
)


def spec_of_array(array: Array) -> TensorSpec:
    """Shape and dtype of a numpy array."""
    return TensorSpec(array.shape, dtype_of_array(array))


def _fold(function: Callable[..., Any], *, selects: bool = False) -> Meaning:
    def meaning(operands: Named, attributes: Attributes) -> Array:
        x = operands["input"]
        dtype = dtype_of_array(x)
        axes = normalize_axes(attributes["dim"], spec_of_array(x))
        keep = bool(attributes["keepdim"])
        if not dtype.is_float:
            options = {} if selects else {"dtype": dtype.numpy}
            return np.asarray(function(x, axis=axes, keepdims=keep, **options), dtype.numpy)
        wide = widen(x) if selects else exact(x)
        return round_fold(np.asarray(function(wide, axis=axes, keepdims=keep)), dtype)

    return meaning


def total(x: Array, axes: tuple[int, ...]) -> Array:
    """The sum over axes, which are kept with size 1, in the dtype of ``x``."""
    return round_to(np.asarray(np.sum(exact(x), axis=axes, keepdims=True)), dtype_of_array(x))


def mean(x: Array, axes: tuple[int, ...]) -> Array:
    """The mean over axes, which are kept with size 1; NaN of no elements."""
    count = np.prod([x.shape[axis] for axis in axes], dtype=np.float64)
    return total(x, axes) / x.dtype.type(count)


def _mean(operands: Named, attributes: Attributes) -> Array:
    x = operands["input"]
    axes = normalize_axes(attributes["dim"], spec_of_array(x))
    result = round_to(mean(accumulator(x), axes), dtype_of_array(x))
    return result if attributes["keepdim"] else np.squeeze(result, axis=axes)


def _softmax(operands: Named, attributes: Attributes) -> Array:
    x = operands["input"]
    axes = (normalize_axis(attributes["dim"], spec_of_array(x)),)
    if not x.size:
        return x.copy()
    wide = accumulator(x)
    powers = function_of(np.exp, wide - np.max(wide, axis=axes, keepdims=True))
    sums = total(powers, axes)
    # The sum is at least 1: its inverse is rounded once, and a row needs one division.
    return round_to(powers * (sums.dtype.type(1) / sums), dtype_of_array(x))


def _layer_norm(operands: Named, attributes: Attributes) -> Array:
    x = operands["input"]
    axes = normalized_axes(spec_of_array(x), attributes, "layer_norm")
    wide = accumulator(x)
    centered = wide - mean(wide, axes)
    variance = mean(centered * centered, axes)
    result = centered * _inverse_root(variance, attributes["eps"])
    if "weight" in operands:
        result = result * accumulator(operands["weight"])
    if "bias" in operands:
        result = result + accumulator(operands["bias"])
    return round_to(result, dtype_of_array(x))


def _rms_norm(operands: Named, attributes: Attributes) -> Array:
    x = operands["input"]
    axes = normalized_axes(spec_of_array(x), attributes, "rms_norm")
    eps = attributes["eps"]
    if eps is None:
        eps = machine_epsilon(spec_of_array(x))
    wide = accumulator(x)
    result = wide * _inverse_root(mean(wide * wide, axes), eps)
    if "weight" in operands:
        result = result * accumulator(operands["weight"])
    return round_to(result, dtype_of_array(x))


def machine_epsilon(spec: TensorSpec) -> float:
    """The distance from 1 to the next larger value of a float dtype."""
    one = np.ones((), spec.dtype.numpy)
    return float(np.nextafter(one, np.full((), 2, spec.dtype.numpy))) - 1.0


def _inverse_root(variance: Array, eps: object) -> Array:
    shifted = variance + variance.dtype.type(eps)
    return function_of(inverse_root, shifted)


REDUCTION_MEANING: dict[str, Meaning] = {
    "reduce_sum": _fold(np.sum),
    "reduce_prod": _fold(np.prod),
    "reduce_max": _fold(largest, selects=True),
    "reduce_min": _fold(smallest, selects=True),
    "reduce_mean": _mean,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
}
