"""PTX text to tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.source import Source, Span

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<float_bits>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16})
  | (?P<float>\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
  | (?P<integer>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
  | (?P<directive>\.[A-Za-z_]\w*)
  | (?P<word>[%$A-Za-z_][\w$]*(?:\.[A-Za-z_0-9]\w*(?:::\w+)*)*)
  | (?P<mark>[{}()\[\];:,@!|+\-<>=*])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text: ``kind`` is the name of the group that matched it."""

    kind: str
    text: str
    line: int
    column: int

    @property
    def span(self) -> Span:
        """Where it stands."""
        return Span(self.line, self.column, self.line, self.column + len(self.text))


def tokens_of(source: Source) -> list[Token]:
    """Every token, then one of kind ``end``; ``CompileError`` at what is none."""
    return list(_tokens(source))


def _tokens(source: Source) -> Iterator[Token]:
    text, place, line, start = source.text, 0, 1, 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            span = Span(line, place - start + 1, line, place - start + 2)
            message = f"unexpected character {text[place]!r}"
            raise CompileError([Diagnostic(message, span, "expected PTX", source)])
        kind, found = str(match.lastgroup), match.group()
        if kind != "space":
            yield Token(kind, found, line, place - start + 1)
        breaks = found.count("\n")
        if breaks:
            line += breaks
            start = place + found.rindex("\n") + 1
        place = match.end()
    yield Token("end", "", line, place - start + 1)
