"""The semantics tables, which are written on numpy arrays, as LLVM IR.

A ``Traced`` takes an array's place in the functions of ``values/``: every ufunc, ``np.where`` and
method that they call writes the instruction that does the same to 32 lanes. So one table says what
an instruction computes, and both engines obey it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from wia_compiler.simulators.ptx.jit.code import Function, Value
from wia_compiler.simulators.ptx.jit.conversions import (
    BOOL,
    converted,
    reinterpreted,
    selected,
)
from wia_compiler.simulators.ptx.jit.functions import FUNCTIONS
from wia_compiler.simulators.ptx.jit.lanewise import UFUNCS


class Traced(NDArrayOperatorsMixin):
    """A value of every lane that looks like an array to numpy."""

    ndim = 0
    shape: tuple[int, ...] = ()

    def __init__(self, function: Function, value: Value):
        self.function = function
        self.value = value

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of its elements."""
        return self.value.dtype

    def astype(self, dtype: Any) -> Traced:
        """Its numbers in another type."""
        return Traced(self.function, converted(self.function, self.value, np.dtype(dtype)))

    def view(self, dtype: Any) -> Traced:
        """Its bits as another type of the same width."""
        return Traced(self.function, reinterpreted(self.function, self.value, np.dtype(dtype)))

    def any(self) -> bool:
        """Whether an element holds: possible, which is all that is known before it runs."""
        return True

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **options: Any) -> Any:
        approximate = FUNCTIONS.get(ufunc.__name__)
        if approximate is not None:
            return approximate(self)
        write = UFUNCS.get(ufunc.__name__)
        if method != "__call__" or write is None:
            return NotImplemented
        *types, _ = ufunc.resolve_dtypes((*(_promoted(each) for each in operands), None))
        values = [
            adopted(self.function, each, type) for each, type in zip(operands, types, strict=True)
        ]
        return Traced(self.function, write(self.function, *values))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        handler = _FUNCTIONS.get(function.__name__)
        return NotImplemented if handler is None else handler(self.function, *args)


def _promoted(operand: Any) -> Any:
    """What promotion sees of an operand: Python's numbers have no width of their own."""
    if isinstance(operand, int | float) and not isinstance(operand, bool | np.generic):
        return type(operand)
    return operand.dtype if isinstance(operand, Traced) else np.asarray(operand).dtype


def adopted(function: Function, operand: Any, dtype: np.dtype[Any]) -> Value:
    """An operand in every lane, in a type: a traced value, or a constant."""
    if isinstance(operand, Traced):
        return converted(function, operand.value, dtype)
    return function.splat(np.asarray(operand).astype(dtype)[()], dtype)


def _where(function: Function, condition: Any, yes: Any, no: Any) -> Traced:
    dtype = np.result_type(*(_example(each) for each in (yes, no)))
    values = [adopted(function, each, dtype) for each in (yes, no)]
    return Traced(function, selected(function, adopted(function, condition, BOOL), *values))


def _example(operand: Any) -> Any:
    """What ``np.result_type`` reads of an operand."""
    return operand.dtype if isinstance(operand, Traced) else operand


def _clip(function: Function, value: Any, low: Any, high: Any) -> Any:
    kept = _where(function, value < low, low, value)
    return _where(function, kept > high, high, kept)


def _any(function: Function, value: Traced) -> bool:
    return value.any()


def _shape(function: Function, value: Traced) -> tuple[int, ...]:
    return value.shape


def _zeros_like(function: Function, value: Traced) -> Any:
    return np.zeros((), value.dtype)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "where": _where,
    "clip": _clip,
    "any": _any,
    "shape": _shape,
    "zeros_like": _zeros_like,
}
