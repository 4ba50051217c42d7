"""What atomic operations and reducing copies make of what a place holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wia_compiler.simulators.ptx.threads import Array
from wia_compiler.simulators.ptx.values.rounding import canonical

Combine = Callable[[Array, Array, Array], Array]
"""What a place holds, and the operands (the second may be anything): what it holds then."""


def _increment(old: Array, limit: Array, unused: Array) -> Array:
    return np.where(old >= limit, 0, old + old.dtype.type(1)).astype(old.dtype)


def _decrement(old: Array, limit: Array, unused: Array) -> Array:
    wraps = (old == 0) | (old > limit)
    return np.where(wraps, limit, old - old.dtype.type(1))


def _add(old: Array, value: Array, unused: Array) -> Array:
    total = old + value
    return canonical(total) if total.dtype.kind not in "iu" else total


def _extreme(whole: Callable[..., Array], number: Callable[..., Array]) -> Combine:
    """The smaller or larger; of floats, a number rather than NaN."""

    def combine(old: Array, value: Array, unused: Array) -> Array:
        if old.dtype.kind in "iu":
            return whole(old, value)
        return canonical(number(old, value).astype(old.dtype))

    return combine


COMBINERS: dict[str, Combine] = {
    "add": _add,
    "min": _extreme(np.minimum, np.fmin),
    "max": _extreme(np.maximum, np.fmax),
    "and": lambda old, value, unused: old & value,
    "or": lambda old, value, unused: old | value,
    "xor": lambda old, value, unused: old ^ value,
    "exch": lambda old, value, unused: value,
    "cas": lambda old, value, other: np.where(old == value, other, old),
    "inc": _increment,
    "dec": _decrement,
}
