"""Numbers of the text that no dtype of the language holds."""

from __future__ import annotations

import math

_INTEGERS = (-(2**63), 2**63 - 1)
_MOST_DIGITS = 24


def out_of_range(value: bool | int | float, text: str) -> str | None:
    """Why no dtype holds a number that is spelled ``text``, or ``None`` where one does.

    Infinity itself is meant where ``text`` names it, as ``math.inf`` and C++'s INFINITY do.
    """
    shown = text if len(text) <= _MOST_DIGITS else f"{text[:_MOST_DIGITS]}…"
    if isinstance(value, int) and not _INTEGERS[0] <= value <= _INTEGERS[1]:
        return f"{shown} does not fit in i64, the largest integer"
    if isinstance(value, float) and math.isinf(value) and text.lstrip("-") != "inf":
        return f"{shown} does not fit in f64, the largest float"
    return None
