"""Branches, loops and typed lets of kernels: the blocks they become, and what they compute."""

from __future__ import annotations

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program

X = np.array([1.0, -2.0, 4.0], np.float32)


def lines(body: str, parameters: str = "input x: tensor, n: i64, output y: tensor") -> list[str]:
    """The ops of a kernel, one a line, without their types."""
    program = import_program(parse(Source(f"kernel k({parameters}) {{ {body} }}")))
    program.module.verify()
    printed = print_ir(program.module)
    assert print_ir(parse_ir(printed)) == printed
    return [line.strip().split(" : ")[0] for line in printed.split("\n")[2:-2]]


def messages(body: str, parameters: str = "input x: tensor, n: i64, output y: tensor") -> list[str]:
    with pytest.raises(CompileError) as caught:
        lines(body, parameters)
    return [each.message for each in caught.value.diagnostics]


def test_if_and_else_meet_with_what_differs() -> None:
    found = lines("y = x; keep = x; if (n > 2) { y = -x; } else { y = x * x; } y = y + keep;")
    assert found[-10:] == [
        "cf.cond_br %2, ^then, ^else",
        "^then:",
        "%y = wia.neg %x",
        "cf.br ^join(%y",
        "^else:",
        "%y_1 = wia.mul %x, %x",
        "cf.br ^join(%y_1",
        "^join(%y_2: !wia.tensor):",
        "%y_3 = wia.add %y_2, %x",
        "func.return %y_3",
    ]


def test_what_is_set_and_never_read_is_not_passed_on() -> None:
    found = lines("y = x; if (n > 2) { t = -x; y = t * t; } else { t = x; y = t; } ")
    assert [line for line in found if "join" in line][-1] == "^join(%y_1: !wia.tensor):"


def test_a_branch_that_returns_does_not_meet_the_other() -> None:
    found = lines("y = x; if (n > 2) { return; } y = -x;")
    assert [line.split("(")[0] for line in found if line[:1] == "^" or line.startswith("cf")] == [
        "cf.cond_br %2, ^then, ^else",
        "^then:",
        "cf.br ^exit",
        "^else:",
        "cf.br ^exit",
        "^exit",
    ]


def test_a_loop_carries_what_it_sets_and_nothing_else() -> None:
    found = lines("y = x; s = x; for i in 0..n { y = y + s; }")
    assert "^test(%i: !wia.tensor, %y: !wia.tensor):" in found
    assert "%y_1 = wia.add %y, %x" in found


def test_every_op_has_a_place_in_the_text() -> None:
    text = """kernel k(input x: tensor, n: i32, output y: tensor) {
        y = x;
        if (n > 2) { y = -x; }

        for i in 0..n { y = y + 1.0; }
        while (reduce_max(y) > 3.0) { y = y / 2.0; }
    }"""
    module = import_program(parse(Source(text))).module
    ops = [op for op in module.walk() if op.parent is not None]
    assert all(spans_of(op) for op in ops)
    branches = [op for op in ops if op.name == "cf.cond_br"]
    assert [spans_of(op)[0].line for op in branches] == [3, 5, 6]


