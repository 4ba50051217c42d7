"""The words for one syntax error: what was expected there, what was found, what to do."""

from __future__ import annotations

import re
import unicodedata

from lark import Token

from wia_compiler.base.errors import Diagnostic
from wia_compiler.base.source import Span
from wia_compiler.frontend.suggestions import in_words, nearest
from wia_compiler.frontend.syntax_fault import MARKS, Fault, place

_EXPRESSION = frozenset(
    {"NAME", "VALUE", "INT", "FLOAT", "HEX", "STRING", "TRUE", "FALSE"}
    | {"LPAR", "LSQB", "MINUS", "BANG"}
)
_OPERATOR = frozenset(
    {
        "PLUS",
        "MINUS",
        "STAR",
        "SLASH",
        "FLOORDIV",
        "PERCENT",
        "AT",
        "POWER",
        "COMPARE",
        "AND",
        "OR",
        "QMARK",
        "LPAR",
        "LSQB",
    }
)
_STATEMENT = _EXPRESSION | frozenset({"LET", "IF", "FOR", "WHILE", "RETURN"})
_LINE = frozenset({"RESULT", "BR", "COND_BR", "RETURN", "LABEL"})
_DIRECTIVE_ENTRY = frozenset({"NAME", "DOTTED", "INT"})
_HEADS = frozenset({"KERNEL", "FUNC", "PATTERN", "SCHEDULE"})
_GROUPS: tuple[tuple[str, frozenset[str], frozenset[str]], ...] = (
    ("a line such as %x = relu(%y)", frozenset({"RESULT", "BR"}), _LINE),
    ("an op", frozenset({"DOTTED", "CALL"}), _EXPRESSION | {"DOTTED", "CALL"}),
    (
        "'at', a level such as @thread",
        frozenset({"AT_LOOP"}),
        frozenset({"AT_LOOP", "NAME", "DOTTED", "SYMBOL"}),
    ),
    ("an axis, a loop or an array", frozenset({"DOTTED", "INT"}), _DIRECTIVE_ENTRY),
    ("a statement", frozenset({"LET"}), _STATEMENT),
    ("a parameter", frozenset({"INPUT"}), frozenset({"INPUT", "OUTPUT", "INOUT", "NAME"})),
    ("an expression", frozenset({"NAME", "INT"}), _EXPRESSION),
    ("an operator", frozenset({"STAR"}), _OPERATOR),
    ("a size or a dtype", frozenset({"SIZES"}), frozenset({"SIZES", "NAME"})),
    ("a number", frozenset({"INT"}), frozenset({"INT", "FLOAT", "HEX", "MINUS"})),
    ("'='", frozenset({"EQUAL"}), frozenset({"EQUAL", "COMPOUND"})),
    ("a name", frozenset({"NAME"}), frozenset({"NAME", "DOTTED"})),
    ("a value such as %x", frozenset({"VALUE"}), frozenset({"VALUE"})),
    ("a value such as %x", frozenset({"RESULT"}), frozenset({"RESULT"})),
    ("a name such as @f", frozenset({"SYMBOL"}), frozenset({"SYMBOL"})),
    ("a label such as ^exit", frozenset({"LABEL"}), frozenset({"LABEL"})),
)
"""What people call a set of terminals: shown where the second holds, standing for the third."""

_OPERATOR_ELSEWHERE: dict[str, str] = {
    "and": "write '&&'",
    "or": "write '||'",
    "not": "write '!'",
    "&": "write '&&' for both conditions; there are no bit operations",
    "|": "write '||' for either condition; there are no bit operations",
    "^": "write '**' for a power; there are no bit operations",
    "~": "write '!' for the opposite condition; there are no bit operations",
    "->": "results are parameters: output C: tensor",
    "=>": "write '>='",
    "=": "write '==' to compare",
    "++": "write '+= 1'",
    "--": "write '-= 1'",
    ".": "values have no methods; write transpose(x), reshape(x, [4, -1]) and so on",
}
_KEYWORDS = ("input", "output", "inout", "let", "if", "else", "for", "while", "return")


