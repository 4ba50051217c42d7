"""The meaning of ops that only place elements anew, on numpy."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from wia_compiler.dialects.wia.declaration import Attributes
from wia_compiler.dialects.wia.movement import broadcast_sizes, permutation_of
from wia_compiler.dialects.wia.rules import normalize_axis
from wia_compiler.reference.elementwise import Meaning, Named
from wia_compiler.reference.reductions import spec_of_array
from wia_compiler.reference.rounding import Array


def _sizes(attributes: Attributes, name: str) -> tuple[int, ...]:
    value = attributes[name]
    return cast("tuple[int, ...]", value if isinstance(value, tuple) else (value,))


def _reshape(operands: Named, attributes: Attributes) -> Array:
    x, sizes = operands["input"], _sizes(attributes, "shape")
    if -1 in sizes and x.size == 0:
        # numpy refuses to infer a size of an array without elements; the rule of the op allows it.
        known = math.prod(size for size in sizes if size != -1)
        sizes = tuple((0 // known if known else 0) if size == -1 else size for size in sizes)
    return x.reshape(sizes)


def _flatten(operands: Named, attributes: Attributes) -> Array:
    x = operands["input"]
    if x.ndim == 0:
        return x.reshape(1)
    start = normalize_axis(attributes["start_dim"], spec_of_array(x))
    end = normalize_axis(attributes["end_dim"], spec_of_array(x))
    size = math.prod(x.shape[start : end + 1])
    return x.reshape(*x.shape[:start], size, *x.shape[end + 1 :])


def _transpose(operands: Named, attributes: Attributes) -> Array:
    x = operands["input"]
    return np.transpose(x, permutation_of(spec_of_array(x), attributes))


def _permute(operands: Named, attributes: Attributes) -> Array:
    x = operands["input"]
    axes = [normalize_axis(axis, spec_of_array(x)) for axis in _sizes(attributes, "dims")]
    return np.transpose(x, axes)


def _broadcast(operands: Named, attributes: Attributes) -> Array:
    x = operands["input"]
    return np.broadcast_to(x, broadcast_sizes(spec_of_array(x), attributes))


MOVEMENT_MEANING: dict[str, Meaning] = {
    "reshape": _reshape,
    "flatten": _flatten,
    "transpose": _transpose,
    "permute": _permute,
    "broadcast": _broadcast,
}
