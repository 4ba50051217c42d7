"""One mistake, one diagnostic: after each error parsing goes on where it makes sense."""

from __future__ import annotations

import pytest
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.recovery import MOST_ERRORS


def places(text: str) -> list[tuple[int, int]]:
    with pytest.raises(CompileError) as caught:
        parse(Source(text))
    spans = [diagnostic.span for diagnostic in caught.value.diagnostics]
    return [span[:2] for span in spans if span is not None]


def body(*lines: str) -> str:
    return "\n".join(["kernel k(input A: tensor, output C: tensor) {", *lines, "}"])


def test_one_error_a_broken_statement() -> None:
    text = body("C = A +;", "C = A;", "C = * A;", "C = A A;", "C = A;")
    assert places(text) == [(2, 8), (4, 5), (5, 7)]


def test_a_broken_header_does_not_hide_its_body() -> None:
    assert places("kernel k(input A tensor) {\n C = ;\n}\nkernel l( {\n D = ;\n}") == [
        (1, 18),
        (2, 6),
        (4, 10),
        (5, 6),
    ]


def test_both_broken_parameters_are_reported() -> None:
    assert places("kernel k(input A: , input B: tensor, output C tensor) { C = A; }") == [
        (1, 19),
        (1, 47),
    ]


def test_a_broken_block_in_a_block_does_not_end_the_outer_one() -> None:
    text = body("for i in 0..3 { C = ; if (x) { y = ; } D = A; }", "E = ;")
    assert places(text) == [(2, 21), (2, 36), (3, 5)]


def test_a_broken_loop_header_skips_its_block() -> None:
    assert places(body("for i 0..3 { C = A; }", "E = ;")) == [(2, 7), (3, 5)]


def test_semicolons_in_strings_and_comments_do_not_end_a_statement() -> None:
    text = body("C = A A /* ; */ + f(';') # ;", " + 1;", "E = ;")
    assert places(text) == [(2, 7), (4, 5)]


def test_a_division_after_an_error_is_no_comment() -> None:
    assert places(body("C = A A // B; D = ;")) == [(2, 7), (2, 19)]


def test_a_missing_brace_is_found_at_the_next_kernel() -> None:
    text = "kernel a(input A: tensor) {\n C = A;\nkernel b(input A: tensor) {\n D = ;\n}"
    assert places(text) == [(3, 1), (4, 6)]


def test_nothing_is_reported_after_an_unclosed_comment() -> None:
    assert places(body("C = ;", "/* C = ;", "D = ;")) == [(2, 5), (3, 1)]


def test_the_list_of_errors_ends() -> None:
    assert len(places(body(*["C = ;"] * 100))) == MOST_ERRORS


def test_the_end_of_the_text_is_reported_once() -> None:
    assert len(places("kernel k(input A: tensor) { C = (A + [")) == 1
    assert len(places("kernel")) == 1


def test_crlf_text_is_read_and_shown_without_its_returns() -> None:
    with pytest.raises(CompileError) as caught:
        parse(Source("kernel k(input A: tensor) {\r\n C = ;\r\n}\r\n"))
    assert "\r" not in str(caught.value)


BROKEN = "kernel a(input A: tensor, output C: tensor) { C = ; }\n"


@pytest.mark.parametrize(
    ("rest", "found"),
    [
        ("kernel b(input A: tensor, output C: tensor) { C = D; }", [(1, 51), (2, 51)]),
        ("kernel b(input A: tensor, output C: tensor) { C = a(A) + D; }", [(1, 51)]),
        ("func @b(%x: tensor) { %0 = relu(%y)  return %0 }", [(1, 51), (2, 33)]),
        ("func @b(%x: tensor) { %0 = relu(%bound)  return %0 }", [(1, 51)]),
        ("%0 = relu(%x)\n%1 = rleu(%0)", [(1, 51)]),
        (
            "/* kernel b() { C = D; } */ kernel c(input A: tensor) { return 'x'; }",
            [(1, 51), (2, 64)],
        ),
    ],
)
def test_what_syntax_errors_do_not_touch_is_checked_too(
    rest: str, found: list[tuple[int, int]]
) -> None:
    with pytest.raises(CompileError) as caught:
        parse(Source(BROKEN + rest), {"bound": 1.0})
    assert [each.span[:2] for each in caught.value.diagnostics if each.span] == found


def test_a_text_without_a_whole_kernel_has_its_syntax_errors_alone() -> None:
    with pytest.raises(CompileError) as caught:
        parse(Source("%0 = relu(%x)\n" + BROKEN), {})
    assert len(caught.value.diagnostics) == 1