@pytest.mark.parametrize(
    ("body", "n", "expected"),
    [
        ("y = x; for i in 0..n { y = y + cast(i, f32); }", 4, X + 6),
        ("y = x; for i in 0..n { y = y + cast(i, f32); }", 0, X),
        ("y = x; for i in 0..n { y = y + cast(i, f32); }", -3, X),
        ("y = x; for i in 3..n step 4 { y = y + cast(i, f32); }", 12, X + 3 + 7 + 11),
        ("y = x; for i in 1..5 step n { y = y + cast(i, f32); }", 3, X + 1 + 4),
        ("y = x; for i in 1..5 step n { y = y + 1.0; }", 0, X),
        ("y = x; i = 0; while (i < n) { i = i + 1; y = y * 2.0; }", 3, X * 8),
        ("y = x; for i in 0..n { for j in 0..i { y = y + 1.0; } }", 4, X + 6),
        ("y = x; for i in 0..2 { y = y + 1.0; } for i in 0..n { y = y * 2.0; }", 2, (X + 2) * 4),
        ("a, b = x, -x; for i in 0..n { a, b = b, a; } y = a - b;", 3, -X * 2),
        ("if (n > 2) { if (n > 4) { y = x; } else { y = -x; } } else { y = x * 2.0; }", 3, -X),
        ("y = x; if (n > 2 && !(n > 4)) { y = -x; }", 3, -X),
        ("y = x; while (true) { y = y * 2.0; if (reduce_max(y) > 30.0) { return; } }", 0, X * 8),
        ("let s: f32 = 0.0; if (n > 2) { s = 3.0; } y = x + s;", 3, X + 3),
        ("let s: f32; for i in 0..n { s += 1.5; } y = x + s;", 2, X + 3),
        ("s = 0; if (n > 2) { s = 7; } y = x + cast(s, f32);", 3, X + 7),
        ("let t: tensor<3, f32> = 0.5; t *= 2.0; y = x + t;", 0, X + 1),
        ("let t: tensor<3, f32>; for i in 0..n { t = t + x; } y = t;", 3, X * 3),
        ("y = x; for i in 0..n { if (i == 1) { y = y + 10.0; } }", 3, X + 10),
    ],
)
def test_what_is_computed(body: str, n: int, expected: object) -> None:
    text = f"kernel k(input x: tensor, n: i64, output y: tensor) {{ {body} }}"
    kernel = wia.compile(text).k
    np.testing.assert_array_equal(wia.reference(kernel, X, n), expected)
    np.testing.assert_array_equal(kernel(X, n), expected)


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64", "u8"])
def test_a_bound_may_be_any_integer(dtype: str) -> None:
    body = "y = x; for i in 0..n { y = y + y; } return y;"
    text = f"kernel k(input x: tensor, n: {dtype}) {{ {body} }}"
    np.testing.assert_array_equal(wia.compile(text).k(X, 3), X * 8)


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64", "u8"])
def test_a_bound_may_be_computed(dtype: str) -> None:
    body = f"n = cast(reduce_max(x), {dtype}); y = x; for i in n - n..n step n {{ y = y + y; }}"
    text = f"kernel k(input x: tensor) {{ {body} return y; }}"
    np.testing.assert_array_equal(wia.compile(text).k(X), X * 2)


def test_a_returning_kernel_returns_from_branches() -> None:
    text = "kernel k(x: tensor, t: f32) { if (t > 0.0) { return x, t; } return -x, t * 2.0; }"
    kernel = wia.compile(text).k
    assert kernel(X, 1.0)[1] == 1.0
    np.testing.assert_array_equal(kernel(X, -1.0)[0], -X)


def test_kernels_with_branches_call_each_other() -> None:
    text = """
    kernel outer(input x: tensor, n: i64, output y: tensor) {
        y = x;
        for i in 0..n { y = clipped(y, cast(i, f32)); }
    }
    kernel clipped(input x: tensor, t: f32, output y: tensor) {
        if (reduce_max(x) > t) { y = min(x, t); return; }
        y = x + 1.0;
    }
    """
    expected = X
    for i in range(3):
        expected = np.minimum(expected, np.float32(i)) if expected.max() > i else expected + 1
    np.testing.assert_array_equal(wia.compile(text).outer(X, 3), expected)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("if (n > 2) { y = x; }", "output 'y' is set in one branch of the if of line 1 only"),
        ("for i in 0..n { y = x; }", "output 'y' is set inside the loop of line 1 only"),
        ("y = x; if (n > 2) { let t = x; } y = t;", "'t' ends with the braces around line 1"),
        ("y = x; for i in 0..n { let t = x; } y = t;", "'t' ends with the braces around line 1"),
        ("y = x; for i in 0..n { } y = y + cast(i, f32);", "'i' is the variable of the loop"),
        ("y = x; for i in 0..1.5 { y = y; }", "the bounds of a loop are whole numbers, found 1.5"),
        ("y = x; if (2.0) { y = -x; }", "a condition is a bool, found 2.0"),
        ("y = x; while (q) { y = -x; }", "no value named 'q'"),
        ("y = x; if (n > 2) { return y; }", "a kernel with outputs does not return values"),
    ],
)
def test_what_is_refused(body: str, found: str) -> None:
    (message,) = messages(body)
    assert message.startswith(found)


def test_faults_inside_of_blocks_are_all_found() -> None:
    found = messages("y = x; if (a) { y = b; } else { y = c; } for i in d..e { y = f; } y = g;")
    assert found == [f"no value named {name!r}" for name in "abcdefg"]
