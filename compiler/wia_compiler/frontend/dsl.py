"""Text of the language to its syntax tree."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.source import Source, Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.comments import without_line_comments

if TYPE_CHECKING:
    from lark import Lark


def parse(source: Source) -> syntax.Program:
    """The program that a text holds; ``CompileError`` carries every syntax error of the text.

    The grammar is read at the first call (about 0.1 s) and kept for the process.
    """
    from lark.exceptions import UnexpectedInput

    parser = _parser()
    text = without_line_comments(source.text)
    try:
        parts = cast("tuple[object, ...]", cast(Any, parser).parse(text))
    except UnexpectedInput:
        from wia_compiler.frontend.recovery import diagnose

        raise CompileError(diagnose(parser, source, text)) from None
    if not parts:
        raise CompileError([_no_kernel(source)])
    return _program(source, parts)


def _program(source: Source, parts: Sequence[object]) -> syntax.Program:
    """What a text holds by its sort; lines outside braces are the func ``snippet``."""
    from wia_compiler.frontend.line_builder import snippet_of

    functions = [part for part in parts if isinstance(part, syntax.Function)]
    snippet = snippet_of(parts)
    if snippet is not None:
        functions.append(snippet)
    return syntax.Program(
        source,
        tuple(part for part in parts if isinstance(part, syntax.Kernel)),
        tuple(functions),
        tuple(part for part in parts if isinstance(part, syntax.Pattern)),
        tuple(part for part in parts if isinstance(part, syntax.Schedule)),
    )


def language_parser() -> Lark:
    """The parser of the grammar, for tools that need the words themselves and where they stand."""
    return _parser()


@functools.cache
def _parser() -> Lark:
    from lark import Lark

    from wia_compiler.frontend.tree_builder import TreeBuilder

    grammar = resources.files(__package__ or "").joinpath("grammar.lark").read_text("utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        transformer=TreeBuilder(),
        keep_all_tokens=True,
        maybe_placeholders=False,
    )


def _no_kernel(source: Source) -> Diagnostic:
    return Diagnostic(
        "the text has no kernel",
        Span(1, 1, 1, 2),
        "write one: kernel add(input A: tensor, input B: tensor, output C: tensor) { C = A + B; }",
        source,
    )
