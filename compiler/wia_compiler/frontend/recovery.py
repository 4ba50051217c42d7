"""All syntax errors of a text: after each one, parsing goes on at the next place that makes sense.

The places are those where the grammar starts something anew: the next statement of a block, the
next line of the IR notation, the next parameter, the next kernel or func. The parser's stack is cut
back to a state that can take such a start (yacc's panic mode); a missing ``;`` or ``)`` is put in
instead, so that nothing is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any, cast

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.parsers.lalr_analysis import Shift

from wia_compiler.base.errors import Diagnostic
from wia_compiler.base.source import Source
from wia_compiler.frontend.syntax_errors import describe
from wia_compiler.frontend.syntax_fault import HEAD, Fault, place
from wia_compiler.frontend.tree_parts import last_of

MOST_ERRORS = 20
"""Errors that are reported of one text; more would hide the first ones."""

_PIECE = re.compile(
    r"""(?P<comment>/\*.*?(?:\*/|\Z)|\#[^\n]*)|(?P<slashes>//[^\n]*)"""
    r"""|(?P<string>"[^"\n]*"|'[^'\n]*')|(?P<word>[^\W\d]\w*)|(?P<mark>[{}();,])|\s+|.""",
    re.DOTALL,
)
_PARAMETER = re.compile(
    r"(?:\s|(?://|\#)[^\n]*|/\*.*?\*/)*(?:\)|(?:input|output|inout)\s+\w|\w+\s*:)", re.DOTALL
)
_WORD = re.compile(r"\w+")
_BRACES = re.compile(r"[}\s]+")
_LINE_START = r"%[\w.]+[ \t]*(?:,[ \t]*%[\w.]+[ \t]*)*=(?!=)|(?:br|cond_br|return)\b|\^\w+"
_LINE = re.compile(rf"[ \t]*(?:{_LINE_START})")
_LINE_OR_END = re.compile(
    rf"^[ \t]*(?={_LINE_START}|(?:match|rewrite)[ \t]*:|\}}|(?:kernel|func|pattern|schedule)\b)",
    re.MULTILINE,
)
_DIRECTIVE = {"NAME", "SEMICOLON", "RBRACE"}
"""What a state takes that a line of a schedule can begin in."""
_NO_VALUE = ("", ";", "{", "}", "(", ",")


def diagnose(parser: Lark, source: Source, text: str) -> list[Diagnostic]:
    """Every syntax error of a source that ``parser`` refused, in text order, at least one.

    ``text`` is what the parser reads: the source's text without some comments.
    """
    return _Recovery(parser, source, text).run()


