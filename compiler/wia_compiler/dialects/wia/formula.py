"""A vocabulary for writing an op in simpler ones, whatever stands for a value.

A composite op is written once, as a formula over an ``Algebra``. The reference evaluates the
formula on numpy arrays, which is the op's meaning; the compiler appends the ops it names, which is
how the op is decomposed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from wia_compiler.base.dtypes import DTYPES, DType
from wia_compiler.dialects.types import TensorSpec, Value

V = TypeVar("V")


class Algebra(ABC, Generic[V]):
    """Ops on values of some kind. Each op computes in the dtype of its operands."""

    @abstractmethod
    def named(self, name: str, operands: Mapping[str, V], attributes: Mapping[str, Value]) -> V:
        """An op of the language, operands by parameter name; attributes left out are defaults."""

    @abstractmethod
    def splat(self, number: bool | int | float, spec: TensorSpec) -> V:
        """A constant in every element."""

    @abstractmethod
    def spec(self, value: V) -> TensorSpec:
        """Shape and dtype of a value."""

    @abstractmethod
    def op(self, name: str, *operands: V, **attributes: Value) -> V:
        """An op of the language whose operands are given in order."""

    def constant(self, number: bool | int | float, like: V) -> V:
        """A scalar in the dtype of ``like``."""
        dtype = self.spec(like).dtype
        return self.splat(float(number) if dtype.is_float else number, TensorSpec((), dtype))

    def cast(self, value: V, dtype: DType) -> V:
        """The value in another dtype; itself where it has that dtype."""
        if self.spec(value).dtype == dtype:
            return value
        return self.op("cast", value, dtype=dtype.name)

    def widened(self, value: V) -> V:
        """The value in the dtype that folds of it are carried in (f32 for f16 and bf16)."""
        return self.cast(value, DTYPES[self.spec(value).dtype.accumulator])

    def reshape(self, value: V, shape: Sequence[int]) -> V:
        """The value under another shape; itself where it has that shape."""
        if self.spec(value).shape == tuple(shape):
            return value
        return self.op("reshape", value, shape=tuple(shape))

    def total(self, value: V, axes: Sequence[int]) -> V:
        """The sum over axes, kept with size 1."""
        return self.op("reduce_sum", value, dim=tuple(axes), keepdim=True)

    def mean(self, value: V, axes: Sequence[int]) -> V:
        """The mean over axes, kept with size 1; NaN of no elements."""
        shape = self.spec(value).shape
        count = math.prod(shape[axis] for axis in axes)
        return self.op("div", self.total(value, axes), self.constant(count, value))


@dataclass(frozen=True)
class Call(Generic[V]):
    """One call of an op: operands by parameter name, attributes, shape and dtype of the result."""

    operands: Mapping[str, V]
    attributes: Mapping[str, Value]
    result: TensorSpec

    def __getitem__(self, name: str) -> V:
        return self.operands[name]

    def get(self, name: str) -> V | None:
        """The operand of that name, or ``None`` where the call left it out."""
        return self.operands.get(name)

    def number(self, name: str) -> float:
        """An attribute that is a number."""
        return float(str(self.attributes[name]))

    def integer(self, name: str) -> int:
        """An attribute that is a whole number."""
        return int(str(self.attributes[name]))


Formula: TypeAlias = Callable[[Call[Any], Algebra[Any]], Any]
"""Writes one call in simpler ops; the value has the shape and dtype of ``Call.result``."""


def in_accumulator(steps: Callable[[Any, Algebra[Any], Call[Any]], Any]) -> Formula:
    """Steps on ``input`` taken in f32 (f64 for f64), whose result is rounded once."""

    def formula(call: Call[Any], algebra: Algebra[Any]) -> Any:
        x = algebra.widened(call["input"])
        return algebra.cast(steps(x, algebra, call), call.result.dtype)

    return formula


def carried(name: str) -> Formula:
    """An op on f16 or bf16 that is carried in f32, between casts there and back."""

    def formula(call: Call[Any], algebra: Algebra[Any]) -> Any:
        wide = algebra.widened(call["input"])
        result = algebra.named(name, {"input": wide}, call.attributes)
        return algebra.cast(result, call.result.dtype)

    return formula
