"""Number literals: whose dtype they take, and which numbers a dtype can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import ml_dtypes
import numpy as np

from wia_compiler.base.dtypes import BF16, BOOL, DType
from wia_compiler.dialects.wia.declaration import OpDeclaration

_CHOOSES = "condition"
"""``where``'s condition is a bool of its own: a literal beside it takes nothing from it."""


def literal_dtype(declaration: OpDeclaration, dtypes: Mapping[str, DType | None]) -> DType | None:
    """The dtype that an op's literals take: that of its first operand which has one.

    ``dtypes`` holds the dtype of each operand that was passed, by parameter name, ``None`` for a
    literal. ``None`` where literals meet nothing but literals.
    """
    partners = [dtype for name, dtype in dtypes.items() if name != _CHOOSES and dtype is not None]
    return partners[0] if partners else None


def literal_fault(number: bool | int | float, dtype: DType) -> tuple[str, str] | None:
    """Why a dtype cannot hold a literal, and what to write instead; ``None`` where it can.

    Integers and bools must be held exactly. A float literal is rounded to a float dtype, but must
    neither overflow nor vanish.
    """
    if isinstance(number, bool) or dtype is BOOL:
        return _bool_fault(number, dtype)
    if dtype.is_integer:
        return _integer_fault(number, dtype)
    return _float_fault(number, dtype)


def _bool_fault(number: bool | int | float, dtype: DType) -> tuple[str, str] | None:
    if isinstance(number, bool) and dtype is BOOL:
        return None
    if dtype is BOOL:
        return f"{number} is a number, not a bool", "write true or false, or compare: x != 0"
    return f"{_spelled(number)} is a bool, not a number of {dtype}", "write 1 or 0"


def _integer_fault(number: int | float, dtype: DType) -> tuple[str, str] | None:
    limits = np.iinfo(dtype.numpy)
    if not math.isfinite(number) or number != int(number):
        return f"{dtype} cannot hold {number}", "convert the other side to a float: cast(…, f32)"
    if not limits.min <= number <= limits.max:
        return (
            f"{dtype} cannot hold {number}",
            f"{dtype} goes from {limits.min} to {limits.max}; convert the other side: cast(…, i64)",
        )
    return None


def _float_fault(number: int | float, dtype: DType) -> tuple[str, str] | None:
    info = cast(Any, ml_dtypes.finfo)(dtype.numpy)
    with np.errstate(all="ignore"):
        try:
            held = float(np.asarray(float(number)).astype(dtype.numpy))
        except OverflowError:
            held = math.inf
    if math.isinf(held) and not (isinstance(number, float) and math.isinf(number)):
        return f"{dtype} cannot hold {number}", f"its largest number is {float(info.max):.6g}"
    if held == 0 and number != 0:
        smallest = float(info.smallest_subnormal)
        return f"{number} vanishes in {dtype}", f"its smallest number above 0 is {smallest:.6g}"
    if isinstance(number, int) and held != number:
        digits = "8 bits" if dtype is BF16 else f"{info.nmant + 1} bits"
        return (
            f"{dtype} cannot hold {number} exactly, its nearest is {held:.0f}",
            f"{dtype} has {digits} of precision; write {number}.0 to round it",
        )
    return None


def _spelled(number: bool | int | float) -> str:
    return str(number).lower() if isinstance(number, bool) else str(number)
