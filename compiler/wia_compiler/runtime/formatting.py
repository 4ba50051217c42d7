"""``wia.format``: a text of the language laid out anew, in memory or in its file."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from wia_compiler.base.errors import ArgumentError
from wia_compiler.base.source import Source


def format(text: str | Source) -> str:
    """The text with one indentation and one spacing; words and comments stay what they are.

    Empty lines between statements stay (one at most), and formatting twice changes nothing more.
    Raises ``CompileError`` with the syntax errors of a text that has some.

    >>> format("kernel double(input A:tensor,output B:tensor){B=A+A;}")
    'kernel double(input A: tensor, output B: tensor) { B = A + A; }\\n'
    """
    from wia_compiler.frontend.format.formatter import format_text

    if isinstance(text, Source):
        return format_text(text.text, text.name)
    return format_text(text)


def write_file(path: Path, text: str) -> None:
    """Replace a file's text: written beside it and renamed, with the permissions that it has."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            Path(name).chmod(mode)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ArgumentError(f"cannot write {path}: {error.strerror}") from None
