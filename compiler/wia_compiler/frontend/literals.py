"""Which numbers a dtype can hold."""

from __future__ import annotations

import numpy as np

from wia_compiler.base.dtypes import DType
from wia_compiler.frontend.suggestions import in_words

Constant = bool | int | float

_INTEGERS = (-(2**63), 2**63 - 1)


def out_of_range(value: Constant, text: str) -> str | None:
    """Why no dtype of the language holds a number of the text, or ``None`` where one does."""
    if isinstance(value, int) and not _INTEGERS[0] <= value <= _INTEGERS[1]:
        return f"{_shortened(text)} does not fit in i64, the largest integer"
    if isinstance(value, float) and np.isinf(value):
        return f"{_shortened(text)} does not fit in f64, the largest float"
    return None


def refusal(value: Constant, dtype: DType, text: str | None = None) -> tuple[str, str] | None:
    """Why ``dtype`` cannot hold ``value`` and what it could hold, or ``None`` where it can.

    ``text`` is how the program spells the value.
    """
    shown = _shortened(text or str(value).lower())
    if dtype.kind == "bool":
        return (
            None if isinstance(value, bool) else (f"{shown} is not a bool", "write true or false")
        )
    if isinstance(value, bool):
        return f"{shown} is not a number, and {dtype} holds numbers", "write 1 or 0"
    if dtype.is_float:
        return _float_refusal(value, shown, dtype)
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < 2**63
        hint = f"write {int(value)}" if whole else "use a float type such as f32"
        return f"{shown} is not a whole number, and {dtype} holds whole numbers", hint
    low = 0 if dtype.kind == "uint" else -(2 ** (dtype.bits - 1))
    high = 2 ** (dtype.bits if dtype.kind == "uint" else dtype.bits - 1) - 1
    if not low <= value <= high:
        return f"{shown} does not fit in {dtype}", f"{dtype} holds {low} to {high}"
    return None


def _float_refusal(value: int | float, shown: str, dtype: DType) -> tuple[str, str] | None:
    with np.errstate(over="ignore"):
        rounded = float(np.asarray(float(value)).astype(dtype.numpy))
    if np.isinf(rounded) and not np.isinf(float(value)):
        larger = in_words(("f32", "f64") if dtype.bits == 16 else ("f64",))
        return f"{shown} does not fit in {dtype}", f"it would be infinite; use {larger}"
    return None


def _shortened(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:20]}…"
