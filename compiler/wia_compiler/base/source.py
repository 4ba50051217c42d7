"""Where a piece of text stands: the user's cell and spans inside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Span(NamedTuple):
    """A half-open range of characters in a source; lines and columns count from 1.

    ``end_column`` is the column just after the last character, so ``end_column - column``
    is the width of a span on one line.
    """

    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}-{self.end_line}:{self.end_column}"

    @staticmethod
    def parse(text: str) -> Span:
        """Read what ``str(span)`` wrote: ``"8:5-8:20"``."""
        start, end = text.split("-")
        line, column = start.split(":")
        end_line, end_column = end.split(":")
        return Span(int(line), int(column), int(end_line), int(end_column))

    def cover(self, other: Span) -> Span:
        """The smallest span that holds both."""
        start = min((self.line, self.column), (other.line, other.column))
        end = max((self.end_line, self.end_column), (other.end_line, other.end_column))
        return Span(*start, *end)


@dataclass(frozen=True)
class Source:
    """A text as the user wrote it.

    ``name`` is what messages call it (``<wia>``, ``In [3]``, a file's path).
    """

    text: str
    name: str = "<wia>"

    def line(self, number: int) -> str:
        """The text of line ``number`` (from 1), without its newline; empty past the end."""
        lines = self.text.split("\n")
        return lines[number - 1] if 1 <= number <= len(lines) else ""
