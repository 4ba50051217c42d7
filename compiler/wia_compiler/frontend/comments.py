"""Comments of the IR notation, taken out before the lexer comes.

In a kernel ``//`` after a value may be floor division (grammar.lark says when). Everywhere else,
in ``func`` and ``pattern`` and in bare lines, no mark ends a line, so that a comment stands behind
a value on every other line: there ``//`` always begins one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PIECE = re.compile(
    r"""(?P<comment>/\*.*?(?:\*/|\Z)|\#[^\n]*)|(?P<slashes>//[^\n]*)|(?P<string>"[^"\n]*"|'[^'\n]*')"""
    r"""|(?P<mark>[{}])|(?P<head>\b(?:kernel|func|pattern|schedule)\b)|[^/\#"'{}kfps]+|.""",
    re.DOTALL,
)


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """Braces and words that begin something (``kernel``), with their places, outside of comments
    and strings."""
    for match in _PIECE.finditer(text):
        if match.lastgroup in ("mark", "head"):
            yield match.start(), match.group()


def without_line_comments(text: str) -> str:
    """``text`` with spaces for each ``//`` comment outside the braces of kernels.

    Every other character stays where it is.
    """
    kept: list[str] = []
    depth = 0
    in_kernel = False
    for match in _PIECE.finditer(text):
        piece = match.group()
        match match.lastgroup:
            case "slashes" if not (in_kernel and depth):
                piece = " " * len(piece)
            case "head" if depth == 0:
                in_kernel = piece == "kernel"
            case "mark":
                depth = max(0, depth + (1 if piece == "{" else -1))
            case _:
                pass
        kept.append(piece)
    return "".join(kept)
