"""Walking over tokens: what is expected next, and the error where something else stands."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NoReturn, TypeVar

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.source import Source, Span
from wia_compiler.simulators.ptx.tokens import Token, tokens_of

ItemT = TypeVar("ItemT")


class Cursor:
    """A place in the tokens of a text."""

    def __init__(self, source: Source):
        self.source = source
        self._tokens = tokens_of(source)
        self._place = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._place]

    @property
    def after(self) -> Token:
        """The token after the next."""
        return self._tokens[min(self._place + 1, len(self._tokens) - 1)]

    def labels_of_block(self) -> list[str]:
        """Names before a colon in the block that begins here, without those of inner blocks."""
        found: list[str] = []
        depth = 0
        for token, following in itertools.pairwise(self._tokens[self._place :]):
            depth += {"{": 1, "}": -1}.get(token.text, 0)
            if depth < 0:
                break
            if not depth and token.kind == "word" and following.text == ":":
                found.append(token.text)
        return found

    def take(self) -> Token:
        """The next token, which is then behind us."""
        token = self.token
        if token.kind != "end":
            self._place += 1
        return token

    def accept(self, text: str) -> bool:
        """Take the next token where it is ``text``."""
        if self.token.text != text or self.token.kind == "string":
            return False
        self.take()
        return True

    def expect(self, text: str) -> Token:
        """Take the next token, which must be ``text``."""
        if self.token.text != text:
            self.fail(f"expected {text!r}, found {self.found}")
        return self.take()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Take the next token, which must be of a kind."""
        if self.token.kind != kind:
            self.fail(f"expected {what}, found {self.found}")
        return self.take()

    def integer(self, what: str = "a number") -> int:
        """Take an integer, which may be negative."""
        negative = self.accept("-")
        value = integer_of(self.expect_kind("integer", what).text)
        return -value if negative else value

    def numbers(self) -> list[int]:
        """Take integers with commas between them, as many as there are."""
        found: list[int] = []
        while self.token.kind == "integer":
            found.append(self.integer())
            if not self.accept(","):
                break
        return found

    def listed(self, item: Callable[[], ItemT], end: str) -> list[ItemT]:
        """Items with commas between them, up to ``end``, which is taken too."""
        items: list[ItemT] = []
        if self.accept(end):
            return items
        while True:
            items.append(item())
            if self.accept(end):
                return items
            self.expect(",")

    def skip_braces(self) -> None:
        """Leave out a block in braces."""
        self.expect("{")
        depth = 1
        while depth:
            token = self.take()
            if token.kind == "end":
                self.fail("the text ends inside of a block")
            depth += {"{": 1, "}": -1}.get(token.text, 0)

    def skip_statement(self) -> None:
        """Leave out everything up to the next semicolon."""
        while self.token.kind != "end" and not self.accept(";"):
            self.take()

    @property
    def found(self) -> str:
        """The next token as messages say it."""
        return "the end of the text" if self.token.kind == "end" else repr(self.token.text)

    def fail(self, message: str, span: Span | None = None, hint: str | None = None) -> NoReturn:
        """Raise ``CompileError`` at a place, the next token if none is given."""
        raise CompileError([Diagnostic(message, span or self.token.span, hint, self.source)])


def integer_of(text: str) -> int:
    """The value of an integer token."""
    text = text.rstrip("U")
    if text[:2] in ("0x", "0X", "0b", "0B"):
        return int(text, 0)
    # A leading 0 makes it octal, as in C.
    return int(text, 8) if len(text) > 1 and text[0] == "0" else int(text)
