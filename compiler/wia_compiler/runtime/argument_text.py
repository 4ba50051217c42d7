"""Arguments in words, for the command line and the notebook: ``A=f32[1024,512], alpha=2.0``."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.errors import ArgumentError, Diagnostic
from wia_compiler.base.source import Source, Span
from wia_compiler.runtime.specs import Spec

Number = bool | int | float

_TOKEN = re.compile(
    r"\s*(?:(?P<name>[^\W\d]\w*)|(?P<number>[-+]?[0-9.][\w.]*(?:(?<=[eE])[-+]\d+)?|[-+]inf)|(?P<mark>[=,\[\]])|(?P<other>\S))"
)
_END = "the end"


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass
class _Reader:
    source: Source
    tokens: list[_Token]
    position: int = 0
    seen: dict[str, Spec | Number] = field(default_factory=dict[str, "Spec | Number"])

    @property
    def next(self) -> _Token:
        return self.tokens[self.position]

    def sees(self, text: str) -> bool:
        return self.next.text == text

    def take(self) -> _Token:
        token = self.next
        self.position += 1
        return token

    def expect(self, text: str, hint: str) -> None:
        if not self.sees(text):
            raise self.error(self.next, f"expected {text!r}", hint)
        self.position += 1

    def error(self, token: _Token, expected: str, hint: str) -> ArgumentError:
        span = Span(1, token.start + 1, 1, max(token.end, token.start + 1) + 1)
        found = token.text if token.kind == _END else repr(token.text)
        diagnostic = Diagnostic(f"{expected}, found {found}", span, hint, self.source)
        return ArgumentError(diagnostic.render())


def parse_arguments(text: str, *, name: str = "--args") -> dict[str, Spec | Number]:
    """Read arguments by parameter name: a spec for an array, a number for a scalar.

    An array is its dtype and sizes (``f32[1024,512]``, ``f32[]`` or ``f32`` without axes), a
    scalar a number, ``true`` or ``false``. ``name`` is what messages call the text.
    ``ArgumentError`` points at the place that is wrong.

    >>> parse_arguments("A=f32[3,4], alpha=2.0")
    {'A': <wia.spec f32[3,4]>, 'alpha': 2.0}
    """
    flat = re.sub(r"\s", " ", text)
    reader = _Reader(Source(flat, name), _tokens(flat))
    while reader.next.kind != _END:
        parameter = reader.take()
        if parameter.kind != "name":
            raise reader.error(parameter, "expected a parameter's name", "write A=f32[1024,512]")
        if parameter.text in reader.seen:
            raise reader.error(
                parameter, "each parameter once", f"{parameter.text} is given twice; leave one out"
            )
        reader.expect("=", f"write {parameter.text}=f32[1024,512] or {parameter.text}=2.0")
        reader.seen[parameter.text] = _value(reader)
        if reader.next.kind != _END:
            reader.expect(",", "separate arguments with a comma")
    return reader.seen


def _value(reader: _Reader) -> Spec | Number:
    token = reader.take()
    if token.kind == "name" and token.text in ("true", "false", "True", "False"):
        return token.text.lower() == "true"
    if token.kind == "number" or token.text in ("inf", "nan"):
        return _number(reader, token)
    if token.kind != "name":
        raise reader.error(token, "expected a dtype or a number", "write f32[1024,512] or 2.0")
    dtype = DTYPES.get(token.text)
    if dtype is None:
        near = difflib.get_close_matches(token.text, DTYPES, n=1)
        hint = f"did you mean {near[0]}?" if near else "write f32[1024,512]"
        raise reader.error(token, f"expected one of {', '.join(DTYPES)}", hint)
    if not reader.sees("["):
        return Spec((), dtype)
    reader.take()
    sizes: list[int] = []
    while not reader.sees("]"):
        sizes.append(_size(reader))
        if not reader.sees("]"):
            reader.expect(",", "close the sizes with ] or separate them with a comma")
    reader.take()
    return Spec(tuple(sizes), dtype)


def _size(reader: _Reader) -> int:
    token = reader.take()
    if token.kind != "number" or not token.text.isdigit():
        raise reader.error(
            token, "expected a size", "sizes are whole numbers from 0: f32[1024,512]"
        )
    return int(token.text)


def _number(reader: _Reader, token: _Token) -> Number:
    for read in (int, float):
        try:
            return read(token.text)
        except ValueError:
            continue
    raise reader.error(token, "expected a number", "write 2, 2.0 or 1e-5")


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        tokens.append(_Token(kind, match[kind], match.start(kind), match.end(kind)))
    end = len(text.rstrip())
    return [*tokens, _Token(_END, "the end of the text", end, end)]
