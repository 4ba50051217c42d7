"""The text of a C++ program as tree-sitter has it: nodes, their words, their spans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wia_compiler.base.source import Source, Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.problems import Problems

if TYPE_CHECKING:
    from tree_sitter import Node, Tree


class Refused(Exception):
    """A construct was reported; what holds it cannot be read."""


@dataclass
class CppText:
    """One program with the faults that were found in it."""

    source: Source
    problems: Problems
    _lines: list[bytes] = field(default_factory=list[bytes], init=False)

    def __post_init__(self) -> None:
        self._lines = self.source.text.encode().split(b"\n")

    def span(self, node: Node) -> Span:
        """Where a node stands, in characters (tree-sitter counts bytes)."""
        start, end = node.start_point, node.end_point
        return Span(
            start.row + 1,
            self._column(start.row, start.column),
            end.row + 1,
            self._column(end.row, end.column),
        )

    def word(self, node: Node) -> syntax.Word:
        """A name or operator of the text."""
        return syntax.Word(text_of(node), self.span(node))

    def report(self, node: Node, message: str, hint: str | None = None) -> None:
        """Note a fault at a node; on several lines, at the first."""
        self.problems.report(message, self.span(node), hint)

    def refuse(self, node: Node, message: str, hint: str | None = None) -> Refused:
        """Note a fault; the caller raises what this gives."""
        self.report(node, message, hint)
        return Refused(message)

    def _column(self, row: int, byte: int) -> int:
        if row >= len(self._lines):
            return byte + 1
        return len(self._lines[row][:byte].decode(errors="replace")) + 1


def parse_tree(source: Source) -> Tree:
    """The tree of a text, faults and all."""
    import tree_sitter
    import tree_sitter_cpp

    language = tree_sitter.Language(tree_sitter_cpp.language())
    return tree_sitter.Parser(language).parse(source.text.encode())


def text_of(node: Node) -> str:
    """The text of a node, as written."""
    return "" if node.text is None else node.text.decode(errors="replace")


def field_of(node: Node, name: str) -> Node:
    """The child of that name, which the grammar promises."""
    child = node.child_by_field_name(name)
    assert child is not None, f"{node.type} without {name}"
    return child


def named_children(node: Node) -> list[Node]:
    """The children that are no punctuation and no comment."""
    return [child for child in node.children if child.is_named and child.type != "comment"]


def unwrapped(node: Node) -> Node:
    """An expression without the parentheses around it."""
    while node.type in ("parenthesized_expression", "condition_clause"):
        inner = named_children(node)
        if len(inner) != 1:
            break
        node = inner[0]
    return node