class _Recovery:
    """One walk through a broken text."""

    def __init__(self, parser: Lark, source: Source, text: str):
        self.source = source
        self.text = text
        self.interactive = cast(Any, parser).parse_interactive(text)
        self.floordiv = re.compile(parser.get_terminal("FLOORDIV").pattern.to_regexp())
        self.diagnostics: list[Diagnostic] = []
        self.filled: set[int] = set()
        self.restarts: set[tuple[int, int]] = set()

    def run(self) -> list[Diagnostic]:
        """Parse to the end of the text, noting each error and going on after it."""
        while len(self.diagnostics) < MOST_ERRORS:
            try:
                self.interactive.resume_parse()
            except UnexpectedInput as error:
                fault = self._fault(error)
                if fault.start not in self.filled:
                    self.diagnostics.append(describe(fault))
                if fault.ends_reading or not self._go_on(fault):
                    break
            else:
                break
        return self.diagnostics

    @property
    def _states(self) -> list[Any]:
        return self.interactive.parser_state.state_stack

    @property
    def _values(self) -> list[Any]:
        return self.interactive.parser_state.value_stack

    def _starts(self, state: Any) -> set[str]:
        """The terminals that a state takes in itself, not after reducing what came before."""
        actions = self.interactive.parser_state.parse_conf.parse_table.states[state]
        return {kind for kind, (action, _) in actions.items() if action is Shift}

    def _fault(self, error: UnexpectedInput) -> Fault:
        start = self._start_of(error)
        match = _WORD.match(self.text, start)
        token = _token_of(error)
        if token is not None and token.type != "$END":
            found = str(token)
        else:
            found = match.group() if match is not None else self.text[start : start + 1]
        previous = next((last for each in reversed(self._values) for last in last_of(each)), None)
        return Fault(
            self.source,
            start,
            found,
            frozenset(self.interactive.accepts()),
            previous,
            opened=tuple(
                value
                for value in self._values
                if isinstance(value, Token) and value.type in ("LBRACE", "LPAR", "LSQB")
            ),
            unknown_character=isinstance(error, UnexpectedCharacters),
        )

    def _start_of(self, error: UnexpectedInput) -> int:
        token = _token_of(error)
        if token is not None and token.type == "$END":
            return len(self.text)
        return error.pos_in_stream if error.pos_in_stream is not None else len(self.text)

    def _go_on(self, fault: Fault) -> bool:
        """Bring the parser to a state from which it can read on; false where there is none."""
        if self._replace(fault) or self._fill_in(fault):
            return True
        if "LBRACE" in fault.accepts and "NAME" not in fault.accepts:
            brace = self.text.find("{", fault.start)
            if brace >= 0 and "LPAR" not in fault.accepts:
                self._move(brace)
                return True
        for depth in range(len(self._states), 0, -1):
            state = self._states[depth - 1]
            choices = fault.accepts if depth == len(self._states) else self._starts(state)
            if self._starts(state) >= _DIRECTIVE:
                position = self._after_statement(fault.start)
            else:
                position = self._fresh_start(choices, fault)
            if position is not None and (depth, position) not in self.restarts:
                self.restarts.add((depth, position))
                self._restart(depth, position)
                return True
        return False

    def _fresh_start(self, choices: Container[str], fault: Fault) -> int | None:
        """Where to read on if the stack is cut to a state with these choices."""
        if fault.head_inside is not None:
            return fault.head_inside if "KERNEL" in choices else None
        if "LET" in choices:
            return self._after_statement(fault.start)
        if "INPUT" in choices:
            return self._after_parameter(fault.start)
        if "RESULT" in choices and ("KERNEL" not in choices or self._stands_in_line(fault)):
            return self._after_line(fault.start)
        if "KERNEL" in choices:
            return self._after_kernel(fault.start)
        return None

    def _stands_in_line(self, fault: Fault) -> bool:
        """Whether a fault outside all braces is in a line of the IR notation."""
        start = self.text.rfind("\n", 0, fault.start) + 1
        return _LINE.match(self.text, start) is not None

    def _after_line(self, start: int) -> int:
        """The next line that can begin as one of the IR notation, or end the lines."""
        match = _LINE_OR_END.search(self.text, start + 1)
        return match.end() if match is not None else len(self.text)

    def _replace(self, fault: Fault) -> bool:
        """Read a misspelt word, or one without its mark, as what was meant; pass over a ``;``."""
        if fault.meant is not None and fault.missing is None:
            self.interactive.feed_token(self._token(*fault.meant, fault.start))
        elif not fault.is_spare_semicolon:
            return False
        self._move(fault.start + len(fault.found))
        return True

    def _fill_in(self, fault: Fault) -> bool:
        """Put in what is missing before the word that was found, or what a wide mark stands for."""
        missing = fault.missing
        if missing is None or fault.start in self.filled:
            return False
        kind, text = missing
        self.interactive.feed_token(self._token(kind, text, fault.start))
        if kind == "MATCH":
            self.interactive.feed_token(self._token("COLON", ":", fault.start))
        if fault.unknown_character:
            self._move(fault.start + len(fault.found))
        else:
            self.filled.add(fault.start)
            self._move(fault.start)
        return True

    def _token(self, kind: str, text: str, start: int) -> Token:
        line, column = place(self.text, start)
        return Token(
            kind, text, start_pos=start, line=line, column=column, end_line=line, end_column=column
        )

    def _restart(self, depth: int, position: int) -> None:
        del self._states[depth:]
        del self._values[depth - 1 :]
        self._move(position)

    def _move(self, position: int) -> None:
        counter = self.interactive.lexer_thread.state.line_ctr
        counter.char_pos = position
        counter.line, counter.column = place(self.text, position)
        counter.line_start_pos = position - counter.column + 1

    def _after_statement(self, start: int) -> int:
        """Just after the ``;`` or block that ends the statement, or before the ``}`` around it.

        The ``;`` of C's ``for (…; …; …)`` do not end it.
        """
        depth = parentheses = 0
        in_header = self.text.startswith("(", start)
        for at, kind in self._pieces(start):
            if in_header and kind in ("(", ")"):
                parentheses += 1 if kind == "(" else -1
                in_header = parentheses > 0
            elif in_header and kind not in ("{", "}"):
                continue
            elif kind == "{":
                depth += 1
            elif kind == "}":
                depth -= 1
                if depth < 0:
                    return at
                if depth == 0:
                    return at + 1
            elif depth == 0 and kind == ";":
                return at + 1
            elif depth == 0 and self._begins_anew(at) and at > start:
                return at
        return len(self.text)

    def _after_parameter(self, start: int) -> int:
        """Just after the ``,`` that ends the parameter, or before what ends the list."""
        depth = 0
        for at, kind in self._pieces(start):
            if kind == "(":
                depth += 1
            elif kind == ")" and depth:
                depth -= 1
            elif depth == 0 and kind == "," and _PARAMETER.match(self.text, at + 1):
                return at + 1
            elif depth == 0 and kind in (")", "{", "}", ";"):
                return at
        return len(self.text)

    def _after_kernel(self, start: int) -> int:
        """Just after the braces of what stands here, or before the next kernel or func."""
        depth = 0
        for at, kind in self._pieces(start):
            if kind == "{":
                depth += 1
            elif kind == "}":
                depth -= 1
                if depth <= 0:
                    return self._past_braces(at)
            elif depth == 0 and at > start and self._begins_anew(at):
                return at
        return len(self.text)

    def _past_braces(self, at: int) -> int:
        match = _BRACES.match(self.text, at)
        return match.end() if match is not None else at + 1

    def _begins_anew(self, at: int) -> bool:
        return HEAD.match(self.text, at) is not None

    def _pieces(self, start: int) -> Iterator[tuple[int, str]]:
        """Braces, marks and words from ``start`` on, without comments and strings."""
        position = start
        while position < len(self.text):
            match = _PIECE.match(self.text, position)
            assert match is not None  # the last alternative takes any character
            position = match.end()
            if match["slashes"] and self._divides(match.start()):
                position = match.start() + 2
            elif match["word"] or match["mark"]:
                yield match.start(), match.group()

    def _divides(self, at: int) -> bool:
        """Whether slashes are an operator: a value stands before them on the line."""
        before = self.text[self.text.rfind("\n", 0, at) + 1 : at].rstrip()[-1:]
        return before not in _NO_VALUE and self.floordiv.match(self.text, at) is not None


def _token_of(error: UnexpectedInput) -> Token | None:
    return cast(Any, error).token if isinstance(error, UnexpectedToken) else None
