"""The words of a text with the comments and line ends between them: nothing of it is lost."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, cast

from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.frontend.comments import without_line_comments
from wia_compiler.frontend.dsl import language_parser, parse

_COMMENT = re.compile(r"(?P<line>(?://|#)[^\n]*)|(?P<block>/\*.*?\*/)|(?P<break>\n)", re.DOTALL)


@dataclass(frozen=True)
class Comment:
    """A comment as written; ``breaks`` counts the line ends between it and what stands before."""

    text: str
    breaks: int

    @property
    def ends_line(self) -> bool:
        """Whether nothing can follow on its line."""
        return not self.text.startswith("/*")


@dataclass(frozen=True)
class Word:
    """A word of the grammar, the comments before it, and the line ends after the last of them."""

    kind: str
    text: str
    comments: tuple[Comment, ...] = ()
    breaks: int = 0

    @property
    def line_ends(self) -> int:
        """Line ends between the word before and this one, those between comments included."""
        return self.breaks + sum(comment.breaks for comment in self.comments)


@dataclass
class _Gap:
    comments: list[Comment] = field(default_factory=list[Comment])
    breaks: int = 0


def read_words(text: str, name: str) -> list[Word]:
    """Every word of a text, and an empty one of kind ``END`` that holds the last comments.

    Raises ``CompileError`` with the syntax errors of a text that has some.
    """
    from lark.exceptions import UnexpectedInput

    source = Source(text, name)
    words: list[Word] = []
    end = 0
    try:
        interactive = cast(Any, language_parser()).parse_interactive(without_line_comments(text))
        for token in interactive.iter_parse():
            start = token.start_pos or 0
            gap = _read_gap(text[end:start])
            words.append(Word(token.type, str(token), tuple(gap.comments), gap.breaks))
            end = token.end_pos or start
    except UnexpectedInput:
        parse(source)  # raises with every fault of the text
        raise
    parse(source)
    gap = _read_gap(text[end:])
    return [*words, Word("END", "", tuple(gap.comments), gap.breaks)]


def same_content(first: list[Word], second: list[Word]) -> bool:
    """Whether two texts have the same words and comments in the same order."""

    def content(words: list[Word]) -> list[tuple[str, str, tuple[str, ...]]]:
        return [(w.kind, w.text, tuple(c.text.rstrip() for c in w.comments)) for w in words]

    return content(first) == content(second)


def is_readable(text: str) -> bool:
    """Whether a text has no syntax errors."""
    try:
        parse(Source(text))
    except CompileError:
        return False
    return True


def _read_gap(text: str) -> _Gap:
    gap = _Gap()
    for match in _COMMENT.finditer(text):
        if match["break"]:
            gap.breaks += 1
        else:
            gap.comments.append(Comment(match.group().rstrip(), gap.breaks))
            gap.breaks = 0
    return gap
