"""One place where the parser could not go on, and what can be told from around it."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from lark import Token

from wia_compiler.base.source import Source, Span
from wia_compiler.frontend.suggestions import nearest
from wia_compiler.frontend.tree_parts import span_of

MARKS: dict[str, str] = {
    "COLON": "':'",
    "COMMA": "','",
    "RPAR": "')'",
    "RSQB": "']'",
    "LPAR": "'('",
    "LSQB": "'['",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "SEMICOLON": "';'",
    "LESSTHAN": "'<'",
    "MORETHAN": "'>'",
    "RANGE": "'..'",
    "ARROW": "'->'",
}
"""Marks of the grammar by the name of their terminal, as messages show them."""

_KERNEL_ELSEWHERE = ("def", "fn", "func", "function", "void", "proc")
HEADS = ("kernel", "func", "pattern", "schedule")
HEAD = re.compile(r"kernel\s+\w+\s*\(|func\s+@\w+|(?:pattern|schedule)\s+\w+\s*\{")
"""What can stand outside all braces, as it begins."""
_PLAIN_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COLON = re.compile(r"[ \t]*(?:\([^()\n]*\))?[ \t]*:")
_SETS = re.compile(r"[ \t]*(?:,[^=\n]*)?=(?!=)")
_ANY_HEAD = re.compile(r"\w+\s+\w+\s*\(")


@dataclass(frozen=True)
class Fault:
    """One place where the parser could not go on.

    ``start`` is the offset of ``found`` (empty at the end of the text), ``accepts`` the terminals
    it could have taken, ``previous`` the token or node just before, ``opened`` the brackets that
    are still open, outermost first.
    """

    source: Source
    start: int
    found: str
    accepts: frozenset[str]
    previous: Any
    opened: tuple[Token, ...]
    unknown_character: bool

    @property
    def at_end(self) -> bool:
        """Whether the text ended too early."""
        return self.start >= len(self.source.text)

    @property
    def span(self) -> Span:
        """Where ``found`` stands."""
        line, column = place(self.source.text, self.start)
        width = len(self.found.split("\n")[0]) or 1
        return Span(line, column, line, column + width)

    @property
    def previous_text(self) -> str:
        """The word just before, if it is one."""
        return str(getattr(self.previous, "text", self.previous if self.previous else ""))

    @property
    def after_previous(self) -> Span | None:
        """The place just after what stands before."""
        if self.previous is None:
            return None
        span = span_of(self.previous)
        return Span(span.end_line, span.end_column, span.end_line, span.end_column + 1)

    @property
    def missing(self) -> tuple[str, str] | None:
        """The mark (its terminal and text) that is plainly missing before ``found``."""
        after = self.after_previous
        if self.unknown_character:
            return self._meant_by_wide_mark
        if after is None or self.at_end:
            return None
        if "SEMICOLON" in self.accepts and (self.found == "}" or self.span.line > after.line):
            return ("SEMICOLON", ";")
        if "MATCH" in self.accepts and self.found[:1] == "%":
            return ("MATCH", "match")
        is_label = isinstance(self.previous, Token) and self.previous.type == "LABEL"
        if is_label and "COLON" in self.accepts and self.span.line > after.line:
            return ("COLON", ":")
        next_line = self.found[:1] == "%" and self.span.line > after.line
        if "RPAR" in self.accepts and (self.found in ("{", ";") or next_line):
            return ("RPAR", ")")
        if "RSQB" in self.accepts and self.found in (")", ";"):
            return ("RSQB", "]")
        return None

    @property
    def _meant_by_wide_mark(self) -> tuple[str, str] | None:
        plain = f"'{unicodedata.normalize('NFKC', self.found)}'"
        for kind, text in MARKS.items():
            if text == plain and kind in self.accepts:
                return kind, plain[1:-1]
        return None

    @property
    def ends_reading(self) -> bool:
        """Whether nothing useful can be read after this."""
        return self.at_end or self.source.text.startswith("/*", self.start)

    @property
    def outside(self) -> bool:
        """Whether a kernel or func could begin here."""
        return "KERNEL" in self.accepts and "STAR" not in self.accepts

    @property
    def head_inside(self) -> int | None:
        """Where a kernel or func begins in braces, so that a ``}`` is missing above it."""
        if not self.opened or "KERNEL" in self.accepts:
            return None
        text = self.source.text
        starts = [self._previous_start] if self.previous_text in HEADS else []
        found = [at for at in (*starts, self.start) if HEAD.match(text, at)]
        return found[0] if found else None

    @property
    def _previous_start(self) -> int:
        span = span_of(self.previous)
        lines = self.source.text.split("\n")
        return sum(len(line) + 1 for line in lines[: span.line - 1]) + span.column - 1

    @property
    def meant(self) -> tuple[str, str] | None:
        """The terminal and text that ``found`` plainly stands for: ``x`` where ``%x`` can be."""
        if self.misspelt_kernel:
            return ("KERNEL", "kernel")
        for keyword in ("match", "rewrite"):
            if keyword.upper() in self.accepts and nearest(self.found, [keyword]) is not None:
                return (keyword.upper(), keyword)
        plain = _PLAIN_WORD.fullmatch(self.found) is not None
        if not plain or "NAME" in self.accepts or "KERNEL" in self.accepts:
            return None
        after = self.source.text[self.start + len(self.found) :]
        if "SYMBOL" in self.accepts:
            return ("SYMBOL", f"@{self.found}")
        if "LABEL" in self.accepts and ("RESULT" not in self.accepts or _COLON.match(after)):
            return ("LABEL", f"^{self.found}")
        if "RESULT" in self.accepts and _SETS.match(after):
            return ("RESULT", f"%{self.found}")
        return ("VALUE", f"%{self.found}") if "VALUE" in self.accepts else None

    @property
    def is_spare_semicolon(self) -> bool:
        """Whether a ``;`` ends a line of the IR notation, where no mark does."""
        return self.found == ";" and "RESULT" in self.accepts

    @property
    def misspelt_kernel(self) -> bool:
        """Whether ``found`` stands where ``kernel`` should and something like it was written."""
        follows = _ANY_HEAD.match(self.source.text, self.start)
        meant = self.found in _KERNEL_ELSEWHERE or nearest(self.found, ["kernel"]) is not None
        return self.outside and follows is not None and meant


def place(text: str, position: int) -> tuple[int, int]:
    """Line and column, from 1, of an offset."""
    line_start = text.rfind("\n", 0, position) + 1
    return text.count("\n", 0, position) + 1, position - line_start + 1
