"""Errors as notebooks and terminals show them: the message's own lines, with colour."""

from __future__ import annotations

import re

from wia_compiler.base.errors import WiaError

_RED, _BLUE, _GREEN, _BOLD, _OFF = "\x1b[31m", "\x1b[34m", "\x1b[32m", "\x1b[1m", "\x1b[0m"


def coloured_lines(error: WiaError, *, colours: bool = True) -> list[str]:
    """The lines that IPython prints in place of a traceback."""
    lines = error._render_traceback_()  # pyright: ignore[reportPrivateUsage]
    return [_coloured(line) for line in lines] if colours else lines


def _coloured(line: str) -> str:
    if match := re.match(r"(error|\w*Error)(: )(.*)", line):
        return f"{_RED}{_BOLD}{match[1]}{_OFF}{match[2]}{_BOLD}{match[3]}{_OFF}"
    if match := re.match(r"(\s*-->)(.*)", line):
        return f"{_BLUE}{match[1]}{_OFF}{match[2]}"
    if match := re.match(r"(\s*help:)(.*)", line):
        return f"{_GREEN}{match[1]}{_OFF}{match[2]}"
    if match := re.match(r"(\s*\d* \|)(\s*)(\^+)$", line):
        return f"{_BLUE}{match[1]}{_OFF}{match[2]}{_RED}{match[3]}{_OFF}"
    if match := re.match(r"(\s*\d* \|)(.*)", line):
        return f"{_BLUE}{match[1]}{_OFF}{match[2]}"
    return line
