"""Expressions as they were written: frozen nodes, each with the span of its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from wia_compiler.base.source import Span


@dataclass(frozen=True, slots=True)
class Word:
    """A name or operator as it stands in the text."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, parameter, kernel, builtin or dtype used in an expression.

    A callee that the IR notation spells ``tensor.matmul`` (an op, whatever kernels there are) or
    ``@f`` (a kernel or func, whatever ops there are) keeps that spelling.
    """

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Value:
    """``%text``: a value of the IR notation; ``text`` is without the ``%``."""

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
    Name
    | Value
    | Number
    | Boolean
    | String
    | ListOf
    | Group
    | Unary
    | Binary
    | Conditional
    | Call
    | Index
)
