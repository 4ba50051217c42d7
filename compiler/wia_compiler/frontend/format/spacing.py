"""Where a space stands between two words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wia_compiler.frontend.format.tokens import Word

_KEYWORDS = frozenset(
    (
        *("KERNEL", "INPUT", "OUTPUT", "INOUT", "LET", "IF", "ELSE", "FOR", "IN", "STEP", "WHILE"),
        *("RETURN", "FUNC", "CALL", "BR", "COND_BR", "PATTERN", "SCHEDULE"),
    )
)
_VALUES = frozenset(
    (
        *("NAME", "VALUE", "RESULT", "INT", "FLOAT", "HEX", "STRING", "TRUE", "FALSE", "DOTTED"),
        *("SYMBOL", "LABEL", "SIZES"),
    )
)
_CLOSING = frozenset((")", "]", "}"))


@dataclass(frozen=True)
class Place:
    """What surrounds a word: the open brackets, whether a ``?`` waits for its ``:``, its line.

    ``brackets`` holds ``(`` of a call or group, ``p`` of a list of parameters, ``[``, ``<`` of a
    type, and ``{`` of attributes. ``is_notation`` is the IR notation, ``is_label`` a line whose
    ``:`` ends it, and ``equals`` counts the ``=`` of the line outside of brackets.
    """

    brackets: str = ""
    asks: int = 0
    is_notation: bool = False
    is_label: bool = False
    equals: int = 0


def has_space(before: Word, after: Word, place: Place, previous: Word | None) -> bool:
    """Whether ``before after`` or ``beforeafter``; ``previous`` stands before ``before``."""
    first, second = before.text, after.text
    inner = place.brackets[-1:]
    if before.kind == "LESSTHAN" or after.kind in ("LESSTHAN", "MORETHAN"):
        return False
    if first in ("(", "[") or second in (")", "]", ",", ";"):
        return False
    if before.kind == "RANGE" or after.kind == "RANGE":
        return False
    if "{" in (first, second) or "}" in (first, second):
        is_empty = first == "{" and second == "}"
        return not is_empty and not (inner == "{" and (first == "{" or second == "}"))
    if ":" in (first, second):
        return first == "," or _around_colon(second == ":", place)
    if "=" in (first, second):
        is_keyword = inner == "(" or (place.is_notation and not inner and place.equals > 1)
        return not is_keyword
    if second in ("(", "["):
        return not (_ends_value(before))
    return not is_sign(before, previous)


def is_sign(word: Word, previous: Word | None) -> bool:
    """Whether ``-`` or ``!`` stands before its operand, not between two."""
    if word.text == "!":
        return True
    return word.text == "-" and (previous is None or not _ends_value(previous))


def _ends_value(word: Word) -> bool:
    return word.kind in _VALUES or word.text in _CLOSING or word.kind == "MORETHAN"


def _around_colon(is_second: bool, place: Place) -> bool:
    if place.brackets[-1:] == "[":
        return False
    if place.asks:
        return True
    spaced_before = place.is_notation and not place.is_label and not place.brackets
    return spaced_before if is_second else True


def places(words: Sequence[Word], *, is_notation: bool, is_header: bool) -> list[Place]:
    """The place of each word of a line; that of an opening bracket is inside of it."""
    brackets, asks, equals = "", [0], 0
    found: list[Place] = []
    is_label = bool(words) and words[0].kind in ("LABEL", "MATCH", "REWRITE")
    for index, word in enumerate(words):
        closes = bool(brackets) and (word.text in _CLOSING or word.kind == "MORETHAN")
        opens = word.text in ("(", "[") or word.kind == "LESSTHAN"
        if opens or (word.text == "{" and is_notation and not is_header):
            opens_list = word.text == "(" and not brackets and (is_header or is_label) and index < 4
            brackets += "p" if opens_list else word.text
            asks.append(0)
        if word.text == "?" and word.kind != "SIZES":
            asks[-1] += 1
        if word.text == "=" and not brackets:
            equals += 1
        found.append(Place(brackets, asks[-1], is_notation, is_label, equals))
        if word.text == ":" and asks[-1]:
            asks[-1] -= 1
        if closes:
            brackets = brackets[:-1]
            asks.pop()
    return found
