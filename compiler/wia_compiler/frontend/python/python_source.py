"""Where the text of a Python function stands: its file or cell, its tree, its spans."""

from __future__ import annotations

import ast
import linecache
import re
import types
from dataclasses import dataclass
from typing import Any

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.source import Source, Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.problems import Problems

# How IPython names the files that cells are: <ipython-input-3-…>, /tmp/ipykernel_42/1234.py.
_CELL = re.compile(r"<ipython-input-|[\\/]ipykernel_\d+[\\/]")


class Refused(Exception):
    """A construct was reported; what holds it cannot be read."""


@dataclass
class PythonText:
    """The text that a function stands in, with the faults that were found in it."""

    source: Source
    problems: Problems
    _lines: list[str]

    def span(self, node: ast.AST) -> Span:
        """Where a node stands, in characters (Python counts bytes)."""
        place: Any = node
        end_line = place.end_lineno or place.lineno
        return Span(
            place.lineno,
            self._column(place.lineno, place.col_offset),
            end_line,
            self._column(end_line, place.end_col_offset or place.col_offset),
        )

    def first_line(self, node: ast.AST) -> Span:
        """The span of a node's first line: the carets of a whole block say nothing."""
        span = self.span(node)
        if span.end_line == span.line:
            return span
        return Span(span.line, span.column, span.line, len(self._lines[span.line - 1]) + 1)

    def word(self, name: str, node: ast.AST) -> syntax.Word:
        """A name or operator at a node."""
        return syntax.Word(name, self.span(node))

    def report(self, node: ast.AST, message: str, hint: str | None = None) -> None:
        """Note a fault at a node."""
        self.problems.report(message, self.first_line(node), hint)

    def refuse(self, node: ast.AST, message: str, hint: str | None = None) -> Refused:
        """Note a fault; the caller raises what this gives."""
        self.report(node, message, hint)
        return Refused(message)

    def _column(self, line: int, offset: int) -> int:
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        return len(text.encode()[:offset].decode(errors="replace")) + 1


def find_function(function: types.FunctionType) -> tuple[PythonText, ast.FunctionDef]:
    """The text and tree of a function; ``CompileError`` where Python does not know its text."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    text = "".join(lines)
    source = Source(text, _shown_name(code.co_filename, function.__globals__))
    try:
        tree = ast.parse(text)
    except SyntaxError:
        tree = ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
            if code.co_firstlineno in (first, node.lineno):
                return PythonText(source, Problems(source), text.split("\n")), node
    hint = (
        "put the function into a file or a notebook cell; one made by exec or typed at >>> has none"
    )
    if function.__name__ == "<lambda>":
        hint = "write a function: def scale(x): return x * 2.0"
    raise CompileError(
        [Diagnostic(f"the source of {function.__name__!r} is not available", None, hint)]
    )


def _shown_name(filename: str, names: dict[str, Any]) -> str:
    """What messages call the text: the cell that is being run, or the file."""
    cells = names.get("In")
    if _CELL.search(filename) and isinstance(cells, list):
        count: int = len(cells)  # pyright: ignore[reportUnknownArgumentType]
        return f"In [{max(1, count - 1)}]"
    return filename
