"""Diagnostics show where, what and what to do, whatever characters the line holds."""

import pytest
from wia_compiler.base.errors import CompileError, Diagnostic, WiaError
from wia_compiler.base.source import Source, Span

SOURCE = Source("kernel k(input A: tensor) {\n    C = 행렬 @ A;\n}", "In [3]")


def test_the_caret_stands_under_the_span() -> None:
    text = Diagnostic("no name 'x'", Span(1, 8, 1, 9), "set it first", SOURCE).render()
    assert text.split("\n") == [
        "error: no name 'x'",
        "  --> In [3]:1:8",
        "   1 | kernel k(input A: tensor) {",
        "     |        ^",
        "  help: set it first",
    ]


def test_wide_characters_take_two_columns() -> None:
    lines = Diagnostic("no name", Span(2, 9, 2, 11), None, SOURCE).render().split("\n")
    assert lines[3] == "     |         ^^^^"
    after = Diagnostic("no name", Span(2, 14, 2, 15), None, SOURCE).render().split("\n")
    assert after[3] == "     |" + " " * 16 + "^"


def test_a_tab_counts_as_one_column() -> None:
    source = Source("\tC = x;")
    lines = Diagnostic("no name", Span(1, 6, 1, 7), None, source).render().split("\n")
    assert lines[2].index("x") == lines[3].index("^")


def test_a_span_over_lines_is_underlined_to_the_end_of_the_first() -> None:
    lines = Diagnostic("open", Span(2, 5, 3, 2), None, SOURCE).render().split("\n")
    assert lines[3].strip(" |") == "^" * 13


def test_an_empty_span_still_shows_one_caret() -> None:
    lines = Diagnostic("expected ';'", Span(3, 2, 3, 2), None, SOURCE).render().split("\n")
    assert lines[3].count("^") == 1


def test_a_diagnostic_without_a_place_shows_its_message() -> None:
    assert Diagnostic("nothing to compile").render() == "error: nothing to compile"


def test_compile_error_holds_and_shows_every_diagnostic() -> None:
    first, second = Diagnostic("one"), Diagnostic("two")
    with pytest.raises(WiaError) as caught:
        raise CompileError([first, second])
    assert isinstance(caught.value, CompileError)
    assert caught.value.diagnostics == (first, second)
    assert str(caught.value) == "error: one\n\nerror: two"
    assert caught.value._render_traceback_() == ["error: one", "", "error: two"]


def test_spans_print_parse_and_cover() -> None:
    span = Span(3, 5, 4, 1)
    assert Span.parse(str(span)) == span
    assert span.cover(Span(1, 2, 3, 6)) == Span(1, 2, 4, 1)
