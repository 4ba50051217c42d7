"""The arithmetic types of C++ as dtypes, and the conversions that C++ makes without being asked.

Sources: C++20 [conv.prom], [expr.arith.conv]. ``int`` is i32 in data; variables of ``for`` loops
and sizes are i64, which no program without overflow (undefined in C++) can tell apart.
"""

from __future__ import annotations

from wia_compiler.base.dtypes import DTYPES

CppType = str
"""A dtype's name, or ``ANY``."""

ANY = "any"
"""The element type of an array that the text does not declare."""

NAMES: dict[str, CppType] = {
    "float": "f32",
    "double": "f64",
    "half": "f16",
    "_Float16": "f16",
    "__half": "f16",
    "__fp16": "f16",
    "float16_t": "f16",
    "__bf16": "bf16",
    "bfloat16_t": "bf16",
    "float32_t": "f32",
    "float64_t": "f64",
    "int8_t": "i8",
    "signed char": "i8",
    "uint8_t": "u8",
    "unsigned char": "u8",
    "short": "i16",
    "int16_t": "i16",
    "int": "i32",
    "signed": "i32",
    "signed int": "i32",
    "int32_t": "i32",
    "long": "i64",
    "long int": "i64",
    "long long": "i64",
    "long long int": "i64",
    "int64_t": "i64",
    "ptrdiff_t": "i64",
    "ssize_t": "i64",
    "bool": "bool",
}

UNSIGNED = frozenset(
    (
        *("size_t", "unsigned", "unsigned int", "unsigned long", "unsigned long long"),
        *("uint16_t", "uint32_t", "uint64_t", "unsigned short", "uint", "ulong"),
    )
)
"""Types whose subtraction and comparison wrap around at 0, which no dtype of ours does."""

_RANKS = ("bool", "i8", "u8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")


def is_float(type_: CppType) -> bool:
    """Whether values of the type are floats."""
    return type_ in DTYPES and DTYPES[type_].is_float


def is_integer(type_: CppType) -> bool:
    """Whether values of the type are integers; a bool is none."""
    return type_ in DTYPES and DTYPES[type_].is_integer


def promoted(type_: CppType) -> CppType:
    """The type in which arithmetic on one value is done: small integers and bools are ints."""
    return "i32" if type_ in ("bool", "i8", "u8", "i16") else type_


def common(first: CppType, second: CppType) -> CppType:
    """The type in which arithmetic on two values is done.

    ``f32`` and ``i64`` give ``f32``, as C++ has it. An undeclared element type stands for the
    type of what it meets: dtypes do not mix in the language, so another one is refused later.
    """
    if ANY in (first, second):
        return second if first == ANY else first
    return max(promoted(first), promoted(second), key=_RANKS.index)
