"""Every error a user can meet, with where, what was found, what was expected and what to do."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from wia_compiler.base.source import Source, Span


@dataclass(frozen=True)
class Diagnostic:
    """One fault in a source: a lower-case message without a full stop, and what to do."""

    message: str
    span: Span | None = None
    hint: str | None = None
    source: Source | None = None

    def render(self) -> str:
        """The message with the line it is about and carets under the span."""
        if self.span is None or self.source is None:
            lines = [f"error: {self.message}"]
        else:
            lines = [
                f"error: {self.message}",
                f"  --> {self.source.name}:{self.span.line}:{self.span.column}",
                *_excerpt(self.source, self.span),
            ]
        if self.hint is not None:
            lines.append(f"  help: {self.hint}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()


_MOST_CHARACTERS = 120


def _excerpt(source: Source, span: Span) -> list[str]:
    text = source.line(span.line).replace("\t", " ").rstrip("\r")
    gutter = max(4, len(str(span.line)))
    start = span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(text)
    if len(text) > _MOST_CHARACTERS:
        text, start, end = _cut(text, start, end)
    padding = " " * _width(text[:start])
    carets = "^" * max(1, _width(text[start:end]))
    return [f"{span.line:{gutter}} | {text}", f"{'':{gutter}} | {padding}{carets}"]


def _cut(text: str, start: int, end: int) -> tuple[str, int, int]:
    """The part of a long line around a span, and where the span stands in it."""
    first = max(0, min(start - _MOST_CHARACTERS // 3, len(text) - _MOST_CHARACTERS))
    last = min(len(text), first + _MOST_CHARACTERS)
    before, after = "…" * (first > 0), "…" * (last < len(text))
    shift = len(before) - first
    return f"{before}{text[first:last]}{after}", start + shift, min(end, last) + shift


def _width(text: str) -> int:
    """Columns that ``text`` takes in a fixed-width font."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    """Korean and other wide characters take two; what joins the one before takes none.

    U+1160 to U+11FF are the vowels and finals of decomposed Hangul, as macOS writes it.
    """
    if unicodedata.category(character) in ("Mn", "Me", "Cf") or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class WiaError(Exception):
    """The base of all errors raised for the user; IPython shows its message, no frames of ours."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class CompileError(WiaError):
    """A program that cannot be compiled; ``diagnostics`` holds every fault that was found."""

    def __init__(self, diagnostics: Sequence[Diagnostic]):
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n\n".join(diagnostic.render() for diagnostic in self.diagnostics))

    def _render_traceback_(self) -> list[str]:
        return str(self).split("\n")


class ArgumentError(WiaError):
    """A value that a call cannot take: names the parameter, what came, what was expected."""


class TargetError(WiaError):
    """Something a target needs is missing or failed, with the command that brings or repeats it."""


class VerificationError(WiaError):
    """A step of the compiler that changed what a kernel computes, found by ``verify=True``.

    ``stage`` is the first one whose results are not those of the kernel as written.
    """

    def __init__(self, stage: str, message: str):
        self.stage = stage
        super().__init__(message)


class OutOfRangeError(WiaError, IndexError):
    """An access of a running kernel outside its array; the access was left out.

    ``array`` is the array's name, ``index`` the indices of the access, ``sizes`` those of the
    array, ``line`` the line of the kernel's text. Only the first such access of a call is told.
    """

    def __init__(
        self,
        array: str,
        index: tuple[int, ...],
        sizes: tuple[int, ...],
        span: Span | None = None,
        source: Source | None = None,
    ):
        self.array, self.index, self.sizes = array, index, sizes
        self.line = None if span is None else span.line
        message, hint = self._told()
        self.diagnostic = Diagnostic(message, span, hint, source)
        super().__init__(self.diagnostic.render())

    def _told(self) -> tuple[str, str]:
        if self.array.startswith("step of "):
            return f"the {self.array} is {self.index[0]}", "a step is 1 or more"
        pairs = enumerate(zip(self.index, self.sizes, strict=True))
        axis = next((n for n, (index, size) in pairs if not 0 <= index < size), 0)
        index, size = self.index[axis], self.sizes[axis]
        one = len(self.sizes) == 1
        place, there = ("", "") if one else (f" of axis {axis}", " there")
        hint = f"indices go from 0 to {size - 1}" if size else f"{self.array} is empty"
        message = f"index {index}{place} lies outside {self.array!r}, which has size {size}{there}"
        return message, f"{hint}; guard the access with an if"

    def _render_traceback_(self) -> list[str]:
        return f"{type(self).__name__}: {self}".split("\n")
