"""The options of a magic's line as words, without tearing expressions apart."""

from __future__ import annotations

import re

from IPython.core.error import UsageError

_OPEN, _CLOSE = "([{", ")]}"


def split_line(line: str) -> list[str]:
    """Words of a line: blanks inside brackets, inside quotes and after a comma do not split.

    >>> split_line('--args A=f32[3, 4], B=f32 --run "f(A, B)" -q')
    ['--args', 'A=f32[3, 4], B=f32', '--run', 'f(A, B)', '-q']
    """
    words: list[str] = []
    word, depth, quote = "", 0, ""
    for index, character in enumerate(line):
        if quote:
            quote = "" if character == quote and line[index - 1] != "\\" else quote
        elif character in "\"'":
            quote = character
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        elif character.isspace() and depth <= 0 and not _continues(word, line[index:]):
            if word:
                words.append(_unquoted(word))
            word = ""
            continue
        word += character
    if quote:
        raise UsageError(f"a quote ({quote}) is not closed in: {line.strip()}")
    if word:
        words.append(_unquoted(word))
    return words


def _continues(word: str, rest: str) -> bool:
    """After a comma the list goes on, unless an option follows."""
    return word.endswith(",") and not re.match(r"\s+--?[A-Za-z]", rest) and bool(rest.strip())


def _unquoted(word: str) -> str:
    if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'":
        return word[1:-1]
    name, sign, value = word.partition("=")
    if (
        sign
        and name.startswith("--")
        and len(value) > 1
        and value[0] == value[-1]
        and value[0] in "\"'"
    ):
        return f"{name}={value[1:-1]}"
    return word
