"""Grammar reductions of the IR notation, of patterns and of schedules to syntax nodes."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import Any, cast

from lark import Token, Transformer

from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.tree_parts import Sequence, cover, nodes, span, word


@dataclass(frozen=True, slots=True)
class Label:
    """``^label(parameters):`` before the lines below it are gathered into its block."""

    word: syntax.Word
    parameters: tuple[syntax.Parameter, ...]
    span: Span


Part = syntax.Line | Label
SNIPPET = "snippet"
"""The name of the kernel that bare lines are."""


class LineBuilder(Transformer[Token, Any]):
    """Each method gets all children of its rule, tokens included: nodes or ``Token``."""

    def function(self, parts: list[Any]) -> syntax.Function:
        parameters: tuple[syntax.Parameter, ...] = ()
        results: tuple[syntax.TypeName, ...] | None = None
        for index, part in enumerate(parts):
            if isinstance(part, tuple):
                parameters = cast("tuple[syntax.Parameter, ...]", part)
            elif isinstance(part, Token) and part.type == "ARROW":
                results = parts[index + 1].items
        opening = next((i for i, part in enumerate(parts) if _is(part, "LBRACE")), None)
        blocks = None
        if opening is not None:
            blocks = blocks_of(parts[opening + 1 : -1], span(parts[opening]))
        return syntax.Function(_after_mark(parts[1]), parameters, results, blocks, cover(parts))

    def values_in(self, parts: list[Any]) -> tuple[syntax.Parameter, ...]:
        return nodes(parts)

    def value_in(self, parts: list[Any]) -> syntax.Parameter:
        default = parts[4] if len(parts) > 4 else None
        return syntax.Parameter(None, _after_mark(parts[0]), parts[2], default, cover(parts))

    def result_types(self, parts: list[Any]) -> Sequence:
        return Sequence(nodes(parts), cover(parts))

    def operation(self, parts: list[Any]) -> syntax.Operation:
        signature = parts[3] if len(parts) > 3 else None
        return syntax.Operation(parts[0].items, parts[2], signature, cover(parts))

    def dotted_operation(self, parts: list[Any]) -> syntax.Operation:
        given = [part for part in parts[3:] if isinstance(part, syntax.Argument | Sequence)]
        arguments: list[syntax.Argument] = []
        for part in given:
            arguments.extend(part.items if isinstance(part, Sequence) else (part,))
        end = given[-1].span if given else span(parts[2])
        start = span(parts[2])
        call = syntax.Call(syntax.Name(str(parts[2]), start), tuple(arguments), start.cover(end))
        signature = parts[-1] if isinstance(parts[-1], syntax.Signature) else None
        return syntax.Operation(parts[0].items, call, signature, cover(parts))

    def call_operation(self, parts: list[Any]) -> syntax.Operation:
        signature = parts[-1] if isinstance(parts[-1], syntax.Signature) else None
        arguments = tuple(part for part in parts if isinstance(part, syntax.Argument))
        closing = cast(Token, parts[-1] if signature is None else parts[-2])
        callee = syntax.Name(str(parts[3]), span(parts[3]))
        call = syntax.Call(callee, arguments, span(parts[2]).cover(span(closing)))
        return syntax.Operation(parts[0].items, call, signature, cover(parts))

    def results(self, parts: list[Any]) -> Sequence:
        return Sequence(tuple(_after_mark(part) for part in parts[::2]), cover(parts))

    def operand(self, parts: list[Any]) -> syntax.Argument:
        keyword = word(parts[0]) if len(parts) > 1 else None
        return syntax.Argument(keyword, parts[-1], cover(parts))

    def operand_value(self, parts: list[Any]) -> syntax.Expression:
        return parts[0]

    def attributes(self, parts: list[Any]) -> Sequence:
        return Sequence(nodes(parts), cover(parts))

    def attribute(self, parts: list[Any]) -> syntax.Argument:
        return syntax.Argument(word(parts[0]), parts[2], cover(parts))

    def result_signature(self, parts: list[Any]) -> syntax.Signature:
        return syntax.Signature(None, (parts[1],), cover(parts))

    def signature(self, parts: list[Any]) -> syntax.Signature:
        operands = tuple(part for part in parts if isinstance(part, syntax.TypeName))
        return syntax.Signature(operands, parts[-1].items, cover(parts))

    def branch(self, parts: list[Any]) -> syntax.Branch:
        return syntax.Branch(parts[1], cover(parts))

    def conditional_branch(self, parts: list[Any]) -> syntax.ConditionalBranch:
        return syntax.ConditionalBranch(parts[1], parts[3], parts[5], cover(parts))

    def target(self, parts: list[Any]) -> syntax.Target:
        return syntax.Target(_after_mark(parts[0]), nodes(parts[1:]), cover(parts))

    def passed(self, parts: list[Any]) -> syntax.Expression:
        return parts[0]

    def line_return(self, parts: list[Any]) -> syntax.Return:
        values = parts[1].items if len(parts) > 1 else ()
        return syntax.Return(values, cover(parts))

    def label(self, parts: list[Any]) -> Label:
        parameters = cast(Any, parts[2] if len(parts) > 3 and isinstance(parts[2], tuple) else ())
        return Label(_after_mark(parts[0]), parameters, cover(parts))

    def lines(self, parts: list[Any]) -> tuple[Part, ...]:
        return tuple(parts)

    def pattern(self, parts: list[Any]) -> syntax.Pattern:
        match, rewrite = (
            blocks_of(lines, span(keyword))
            for keyword, lines in ((parts[3], parts[5]), (parts[6], parts[8]))
        )
        return syntax.Pattern(word(parts[1]), match, rewrite, cover(parts))

    def schedule(self, parts: list[Any]) -> syntax.Schedule:
        return syntax.Schedule(word(parts[1]), nodes(parts), cover(parts))

    def directive(self, parts: list[Any]) -> syntax.Directive:
        level = _after_mark(parts[-1]) if _is(parts[-1], "SYMBOL") else None
        return syntax.Directive(word(parts[0]), nodes(parts[1:]), cover(parts), level)

    def directive_entry(self, parts: list[Any]) -> syntax.DirectiveEntry:
        name = None if _is(parts[0], "INT") else word(parts[0])
        found = [part for part in parts if _is(part, "INT")]
        number = syntax.Number(int(found[0]), str(found[0]), span(found[0])) if found else None
        at = word(parts[-1]) if len(parts) > 2 else None
        return syntax.DirectiveEntry(name, number, cover(parts), at)

    def directive_pair(self, parts: list[Any]) -> syntax.DirectiveEntry:
        return syntax.DirectiveEntry(word(parts[0]), None, cover(parts), word(parts[1]))


def blocks_of(parts: SequenceOf[Part], start: Span) -> tuple[syntax.Block, ...]:
    """Lines and labels gathered into blocks; the entry begins at ``start`` and has no label."""
    blocks: list[syntax.Block] = []
    label: Label | None = None
    lines: list[syntax.Line] = []
    for part in parts:
        if not isinstance(part, Label):
            lines.append(part)
            continue
        if label is not None or lines or not blocks:
            blocks.append(_block(label, lines, start))
        label, lines = part, []
    blocks.append(_block(label, lines, start))
    return tuple(blocks)


def snippet_of(parts: SequenceOf[object]) -> syntax.Function | None:
    """The func that the lines outside all braces are, or ``None`` where there are none."""
    lines = [part for part in parts if isinstance(part, Part)]
    if not lines:
        return None
    blocks = blocks_of(lines, lines[0].span)
    name = syntax.Word(SNIPPET, lines[0].span)
    return syntax.Function(
        name, (), None, blocks, lines[0].span.cover(lines[-1].span), snippet=True
    )


def _block(label: Label | None, lines: SequenceOf[syntax.Line], start: Span) -> syntax.Block:
    first = start if label is None else label.span
    last = lines[-1].span if lines else first
    word_, parameters = (None, ()) if label is None else (label.word, label.parameters)
    return syntax.Block(word_, parameters, tuple(lines), first.cover(last))


def _is(part: Any, kind: str) -> bool:
    return isinstance(part, Token) and part.type == kind


def _after_mark(token: Token) -> syntax.Word:
    """``%x``, ``^exit`` or ``@f`` without its mark; the span covers the mark too."""
    return syntax.Word(str(token)[1:], span(token))