_CALLED = re.compile(r".*=[ \t]*([a-z]\w*)[ \t]+%(\w+)[ \t]*$")
"""A line of the IR notation that gives an op its operands without parentheses."""


def describe(fault: Fault) -> Diagnostic:
    """The diagnostic of a fault."""
    for rule in (_unclosed, _head_inside, _missing, _at_end, _odd_character):
        diagnostic = rule(fault)
        if diagnostic is not None:
            return diagnostic
    expected = "'kernel'" if fault.misspelt_kernel else _expected(fault.accepts)
    message = f"expected {expected}, found {fault.found!r}"
    return Diagnostic(message, fault.span, _hint(fault), fault.source)


def _unclosed(fault: Fault) -> Diagnostic | None:
    text = fault.source.text
    for start in (fault.start, fault.start - 1):
        if start >= 0 and text.startswith("/*", start):
            line, column = place(text, start)
            span = Span(line, column, line, column + 2)
            return Diagnostic("a comment is not closed", span, "close it with '*/'", fault.source)
    quote = text[fault.start : fault.start + 1]
    if fault.unknown_character and quote in ('"', "'"):
        end = text.find("\n", fault.start)
        line, column = fault.span[:2]
        width = (end if end >= 0 else len(text)) - fault.start
        span = Span(line, column, line, column + width)
        hint = f"close it with {quote} on the same line"
        return Diagnostic("a string is not closed", span, hint, fault.source)
    return None


def _head_inside(fault: Fault) -> Diagnostic | None:
    start = fault.head_inside
    if start is None:
        return None
    opened = fault.opened[-1]
    line, column = place(fault.source.text, start)
    head = fault.source.text[start:].split()[0]
    return Diagnostic(
        f"expected '}}' before the next {head}",
        Span(line, column, line, column + len(head)),
        f"close the '{opened}' of line {opened.line}",
        fault.source,
    )


def _missing(fault: Fault) -> Diagnostic | None:
    if fault.missing is None or fault.unknown_character:
        return None
    text = fault.missing[1]
    typo = _misspelt(fault)
    where = "at the end of the statement" if text == ";" else f"before {fault.found!r}"
    if fault.missing[0] == "MATCH":
        typo = "write match: before the lines that it looks for"
    return Diagnostic(f"expected '{text}' {where}", fault.after_previous, typo, fault.source)


def _at_end(fault: Fault) -> Diagnostic | None:
    if not fault.at_end:
        return None
    hint = None
    if fault.opened:
        opened = fault.opened[-1]
        hint = f"close the '{opened}' of line {opened.line}"
    message = f"expected {_expected(fault.accepts)}, but the text ends"
    return Diagnostic(message, fault.after_previous or fault.span, hint, fault.source)


def _odd_character(fault: Fault) -> Diagnostic | None:
    if fault.found.isascii():
        return None
    plain = unicodedata.normalize("NFKC", fault.found)
    hint = f"write {plain!r}" if plain.isascii() and plain.isprintable() else None
    if fault.found[0].isalpha():
        message = f"a name is made of ASCII letters, digits and '_', found {fault.found!r}"
    else:
        message = f"unexpected character {fault.found!r}"
    return Diagnostic(message, fault.span, hint, fault.source)


def _expected(accepts: frozenset[str]) -> str:
    rest = set(accepts)
    if accepts >= _HEADS and "STAR" not in accepts:
        rest = set(_HEADS)
    groups: list[str] = []
    for name, marker, members in _GROUPS:
        if marker <= rest:
            rest -= members
            groups.append(name)
    marks = [text for kind, text in MARKS.items() if kind in rest]
    words = [f"'{kind.lower()}'" for kind in sorted(rest - MARKS.keys() - {"$END"})]
    end = ["the end of the text"] if "$END" in rest else []
    return in_words([*marks, *words, *groups, *([] if words else end)])


