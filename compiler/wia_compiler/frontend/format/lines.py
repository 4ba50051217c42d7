"""Words grouped into the lines that belong together, with their depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wia_compiler.frontend.format.tokens import Word

HEADS = frozenset(("KERNEL", "FUNC", "PATTERN", "SCHEDULE"))
_NOTATION = frozenset(("FUNC", "PATTERN", ""))
"""What holds lines of the IR notation; ``""`` is the text outside of braces."""


@dataclass
class Line:
    """Words that stand on one line if they fit, or a comment of its own (no words).

    ``blank`` keeps an empty line above, ``trailing`` is the comment at its end. A header is the
    line of a kernel's or func's parameters. A short block is one statement that stood on the line
    of its braces.
    """

    depth: int
    words: list[Word] = field(default_factory=list[Word])
    comment: str | None = None
    blank: bool = False
    trailing: str | None = None
    is_notation: bool = False
    is_header: bool = False
    ends_short_block: bool = False

    @property
    def opens(self) -> bool:
        """Whether a block begins at its end."""
        return bool(self.words) and self.words[-1].text == "{"

    @property
    def closes(self) -> bool:
        """Whether it is the brace that ends a block."""
        return len(self.words) == 1 and self.words[0].text == "}"


def group(words: Sequence[Word]) -> list[Line]:
    """The lines of a text."""
    grouping = _Grouping()
    for previous, word in zip([None, *words[:-1]], words, strict=True):
        grouping.add(word, previous)
    return _joined(grouping.lines)


class _Grouping:
    """``line`` is what the next word is added to, ``None`` where it begins a line."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.line: Line | None = None
        self.depth = 0
        self.brackets = 0
        self.head = ""
        self.needs_blank = False

    @property
    def _in_header(self) -> bool:
        return self.head != "" and self.depth == 0

    @property
    def _is_notation(self) -> bool:
        return self.head in _NOTATION and not self._in_header

    def add(self, word: Word, previous: Word | None) -> None:
        """Put a word, and the comments before it, where they belong."""
        closes = word.text == "}" and self.brackets == 0 and self.depth > 0
        if closes or word.kind == "END" or self._begins(word, previous):
            self.line = None
        if self.line is None:
            breaks = self._comment_lines(word)
            word = replace(word, comments=(), breaks=breaks)
        if word.kind == "END":
            return
        if closes:
            self._close(word)
            return
        if self.line is None:
            if self.depth == 0 and word.kind in HEADS:
                self.head = word.kind
            self.line = self._new_line(word.breaks, self._depth_of(word))
            self.line.is_header = self._in_header
            self.line.is_notation = self._is_notation
        self.line.words.append(word)
        self._after(word, self.line)

    def _begins(self, word: Word, previous: Word | None) -> bool:
        """Whether a word begins a line where no mark ended the one before."""
        if self.line is None or self.brackets or previous is None:
            return False
        if self.depth == 0 and word.kind in HEADS:
            return True
        if not self._is_notation:
            return False
        match word.kind:
            case "RESULT":
                return previous.text != ","
            case "BR" | "COND_BR" | "RETURN" | "MATCH" | "REWRITE":
                return True
            case "LABEL":
                return previous.kind != "BR" and previous.text != ","
            case _:
                return False

    def _after(self, word: Word, line: Line) -> None:
        """What a word does to what follows: brackets, blocks, the end of a statement."""
        opens_block = word.text == "{" and (self._in_header or not self._is_notation)
        if opens_block:
            self.depth += 1
            self.line = None
        elif word.text in ("(", "[", "{"):
            self.brackets += 1
        elif word.text in (")", "]", "}"):
            self.brackets = max(0, self.brackets - 1)
        elif self.brackets == 0 and (word.text == ";" or self._is_title(word, line)):
            self.line = None

    def _is_title(self, word: Word, line: Line) -> bool:
        """Whether a ``:`` ends ``match:``, ``rewrite:`` or ``^label:``."""
        return word.text == ":" and line.words[0].kind in ("MATCH", "REWRITE", "LABEL")

    def _close(self, word: Word) -> None:
        self.depth -= 1
        self.lines.append(Line(self.depth, [word]))
        self.line = None
        if self.depth == 0:
            self.head = ""
            self.needs_blank = True

    def _comment_lines(self, word: Word) -> int:
        """Lines for the comments before a word that begins one; gives the line ends before it."""
        for comment in word.comments:
            above = self.lines[-1] if self.lines else None
            is_trailing = comment.breaks == 0 and above is not None and above.comment is None
            if above is not None and is_trailing and above.trailing is None:
                above.trailing = comment.text
            else:
                self._new_line(comment.breaks, self._depth_of(word)).comment = comment.text
        return word.breaks

    def _new_line(self, breaks: int, depth: int) -> Line:
        opened = bool(self.lines) and self.lines[-1].opens
        blank = bool(self.lines) and not opened and (breaks > 1 or self.needs_blank)
        self.needs_blank = False
        self.lines.append(Line(depth, blank=blank))
        return self.lines[-1]

    def _depth_of(self, word: Word) -> int:
        if self.head == "FUNC" and self.depth and word.kind == "LABEL":
            return self.depth - 1
        if self.head == "PATTERN" and self.depth and word.kind not in ("MATCH", "REWRITE"):
            return self.depth + 1
        return self.depth


def _joined(lines: list[Line]) -> list[Line]:
    """``} else {`` on one line and ``{}`` without a break."""
    found: list[Line] = []
    for line, below in zip(lines, [*lines[1:], Line(0)], strict=True):
        above = found[-1] if found else None
        is_else = bool(line.words) and line.words[0].kind == "ELSE"
        if above is not None and above.trailing is None:
            if is_else and above.words and above.words[-1].text == "}":
                above.words += line.words
                above.trailing = line.trailing
                continue
            if line.closes and above.opens:
                above.words += line.words
                above.trailing = line.trailing
                continue
        has_else = bool(below.words) and below.words[0].kind == "ELSE"
        line.ends_short_block = line.closes and not has_else and _is_short_block(found, line)
        found.append(line)
    return found


def _is_short_block(found: list[Line], closing: Line) -> bool:
    """Whether a block holds one statement, and stood on one line with its braces."""
    if len(found) < 2 or not found[-2].opens or not found[-1].words:
        return False
    opening, body = found[-2], found[-1]
    plain = opening.trailing is None and body.trailing is None and opening.words[0].text != "}"
    one_line = body.words[0].breaks == 0 and closing.words[0].breaks == 0
    apart = any(word.text == "{" for word in body.words) and not body.is_notation
    return plain and one_line and not apart and all(not w.breaks for w in body.words)
