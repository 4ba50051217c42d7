"""The tree of a program as it was written: frozen nodes, each with the span of its text."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Literal, TypeAlias, cast

from wia_compiler.base.source import Source, Span


@dataclass(frozen=True, slots=True)
class Word:
    """A name or operator as it stands in the text."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, parameter, kernel, builtin or dtype used in an expression."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Number:
    """An int or float literal; ``text`` is its spelling (``0x10``)."""

    value: int | float
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Boolean:
    """``true`` or ``false``."""

    value: bool
    span: Span


@dataclass(frozen=True, slots=True)
class String:
    """Text in quotes, the value of an attribute."""

    value: str
    span: Span


@dataclass(frozen=True, slots=True)
class ListOf:
    """``[a, b]``, the value of an attribute."""

    items: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Group:
    """An expression in parentheses."""

    inner: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Unary:
    """``-x`` or ``!x``."""

    operator: Word
    operand: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Binary:
    """``left operator right``."""

    operator: Word
    left: Expression
    right: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Conditional:
    """``condition ? first : second``."""

    condition: Expression
    first: Expression
    second: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call; ``keyword`` is ``None`` for a positional one."""

    keyword: Word | None
    value: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    """``callee(arguments)``."""

    callee: Expression
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Slice:
    """``start:stop:step`` between brackets; each part may be missing."""

    start: Expression | None
    stop: Expression | None
    step: Expression | None
    span: Span


@dataclass(frozen=True, slots=True)
class Index:
    """``base[i, 0:16]``."""

    base: Expression
    subscripts: tuple[Expression | Slice, ...]
    span: Span


Expression: TypeAlias = (
    Name | Number | Boolean | String | ListOf | Group | Unary | Binary | Conditional | Call | Index
)


@dataclass(frozen=True, slots=True)
class Assign:
    """``targets operator values;`` where the operator is ``=``, ``+=``, ``-=``, ``*=`` or ``/=``.

    A bare ``expression;`` has no operator and no values.
    """

    targets: tuple[Expression, ...]
    operator: Word | None
    values: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Let:
    """``let names = values;``."""

    names: tuple[Word, ...]
    values: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Return:
    """``return values;``."""

    values: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class If:
    """``if condition { … } else { … }``; ``keyword`` is the span of the word."""

    condition: Expression
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    keyword: Span
    span: Span


@dataclass(frozen=True, slots=True)
class For:
    """``for variable in start..stop step s { … }``; ``keyword`` is the span of the word."""

    variable: Word
    start: Expression
    stop: Expression
    step: Expression | None
    body: tuple[Statement, ...]
    keyword: Span
    span: Span


@dataclass(frozen=True, slots=True)
class While:
    """``while condition { … }``; ``keyword`` is the span of the word."""

    condition: Expression
    body: tuple[Statement, ...]
    keyword: Span
    span: Span


Statement: TypeAlias = Assign | Let | Return | If | For | While


@dataclass(frozen=True, slots=True)
class TypeName:
    """``name`` or ``name<entries>``; an entry is a size, a run of sizes (``4x8xf32``) or a name."""

    name: Word
    entries: tuple[Word, ...] | None
    span: Span


@dataclass(frozen=True, slots=True)
class Parameter:
    """``role name: type = default``; ``role`` is ``None`` where the text has none."""

    role: Literal["input", "output", "inout"] | None
    name: Word
    type: TypeName
    default: Number | Boolean | None
    span: Span


@dataclass(frozen=True, slots=True)
class Kernel:
    """``kernel name(parameters) { body }``."""

    name: Word
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Program:
    """Every kernel of a source, in order."""

    source: Source
    kernels: tuple[Kernel, ...]


def walk(*roots: object) -> Iterator[object]:
    """Every node under ``roots``, themselves included, in text order; no recursion."""
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if isinstance(node, tuple) and not isinstance(node, Span):
            stack.extend(reversed(cast("tuple[object, ...]", node)))
        elif is_dataclass(node) and not isinstance(node, Source):
            yield node
            stack.extend(getattr(node, name) for name in reversed(_field_names(type(node))))


@functools.cache
def _field_names(node_type: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(node_type) if field.name != "span")
