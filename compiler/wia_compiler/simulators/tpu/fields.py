"""Pieces of a line that know where they stand."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from wia_compiler.base.source import Span


class Fault(Exception):
    """One thing wrong with a text; the reader turns it into a diagnostic."""

    def __init__(self, message: str, span: Span, hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint


@dataclass(frozen=True)
class Field:
    """Part of a line; ``column`` counts from 1."""

    text: str
    line: int
    column: int

    @property
    def span(self) -> Span:
        """Where it stands."""
        return Span(self.line, self.column, self.line, self.column + max(1, len(self.text)))

    def part(self, start: int, end: int | None = None) -> Field:
        """The characters from ``start`` to ``end``."""
        return Field(self.text[start:end], self.line, self.column + start)

    def strip(self) -> Field:
        """Without the blanks around it."""
        start = len(self.text) - len(self.text.lstrip())
        return self.part(start, len(self.text.rstrip()))

    def word(self) -> tuple[Field, Field]:
        """The first word, and what follows it."""
        end = next((n for n, letter in enumerate(self.text) if letter.isspace()), len(self.text))
        return self.part(0, end), self.part(end).strip()

    def words(self) -> list[Field]:
        """All words."""
        found: list[Field] = []
        rest = self
        while rest.text:
            word, rest = rest.word()
            found.append(word)
        return found


def split_fields(line: Field, separator: str = ",") -> list[Field]:
    """The parts between separators that stand outside brackets; none for an empty line."""
    if not line.text:
        return []
    cuts: list[int] = []
    depth = 0
    for position, letter in enumerate(line.text):
        depth += (letter == "[") - (letter == "]")
        if letter == separator and depth == 0:
            cuts.append(position)
    starts = [0, *(cut + 1 for cut in cuts)]
    return [
        line.part(start, end).strip()
        for start, end in zip(starts, [*cuts, len(line.text)], strict=True)
    ]


def closest(word: str, known: Iterable[str]) -> str | None:
    """A hint that names the nearest known word, where one is near."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {near[0]}?" if near else None
