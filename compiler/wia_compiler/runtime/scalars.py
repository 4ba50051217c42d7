"""Python numbers as the scalar parameters of a kernel: checked against the range of their dtype."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.dtypes import DType
from wia_compiler.base.errors import ArgumentError
from wia_compiler.runtime.arrays import describe, is_ndarray, is_numpy_scalar

# IEEE 754; bf16 has the exponent of f32 and 8 bits of significand.
LARGEST_FLOAT: dict[str, float] = {
    "f64": (2.0 - 2.0**-52) * 2.0**1023,
    "f32": (2.0 - 2.0**-23) * 2.0**127,
    "f16": (2.0 - 2.0**-10) * 2.0**15,
    "bf16": (2.0 - 2.0**-7) * 2.0**127,
}


def scalar_array(value: object, dtype: DType, where: str) -> NDArray[Any]:
    """``value`` as an array without axes of ``dtype``; ``ArgumentError`` where it does not fit.

    Takes Python numbers, numpy scalars and numpy arrays without axes. Integers must lie in the
    range of an integer type; a float type takes integers too and rounds to nearest, but a finite
    number never becomes infinite. A bool goes with a bool parameter only.
    """
    if type(value) is float and dtype.kind == "float":
        return _float_array(value, dtype, where)
    number = _number(value, dtype, where)
    if dtype.kind == "float":
        return _float_array(number, dtype, where)
    if isinstance(number, float):
        raise ArgumentError(
            f"{where}: got {describe(value)}, expected a whole number ({dtype})\n"
            f"  help: round it: int(value)"
        )
    if dtype.kind != "bool":
        _check_integer(int(number), dtype, where)
    return np.array(number, dtype.numpy)


def _number(value: object, dtype: DType, where: str) -> bool | int | float:
    number: object = value
    if is_ndarray(number) and number.shape == ():
        number = number[()]
    if is_numpy_scalar(number):
        # ml_dtypes' bfloat16 is no np.floating, yet converts to float like one.
        number = number.item() if number.dtype.kind in "biuf" else _float_or_self(number)
    is_bool = isinstance(number, bool)
    if not isinstance(number, int | float) or is_bool != (dtype.kind == "bool"):
        kind = "True or False" if dtype.kind == "bool" else "a number"
        raise ArgumentError(f"{where}: got {describe(value)}, expected {kind} ({dtype})")
    return number


def _float_or_self(number: Any) -> object:
    try:
        return float(number)
    except (TypeError, ValueError):
        return number


def _float_array(number: int | float, dtype: DType, where: str) -> NDArray[Any]:
    largest = LARGEST_FLOAT[dtype.name]
    try:
        value = float(number)
    except OverflowError:
        value = math.inf
    overflows = abs(value) > largest and (math.isfinite(value) or isinstance(number, int))
    if overflows:
        raise ArgumentError(
            f"{where}: {describe(number)} is too large for {dtype} (at most {largest:.7g})\n"
            f"  help: pass a smaller number, or declare a wider type"
        )
    return np.array(value, dtype.numpy)


def _check_integer(number: int, dtype: DType, where: str) -> None:
    low = 0 if dtype.kind == "uint" else -(1 << (dtype.bits - 1))
    high = (1 << dtype.bits) - 1 if dtype.kind == "uint" else (1 << (dtype.bits - 1)) - 1
    if not low <= number <= high:
        raise ArgumentError(
            f"{where}: {number} does not fit {dtype} ({low} … {high})\n"
            f"  help: pass a number in that range, or declare a wider type"
        )