def _hint(fault: Fault) -> str | None:
    text = fault.source.text
    pairs = (text[fault.start : fault.start + 2], text[max(fault.start - 1, 0) : fault.start + 1])
    if fault.meant is not None:
        return f"write '{fault.meant[1]}'"
    if fault.is_spare_semicolon:
        return "a line of the IR notation ends without ';'"
    if fault.accepts == frozenset({"COLON"}) and fault.found in (",", ")"):
        return f"give its type: {fault.previous_text}: tensor"
    notation = _hint_of_notation(fault)
    if notation is not None:
        return notation
    if isinstance(fault.previous, Token) and fault.previous.type == "FOR" and fault.found == "(":
        return "write for i in 0..N step 1 { … }"
    if "RANGE" in fault.accepts and fault.found == "{":
        return "a range is start..stop: for i in 0..n { … }"
    if "LBRACE" in fault.accepts and fault.found == ":":
        return "a block stands in braces: { … }"
    if fault.found == "if" and "STAR" in fault.accepts:
        return "write condition ? value : other"
    if fault.found == "}" and fault.outside:
        return "there is a '}' too many"
    if "TRUE" in fault.accepts and "NAME" not in fault.accepts:
        return "a default is a constant"
    for written in (*pairs, fault.found):
        if written == "=" and not (fault.opened and fault.opened[-1].type == "LPAR"):
            continue
        if written in _OPERATOR_ELSEWHERE:
            return _OPERATOR_ELSEWHERE[written]
    if fault.outside:
        return "statements stand in a kernel: kernel NAME(input A: tensor, output C: tensor) { … }"
    if text[fault.start - 2 : fault.start] == "//":
        return "'//' after a value is floor division; write '#' for a comment"
    typo = _misspelt(fault)
    if typo is not None:
        return typo
    number = isinstance(fault.previous, Token) and fault.previous.type in ("INT", "FLOAT", "HEX")
    touching = fault.after_previous is not None and fault.after_previous[:2] == fault.span[:2]
    if number and touching and fault.found[0].isalpha():
        spelling = fault.previous_text
        return f"write {spelling} * {fault.found}, or {spelling} alone: numbers have no suffix"
    return None


def _hint_of_notation(fault: Fault) -> str | None:
    """What to write instead in the IR notation."""
    found, text = fault.found, fault.source.text
    if isinstance(fault.previous, Token) and fault.previous.type == "FUNC" and found == ".":
        return "write func @NAME(…)"
    if "RESULT" not in fault.accepts:
        return None
    after = text[fault.start + len(found) : fault.start + len(found) + 20].lstrip(" \t")
    called = _CALLED.match(fault.source.line(fault.span.line)[: fault.span.column - 1])
    if called is not None:
        return f"write {called[1]}(%{called[2]}, …), or tensor.{called[1]} %{called[2]}, …"
    if found[:1] == "%" and after[:1] == ":":
        return "name each result: %a, %b = …"
    if fault.outside:
        return None
    if found in ("if", "for", "while"):
        return "a func branches: cond_br %condition, ^then, ^else"
    if found[:1].isalpha() and after[:1] == "(":
        return f"give what it returns a name: %y = {found}(…)"
    if found[:1].isalpha() and after[:1] == "=":
        return f"write %{found} = …; statements stand in a kernel"
    return None


def _misspelt(fault: Fault) -> str | None:
    """A hint where the word before is almost a keyword (``retrun x``)."""
    word = fault.previous_text
    if (
        isinstance(fault.previous, Token)
        and fault.previous.type == "NAME"
        and word not in _KEYWORDS
    ):
        near = nearest(word, _KEYWORDS)
        if near is not None and fault.found[:1].isalpha():
            return f"did you mean {near!r} instead of {word!r}?"
    return None
