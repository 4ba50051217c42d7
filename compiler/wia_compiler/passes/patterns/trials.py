"""Inputs on which a rewrite is compared with its match: boundary values and random ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wia_compiler.base.dtypes import DType
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.reference.rounding import Array

_MOST_FILLS = 400
_RANDOM_ROWS = 32
"""Random rows of each size of numbers."""
_SEED = 5


def boundary_values(dtype: DType) -> Array:
    """Where arithmetic surprises: zeros of both signs, ±1, the ends of the range, NaN …"""
    if dtype.is_integer:
        ends = np.iinfo(dtype.numpy)
        listed = {0, 1, 2, 3, 7, 0 if ends.min == 0 else -1, ends.min, ends.max, ends.max - 1}
        return np.array(sorted(listed, key=lambda each: (abs(each), each)), dtype.numpy)
    if not dtype.is_float:
        return np.array([False, True])
    limits = Limits.of(dtype)
    finite = [0.0, 1.0, 2.0, 0.5, 3.1, limits.subnormal, limits.smallest, limits.largest]
    listed = [sign * each for each in finite for sign in (1, -1)]
    with np.errstate(all="ignore"):
        return np.array([*listed, math.inf, -math.inf, math.nan]).astype(dtype.numpy)


@dataclass(frozen=True)
class Limits:
    """The unit in the last place of 1, the smallest normal number and the largest of a dtype."""

    epsilon: float
    smallest: float
    largest: float

    @property
    def subnormal(self) -> float:
        """The smallest number above 0."""
        return self.smallest * self.epsilon

    @staticmethod
    def of(dtype: DType) -> Limits:
        """The limits of a float dtype; bf16 has the exponents of f32 and 8 bits of precision."""
        if dtype.name == "bf16":
            return Limits(2.0**-7, 2.0**-126, (2 - 2.0**-7) * 2.0**127)
        found = np.finfo(dtype.numpy)
        return Limits(float(found.eps), float(found.tiny), float(found.max))


def rows(specs: Sequence[TensorSpec]) -> list[Array]:
    """For ops that work element by element: every trial is one row of one batch.

    Each array gets a first axis, one row a trial, and its own axes aligned from the last. First
    come combinations of boundary values, the same in every element, then random rows with some
    boundary values among them.
    """
    rank = max((spec.rank for spec in specs), default=0)
    fills = list(fill_combinations([spec.dtype for spec in specs]))
    made: list[Array] = []
    for n, spec in enumerate(specs):
        shape = (1,) * (rank - spec.rank) + spec.shape
        filled = np.array([combination[n] for combination in fills], spec.dtype.numpy)
        filled = np.broadcast_to(filled.reshape(-1, *(1,) * rank), (len(fills), *shape))
        row = TensorSpec((_RANDOM_ROWS, *shape), spec.dtype)
        random = [random_array(row, _SEED + scale, n) for scale in range(3)]
        made.append(np.concatenate([filled, *random]))
    return made


def trials(specs: Sequence[TensorSpec], most: int) -> Iterator[list[Array]]:
    """For any ops: arrays filled with boundary values, then random ones; ``most`` of each."""
    fills = list(fill_combinations([spec.dtype for spec in specs]))
    step = max(len(fills) // most, 1)
    for combination in fills[::step]:
        yield [
            np.full(spec.shape, value, spec.dtype.numpy)
            for spec, value in zip(specs, combination, strict=True)
        ]
    for seed in range(most):
        yield [random_array(spec, _SEED + seed, n) for n, spec in enumerate(specs)]


def fill_combinations(dtypes: Sequence[DType]) -> Iterator[tuple[Array, ...]]:
    """Boundary values for each free value: all combinations, or a part where there are many."""
    listed = [boundary_values(dtype) for dtype in dtypes]
    if math.prod(len(each) for each in listed) <= _MOST_FILLS:
        yield from itertools.product(*listed)
        return
    for n in range(max(len(each) for each in listed)):
        yield tuple(each[n % len(each)] for each in listed)
    random = np.random.default_rng(_SEED)
    for _ in range(_MOST_FILLS):
        yield tuple(random.choice(each) for each in listed)


def random_array(spec: TensorSpec, seed: int, number: int) -> Array:
    """Normal numbers of various sizes; in two of three, a fifth are boundary values."""
    random = np.random.default_rng((seed, number))
    size, dtype = spec.num_elements, spec.dtype
    scale = (1.0, 100.0, 0.01)[seed % 3]
    with np.errstate(all="ignore"):
        usual = random.normal(scale=scale, size=size)
        if dtype.is_integer:
            usual = np.clip(np.round(usual), *(-128, 127) if dtype.kind == "int" else (0, 255))
        values = usual.astype(dtype.numpy)
        if seed % 3:
            special = random.choice(boundary_values(dtype), size)
            values = np.where(random.random(size) < 0.2, special, values)
    return values.astype(dtype.numpy).reshape(spec.shape)
