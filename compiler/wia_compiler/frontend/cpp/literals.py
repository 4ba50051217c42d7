"""Numbers of C++: literals with their prefixes and suffixes, and the constants of its headers."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from wia_compiler.base.source import Span
from wia_compiler.frontend.cpp.reading import CppText, text_of
from wia_compiler.frontend.cpp.types import CppType
from wia_compiler.frontend.cpp.values import Number, Typed, constant

if TYPE_CHECKING:
    from tree_sitter import Node

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)([uUlLzZ]*)")
_FLOAT = re.compile(r"([0-9]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?)([fFlL]?|f16|F16|bf16|BF16)")
_FLOAT_TYPES: dict[str, CppType] = {"": "f64", "f": "f32", "f16": "f16", "bf16": "bf16"}

_INT = 2**31 - 1
_LONG = 2**63 - 1
_FLT_MAX = (2.0 - 2.0**-23) * 2.0**127
_DBL_MAX = (2.0 - 2.0**-52) * 2.0**1023
# <cmath>, <cfloat> and <climits>.
_NAMED: dict[str, tuple[Number, CppType]] = {
    "INFINITY": (math.inf, "f32"),
    "HUGE_VALF": (math.inf, "f32"),
    "HUGE_VAL": (math.inf, "f64"),
    "NAN": (math.nan, "f32"),
    "M_PI": (math.pi, "f64"),
    "M_E": (math.e, "f64"),
    "M_SQRT2": (math.sqrt(2.0), "f64"),
    "FLT_MAX": (_FLT_MAX, "f32"),
    "FLT_MIN": (2.0**-126, "f32"),
    "FLT_EPSILON": (2.0**-23, "f32"),
    "DBL_MAX": (_DBL_MAX, "f64"),
    "DBL_MIN": (2.0**-1022, "f64"),
    "DBL_EPSILON": (2.0**-52, "f64"),
    "INT_MAX": (_INT, "i32"),
    "INT_MIN": (-_INT - 1, "i32"),
    "LONG_MAX": (_LONG, "i64"),
    "LONG_MIN": (-_LONG - 1, "i64"),
}


def number(node: Node, text: CppText) -> Typed:
    """The value and type of a literal: ``1`` is an int, ``1.0`` a double, ``1.0f`` a float."""
    found = number_of(text_of(node).replace("'", ""))
    if found is None:
        raise text.refuse(
            node, f"{text_of(node)} is no number that is read here", "write 1, 0x10, 1.5, 1.5f"
        )
    value, type_ = found
    if type_ == "u":
        raise text.refuse(
            node,
            f"{text_of(node)} is unsigned, and unsigned numbers wrap around at 0",
            f"write {value}",
        )
    return constant(value, type_, text.span(node))


def number_of(spelling: str) -> tuple[Number, CppType] | None:
    """The value and type that a spelling has; the type ``u`` is any unsigned one."""
    if spelling[:1] in "+-":  # tree-sitter takes a sign as part of the number
        found = number_of(spelling[1:].lstrip())
        return found if found is None or spelling[0] == "+" else (-found[0], found[1])
    if match := _INTEGER.fullmatch(spelling):
        digits, suffix = match[1], match[2].lower()
        is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdecimal()
        try:
            value = int(digits, 8) if is_octal else int(digits, 0)
        except ValueError:
            return None
        if value > _LONG:
            return None
        type_ = "i32" if value <= _INT and "l" not in suffix else "i64"
        return value, "u" if "u" in suffix or "z" in suffix else type_
    match = _FLOAT.fullmatch(spelling)
    if match is None or not any(character.isdigit() for character in match[1]):
        return None
    type_ = _FLOAT_TYPES.get(match[2].lower())
    return None if type_ is None else (float(match[1]), type_)


def named_constant(name: str, span: Span) -> Typed | None:
    """A constant of the standard headers."""
    known = _NAMED.get(name)
    return None if known is None else constant(*known, span)
