"""What the methods of the tree builders share: tokens to words, the span of several children."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from lark import Token, Tree

from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax


@dataclass(frozen=True, slots=True)
class Sequence:
    """Nodes of a rule that stands for several, with the span they cover (for the parser alone)."""

    items: tuple[Any, ...]
    span: Span


def span(token: Token) -> Span:
    """Where a token stands."""
    return Span(
        cast(int, token.line),
        cast(int, token.column),
        cast(int, token.end_line),
        cast(int, token.end_column),
    )


def word(token: Token) -> syntax.Word:
    """A token as a node."""
    return syntax.Word(str(token), span(token))


def span_of(part: Any) -> Span:
    """Where a token or node stands."""
    return span(part) if isinstance(part, Token) else part.span


def cover(parts: list[Any]) -> Span:
    """The span from the first to the last child of a rule, which are in text order."""
    first, last = span_of(parts[0]), span_of(parts[-1])
    return Span(first.line, first.column, last.end_line, last.end_column)


def nodes(parts: list[Any]) -> tuple[Any, ...]:
    """The children of a rule that are not tokens."""
    return tuple(part for part in parts if not isinstance(part, Token))


def last_of(value: Any) -> list[Any]:
    """The last node or token of what stands on the stack: lark makes trees of ``statement*``."""
    while isinstance(value, Tree | tuple):
        children = cast(Any, value).children if isinstance(value, Tree) else cast(Any, value)
        if not children:
            return []
        value = children[-1]
    return [value]
