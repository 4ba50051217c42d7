"""``format_text``: a text of the language laid out anew."""

from __future__ import annotations

from wia_compiler.base.errors import WiaError
from wia_compiler.frontend.format.layout import text_of
from wia_compiler.frontend.format.lines import group
from wia_compiler.frontend.format.tokens import is_readable, read_words, same_content


def format_text(text: str, name: str = "<wia>") -> str:
    """The text with one indentation, one spacing, and lines of at most 100 columns where it can be.

    Words and comments stay what they are and in their order, and so do empty lines between
    statements (one at most). A block of one statement that stands on one line stays there, and so
    do parameters that stand one a line. Formatting twice changes nothing more. Raises
    ``CompileError`` with the syntax errors of a text that has some.
    """
    words = read_words(text, name)
    formatted = text_of(group(words))
    if not is_readable(formatted) or not same_content(words, read_words(formatted, name)):
        raise WiaError(
            f"{name}: the formatter would have changed what the text says, and left it alone\n"
            "  help: put the comments inside of expressions on lines of their own"
        )
    return formatted
