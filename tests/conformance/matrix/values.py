"""Operands of the matrix: values of every class, lying in memory in every way."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
from conformance.matrix.row import Array, Shape
from wia_compiler.base.dtypes import DTYPES

Random = np.random.Generator


def ordinary(random: Random, dtype: str, shape: Shape) -> Array:
    """Floats of several magnitudes; integers of the whole range, its ends among them."""
    row = DTYPES[dtype]
    if row.is_float:
        wide = random.normal(size=shape) * np.exp2(random.integers(-6, 6, shape))
        return wide.astype(row.numpy)
    if not row.is_integer:
        return random.integers(0, 2, shape).astype(bool)
    ends = np.iinfo(row.numpy)
    made = random.integers(ends.min, ends.max, shape, row.numpy, endpoint=True)
    some = np.array([0, 1, 2, 3, ends.min, ends.max, ends.max - 1, ends.min + 1], row.numpy)
    return np.where(random.random(shape) < 0.3, random.choice(some, shape), made)


def of_class(random: Random, dtype: str, shape: Shape, values: str) -> Array:
    """Ordinary values with those of a class among them, at least one."""
    made = ordinary(random, dtype, shape)
    if values == "ordinary" or not made.size or not DTYPES[dtype].is_float:
        return made
    row = DTYPES[dtype].numpy
    flat = made.reshape(-1)
    places = np.flatnonzero(random.random(flat.size) < 0.1)
    places = np.unique([*places, random.integers(0, flat.size)])
    if values == "subnormal":
        info = ml_dtypes.finfo(row)
        steps = random.integers(1, 2 ** int(info.nmant), len(places)).astype(np.float64)
        special = steps * float(info.smallest_subnormal) * random.choice([1, -1], len(places))
        special[::4] = random.choice([0.0, -0.0], len(special[::4]))
    else:
        special = random.choice([np.nan] if values == "nan" else [np.inf, -np.inf], len(places))
    flat[places] = special.astype(row)
    return made


def _small(random: Random, dtype: str, shape: Shape, values: str) -> Array:
    """Numbers whose sums of products stay in the range of every float dtype."""
    row = DTYPES[dtype]
    if not row.is_float:
        return of_class(random, dtype, shape, values)
    made = of_class(random, dtype, shape, values)
    with np.errstate(all="ignore"):
        usual = random.normal(size=shape).astype(row.numpy)
    wide = made.astype(np.float64)
    return np.where(np.isfinite(wide) & (np.abs(wide) > 1e-4), usual, made)


def _near_one(random: Random, dtype: str, shape: Shape, values: str) -> Array:
    """Numbers whose products of many stay in range."""
    row = DTYPES[dtype]
    if not row.is_float:
        return of_class(random, dtype, shape, values)
    made = _small(random, dtype, shape, values)
    usual = np.exp(random.normal(scale=0.05, size=shape)) * random.choice([1, -1], shape)
    wide = made.astype(np.float64)
    return np.where(np.isfinite(wide) & (np.abs(wide) > 1e-4), usual.astype(row.numpy), made)


def _positive(random: Random, dtype: str, shape: Shape, values: str) -> Array:
    """Finite numbers above 0, such as a variance."""
    return (0.5 + random.random(shape)).astype(DTYPES[dtype].numpy)


def _finite(random: Random, dtype: str, shape: Shape, values: str) -> Array:
    """Ordinary numbers, whatever the class."""
    return _small(random, dtype, shape, "ordinary")


def _index(limit: int) -> Callable[[Random, str, Shape, str], Array]:
    def make(random: Random, dtype: str, shape: Shape, values: str) -> Array:
        return random.integers(0, limit, shape).astype(DTYPES[dtype].numpy)

    return make


def _shifts(random: Random, dtype: str, shape: Shape, values: str) -> Array:
    """Amounts that shift by less than a number's bits, by as many, and by more."""
    return random.integers(0, 70, shape).astype(DTYPES[dtype].numpy)


def _unit(random: Random, dtype: str, shape: Shape, values: str) -> Array:
    """Probabilities."""
    return random.random(shape).astype(DTYPES[dtype].numpy)


MAKERS: dict[str, Callable[[Random, str, Shape, str], Array]] = {
    "any": of_class,
    "small": _small,
    "near one": _near_one,
    "positive": _positive,
    "shifts": _shifts,
    "unit": _unit,
    "finite": _finite,
    "below 3": _index(3),
    "below 5": _index(5),
}


def place(array: Array, condition: str) -> Array:
    """The array lying in memory as a condition says; ``broadcast`` repeats its first row."""
    if not array.ndim:
        return np.asarray(array)
    if condition == "strided":
        wide = np.zeros([2 * size for size in array.shape], array.dtype)
        view = wide[tuple(slice(None, None, 2) for _ in array.shape)]
    elif condition == "negative":
        wide = np.zeros([size + 1 for size in array.shape], array.dtype)
        view = wide[tuple(slice(None, 0, -1) for _ in array.shape)]
    elif condition == "broadcast" and array.ndim and array.shape[0]:
        return np.broadcast_to(array[:1], array.shape)
    else:
        return array
    view[...] = array
    return view
