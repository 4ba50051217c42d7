"""Grammar reductions to syntax nodes: one method a rule of grammar.lark, run while parsing."""

from __future__ import annotations

from typing import Any, Literal, cast

from lark import Token

from wia_compiler.frontend import syntax
from wia_compiler.frontend.line_builder import LineBuilder
from wia_compiler.frontend.tree_parts import Sequence, cover, nodes, span, word


class TreeBuilder(LineBuilder):
    """Each method gets all children of its rule, tokens included: nodes or ``Token``."""

    def start(self, parts: list[Any]) -> tuple[Any, ...]:
        """Everything the text holds, in order; lines outside braces are still single."""
        return tuple(parts)

    def kernel(self, parts: list[Any]) -> syntax.Kernel:
        parameters = cast(Any, parts[3] if isinstance(parts[3], tuple) else ())
        return syntax.Kernel(
            word(parts[1]),
            cast("tuple[syntax.Parameter, ...]", parameters),
            parts[-1].items,
            cover(parts),
        )

    def parameters(self, parts: list[Any]) -> tuple[syntax.Parameter, ...]:
        return nodes(parts)

    def parameter(self, parts: list[Any]) -> syntax.Parameter:
        role = None if isinstance(parts[0], Token) else parts[0].text
        rest = parts if role is None else parts[1:]
        return syntax.Parameter(
            cast(Literal["input", "output", "inout"] | None, role),
            word(rest[0]),
            rest[2],
            rest[4] if len(rest) > 4 else None,
            cover(parts),
        )

    def role(self, parts: list[Any]) -> syntax.Word:
        return word(parts[0])

    def type_name(self, parts: list[Any]) -> syntax.TypeName:
        entries = nodes(parts) if len(parts) > 1 else None
        return syntax.TypeName(word(parts[0]), entries, cover(parts))

    def type_entry(self, parts: list[Any]) -> syntax.Word:
        return word(parts[0])

    def default_number(self, parts: list[Any]) -> syntax.Number:
        number = self.number(parts[-1:])
        if len(parts) == 1:
            return number
        return syntax.Number(-number.value, f"-{number.text}", cover(parts))

    def default_boolean(self, parts: list[Any]) -> syntax.Boolean:
        return self.boolean(parts)

    def block(self, parts: list[Any]) -> Sequence:
        return Sequence(nodes(parts), cover(parts))

    def assign(self, parts: list[Any]) -> syntax.Assign:
        if len(parts) == 2:
            return syntax.Assign(parts[0].items, None, (), cover(parts))
        return syntax.Assign(parts[0].items, word(parts[1]), parts[2].items, cover(parts))

    def let(self, parts: list[Any]) -> syntax.Let:
        names = parts[1].items
        values = parts[3].items if len(parts) > 3 else ()
        types = tuple(type_name for _, type_name in names)
        return syntax.Let(tuple(name for name, _ in names), values, cover(parts), types)

    def let_names(self, parts: list[Any]) -> Sequence:
        return Sequence(tuple(part.items for part in nodes(parts)), cover(parts))

    def let_name(self, parts: list[Any]) -> Sequence:
        declared = parts[2] if len(parts) > 1 else None
        return Sequence((word(parts[0]), declared), cover(parts))

    def expressions(self, parts: list[Any]) -> Sequence:
        return Sequence(nodes(parts), cover(parts))

    def if_statement(self, parts: list[Any]) -> syntax.If:
        otherwise: Any = parts[4] if len(parts) > 3 else None
        if isinstance(otherwise, Sequence):
            otherwise_body = otherwise.items
        else:
            otherwise_body = () if otherwise is None else (otherwise,)
        return syntax.If(parts[1], parts[2].items, otherwise_body, span(parts[0]), cover(parts))

    def for_statement(self, parts: list[Any]) -> syntax.For:
        step = parts[7] if len(parts) > 7 else None
        return syntax.For(
            word(parts[1]), parts[3], parts[5], step, parts[-1].items, span(parts[0]), cover(parts)
        )

    def while_statement(self, parts: list[Any]) -> syntax.While:
        return syntax.While(parts[1], parts[2].items, span(parts[0]), cover(parts))

    def return_statement(self, parts: list[Any]) -> syntax.Return:
        values = parts[1].items if len(parts) > 2 else ()
        return syntax.Return(values, cover(parts))

    def conditional(self, parts: list[Any]) -> syntax.Conditional:
        return syntax.Conditional(parts[0], parts[2], parts[4], cover(parts))

    def binary(self, parts: list[Any]) -> syntax.Binary:
        return syntax.Binary(word(parts[1]), parts[0], parts[2], cover(parts))

    def unary(self, parts: list[Any]) -> syntax.Unary:
        return syntax.Unary(word(parts[0]), parts[1], cover(parts))

    def call(self, parts: list[Any]) -> syntax.Call:
        return syntax.Call(parts[0], nodes(parts[1:]), cover(parts))

    def argument(self, parts: list[Any]) -> syntax.Argument:
        keyword = word(parts[0]) if len(parts) == 3 else None
        return syntax.Argument(keyword, parts[-1], cover(parts))

    def index(self, parts: list[Any]) -> syntax.Index:
        return syntax.Index(parts[0], nodes(parts[1:]), cover(parts))

    def subscript(self, parts: list[Any]) -> syntax.Expression:
        return parts[0]

    def slice_literal(self, parts: list[Any]) -> syntax.Slice:
        found: list[syntax.Expression | None] = [None, None, None]
        place = 0
        for part in parts:
            if isinstance(part, Token):
                place += 1
            else:
                found[place] = part
        return syntax.Slice(found[0], found[1], found[2], cover(parts))

    def name(self, parts: list[Any]) -> syntax.Name:
        return syntax.Name(str(parts[0]), span(parts[0]))

    def value(self, parts: list[Any]) -> syntax.Value:
        return syntax.Value(str(parts[0])[1:], span(parts[0]))

    def number(self, parts: list[Any]) -> syntax.Number:
        token: Token = parts[0]
        return syntax.Number(_value(token), str(token), span(token))

    def boolean(self, parts: list[Any]) -> syntax.Boolean:
        return syntax.Boolean(parts[0].type == "TRUE", span(parts[0]))

    def string(self, parts: list[Any]) -> syntax.String:
        return syntax.String(str(parts[0])[1:-1], span(parts[0]))

    def group(self, parts: list[Any]) -> syntax.Group:
        return syntax.Group(parts[1], cover(parts))

    def list_literal(self, parts: list[Any]) -> syntax.ListOf:
        return syntax.ListOf(nodes(parts), cover(parts))


_LONGEST_INTEGER = 400
"""Digits beyond which Python refuses (from 4300) or takes long; no dtype holds 20 of them."""


def _value(token: Token) -> int | float:
    if token.type == "FLOAT":
        return float(token)
    if len(token) > _LONGEST_INTEGER:
        return 10**_LONGEST_INTEGER
    return int(token, 16 if token.type == "HEX" else 10)
