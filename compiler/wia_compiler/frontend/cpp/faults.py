"""Faults of syntax: where tree-sitter could not go on, and words of OpenCL and CUDA."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wia_compiler.base.source import Span
from wia_compiler.frontend.cpp.reading import CppText, text_of
from wia_compiler.frontend.cpp.refusals import THREAD_WORDS

if TYPE_CHECKING:
    from tree_sitter import Node

# After the first few, faults follow from one another.
_MOST = 5


def report_faults(root: Node, text: CppText) -> None:
    """Report what is no C++; where words of OpenCL or CUDA stand, these alone: they explain it."""
    words: dict[str, Node] = {}
    for node in _leaves(root):
        if text_of(node) in THREAD_WORDS and text_of(node) != "barrier":
            words.setdefault(text_of(node), node)
    for node in sorted(words.values(), key=lambda each: each.start_byte)[:_MOST]:
        text.report(node, *THREAD_WORDS[text_of(node)])
    if words or not root.has_error:
        return
    for node in list(_broken(root))[:_MOST]:
        if node.is_missing:
            _report_missing(node, text)
        else:
            _report_unexpected(node, text)


def _report_missing(node: Node, text: CppText) -> None:
    place = text.span(node)
    span = Span(place.line, place.column, place.line, place.column + 1)
    what = f"{node.type!r}" if not node.is_named else f"{_article(node.type)} here"
    text.problems.report(
        f"expected {what}", span, f"add it: {node.type}" if what[0] == "'" else None
    )


def _article(kind: str) -> str:
    words = kind.replace("_", " ")
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _report_unexpected(node: Node, text: CppText) -> None:
    shown = " ".join(text_of(node).split())
    shown = shown if len(shown) <= 30 else f"{shown[:29]}…"
    hint = None
    before = node.prev_sibling
    if shown.startswith("@"):
        hint = "C++ has no @; write the loops, or the kernel in the language: C = A @ B;"
    elif before is not None and before.type == "primitive_type":
        hint = "a name is expected here"
    text.report(
        node,
        f"{shown!r} cannot stand here" if shown else "the text ends too early",
        hint or "the text must be C++: statements, or functions with statements",
    )


def _broken(root: Node) -> Iterator[Node]:
    """The outermost nodes that are errors, and what is missing, in text order."""
    pending = [root]
    while pending:
        node = pending.pop()
        if node.is_error or node.is_missing:
            yield node
        elif node.has_error:
            pending.extend(reversed(node.children))


def _leaves(root: Node) -> Iterator[Node]:
    pending = [root]
    while pending:
        node = pending.pop()
        if node.type in ("identifier", "type_identifier", "field_identifier"):
            yield node
        pending.extend(reversed(node.children))
