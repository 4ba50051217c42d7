"""Text of the language to its syntax tree."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.settings import Settings
from wia_compiler.base.source import Source, Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.comments import without_line_comments

if TYPE_CHECKING:
    from lark import Lark


def parse(source: Source, bindings: Mapping[str, object] | None = None) -> syntax.Program:
    """The program that a text holds; ``CompileError`` carries every syntax error of the text.

    With ``bindings``, the values of free names, it also carries what is wrong with the meaning of
    the kernels that no syntax error touches.

    The grammar is read at the first call and kept for the process: about 0.15 s, or 0.02 s where
    its tables are in the cache folder already.
    """
    from lark.exceptions import UnexpectedInput

    parser = _parser()
    text = without_line_comments(source.text)
    try:
        parts = cast("tuple[object, ...]", cast(Any, parser).parse(text))
    except UnexpectedInput:
        raise CompileError(_faults(source, text, bindings)) from None
    if not parts:
        raise CompileError([_no_kernel(source)])
    return _program(source, parts)


def parse_text(source: Source, text: str) -> syntax.Program | None:
    """The program of ``text``, which stands for the source's; ``None`` where it has errors."""
    from lark.exceptions import UnexpectedInput

    try:
        parts = cast("tuple[object, ...]", cast(Any, _parser()).parse(text))
    except UnexpectedInput:
        return None
    return _program(source, parts)


def _faults(source: Source, text: str, bindings: Mapping[str, object] | None) -> list[Diagnostic]:
    from wia_compiler.frontend.recovery import diagnose
    from wia_compiler.frontend.unaffected import faults_of_the_rest

    found = diagnose(_parser(), source, text)
    if bindings is not None:
        found += faults_of_the_rest(source, text, found, bindings)
        found.sort(key=lambda each: each.span or ())
    return found


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
        cache=_tables_file(grammar) or False,
    )


def _tables_file(grammar: str) -> str | None:
    """Where lark keeps the tables of the grammar; ``None`` where nothing can be kept.

    lark compares what it finds with the grammar, its own version and Python's, and reads the
    grammar where the file is missing or damaged.
    """
    try:
        folder = Settings.read().cache_dir / "grammar"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError):  # a wrong setting is said where it matters
        return None
    return str(folder / f"{hashlib.sha256(grammar.encode()).hexdigest()[:16]}.tables")


def _no_kernel(source: Source) -> Diagnostic:
    return Diagnostic(
        "the text has no kernel",
        Span(1, 1, 1, 2),
        "write one: kernel add(input A: tensor, input B: tensor, output C: tensor) { C = A + B; }",
        source,
    )
