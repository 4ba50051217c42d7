"""Annotations of parameters and variables: ``"tensor<M, K, f32>"``, ``"output tensor<M, N>"``.

A string says what stands after the name in the language, the role in front. ``Tensor``, ``Output``
and ``Inout`` say the same without quotes inside: ``A: wia.Tensor["M", "K", "f32"]``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from wia_compiler.base.dtypes import DTYPES, from_numpy
from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.python.python_source import PythonText

Role = Literal["input", "output", "inout"]

_TYPE = re.compile(
    r"\s*(?:(?P<role>input|output|inout)\s+)?(?P<name>[A-Za-z_]\w*)\s*(?:<(?P<entries>[^<>]*)>)?\s*",
    re.ASCII,
)
_ENTRY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[?0-9][?A-Za-z0-9_]*")
_FORMS = '"tensor<M, K, f32>", "output tensor<M, N>", "f32"'


@dataclass(frozen=True)
class TypeSpelling:
    """``Tensor``, ``Output`` and ``Inout`` as annotations, with sizes and dtype in brackets.

    ``wia.Output["M", "N", "f32"]`` is ``output tensor<M, N, f32>``.
    """

    role: str
    entries: tuple[str, ...] | None = None

    def __getitem__(self, entries: object) -> TypeSpelling:
        listed = cast("tuple[object, ...]", entries if isinstance(entries, tuple) else (entries,))
        return TypeSpelling(self.role, tuple(_entry(each) for each in listed))

    @property
    def text(self) -> str:
        """As the language writes it."""
        entries = "" if self.entries is None else f"<{', '.join(self.entries)}>"
        return f"{self.role} tensor{entries}".strip()

    def __repr__(self) -> str:
        return self.text


Tensor = TypeSpelling("")
"""An array that comes in: ``A: wia.Tensor["M", "K", "f32"]``; without brackets, any array."""
Output = TypeSpelling("output")
"""An array that the kernel makes and gives back; its sizes are those of other parameters."""
Inout = TypeSpelling("inout")
"""An array that comes in and is given back changed."""


@dataclass(frozen=True)
class Annotation:
    """What an annotation says: a role, where it has one, and a type."""

    role: Role | None
    type: syntax.TypeName


def read_annotation(
    node: ast.expr, text: PythonText, evaluate: Callable[[ast.expr], Any]
) -> Annotation:
    """The role and type that an annotation says; raises ``Refused`` after reporting a wrong one.

    ``evaluate`` gives the value of an annotation that is no string.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _parsed(node.value, node, text, is_literal=True)
    value = evaluate(node)
    if isinstance(value, str | TypeSpelling):
        return _parsed(value if isinstance(value, str) else value.text, node, text)
    name = dtype_name(value)
    if name is not None:
        return _parsed(name, node, text)
    if _is_array_class(value):
        return _parsed("tensor", node, text)
    shown = ast.unparse(node)
    hint = f"write {_FORMS}"
    if value is float or value is int:
        hint = 'say how many bits: "f32", "f64", "i32", "i64"'
    raise text.refuse(node, f"{shown} says no type of a kernel's parameter", hint)


def _entry(value: object) -> str:
    if isinstance(value, str | int):
        return str(value)
    return dtype_name(value) or "?"


def dtype_name(value: object) -> str | None:
    """The dtype that a class such as ``np.float32`` or ``bool`` stands for."""
    if isinstance(value, type) and (value is bool or issubclass(value, np.generic)):
        try:
            found = from_numpy(np.dtype(cast("Any", value)))
        except TypeError:
            return None
        return None if found is None else found.name
    if isinstance(value, np.dtype):
        found = from_numpy(cast(Any, value))
        return None if found is None else found.name
    if isinstance(value, str):
        return _SPELLINGS.get(value)
    other = cast("Any", value)
    is_dtype = type(other).__name__ == "dtype"
    return _SPELLINGS.get(str(other).removeprefix("torch.")) if is_dtype else None


_SPELLINGS = {
    "float64": "f64",
    "double": "f64",
    "float32": "f32",
    "float": "f32",
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "long": "i64",
    "int32": "i32",
    "int": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    **{name: name for name in DTYPES},
}
# Names of dtypes in torch and numpy, and the language's own.


def _is_array_class(value: object) -> bool:
    names = {"ndarray", "Tensor", "Array"}
    return value is np.ndarray or (isinstance(value, type) and value.__name__ in names)


def _parsed(
    written: str, node: ast.expr, text: PythonText, *, is_literal: bool = False
) -> Annotation:
    match = _TYPE.fullmatch(written)
    if match is None:
        raise text.refuse(
            node, f"{written!r} is no type of a kernel's parameter", f"write {_FORMS}"
        )
    whole = text.span(node)
    # In a string on one line, its quote is one character wide: carets can point into it.
    shift = whole.column + 1 if is_literal and whole.line == whole.end_line else None

    def span(start: int, end: int) -> Span:
        if shift is None:
            return whole
        return Span(whole.line, shift + start, whole.line, shift + end)

    entries = None
    if match["entries"] is not None:
        start = match.start("entries")
        words: list[syntax.Word] = []
        for part in match["entries"].split(","):
            stripped = part.strip()
            if not _ENTRY.fullmatch(stripped):
                raise text.refuse(node, f"{stripped!r} is no size and no dtype", f"write {_FORMS}")
            place = start + len(part) - len(part.lstrip())
            words.append(syntax.Word(stripped, span(place, place + len(stripped))))
            start += len(part) + 1
        entries = tuple(words)
    name = syntax.Word(match["name"], span(match.start("name"), match.end("name")))
    type_ = syntax.TypeName(name, entries, span(match.start("name"), len(written.rstrip())))
    return Annotation(cast("Role | None", match["role"]), type_)
