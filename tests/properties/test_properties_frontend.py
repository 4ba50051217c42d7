"""Whatever the text, the front end gives a program or a ``CompileError``, and nothing else."""

from __future__ import annotations

import numpy as np
import wia_kernels
from hypothesis import given, settings
from hypothesis import strategies as st
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.frontend import syntax
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program
from wia_compiler.frontend.vocabulary import KEYWORDS, TYPES, operations

PROGRAMS = [wia_kernels.get(name).text for name in wia_kernels.names()]
PROGRAMS.append(
    "kernel k(inout D: tensor<?x?xf32>, n: i32 = -3, output C: tensor<M, 4, f32>) {\n"
    "  let a, b = halves(D), 2; D += a[0:1, :]; /* 행렬 */ C = a > 0 && !b ? -a ** 2 : a // b;\n"
    "  for i in 0..n step 2 { C[i] += 1; } if (a) { } else { b = [1, 'x']; }\n}\n"
    "kernel halves(input A: tensor) { return A * 0.5, A; }\n"
)
PROGRAMS.append(
    "func @f(%x: tensor<M, f32>, %t: f32) -> tensor {\n  %n = tensor.reduce_sum %x {dim = 0} : "
    "(tensor) -> tensor // 합\n  cond_br %n > %t, ^a, ^b(%x)\n^a:\n  %y = call @g(%x, %bound)\n"
    "  br ^b(%y)\n^b(%r: tensor):\n  return %r\n}\nfunc @g(%p: tensor, %q: tensor) {\n"
    "  %0 = concat([%p, %q], dim=0)\n  return %0\n}\n"
)
PROGRAMS.append(
    "%0 = conv2d(%x, %w)\n%1 = fused_conv(%x, %w)\npattern P { match: %a = conv2d(%x, %w)\n"
    "  rewrite: %a = fused_conv(%x, %w) }\nschedule k { tile i 8, j.0 4; parallel i }\n"
)
PROGRAMS.append(
    "kernel k(input x: tensor<N, f32>, n: i32, output y: tensor<N, f32>) {\n  let t: f32 = 0.5; "
    "let z: tensor<N, f32>; y = x;\n  if (n > 2) { y = x[0:2] * t; return; } else if (t > 1.0) "
    "{ y = -x; }\n  for i in 0..n step 2 { y = y + cast(i, f32); z[i] = y[i]; }\n  while "
    "(reduce_sum(y) > t) { y = y * 0.5; }\n}\n"
)
BINDINGS = {"bound": (1, 2), "w": np.ones(3, np.float32), "n": 4, "call": print}
MARKS = "A B C x ( ) [ ] { } < > , ; : = += + - * ** / // % @ ? && || ! == .. . 1 2.5 0x1F 4x8xf32"
WORDS = [
    *MARKS.split(),
    *KEYWORDS,
    *TYPES,
    *list(operations())[::4],
    *[
        "A",
        "B",
        "C",
        "x",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        ",",
        ";",
        ":",
        "=",
        "+=",
        "+",
        "-",
        "*",
        "**",
        "/",
        "//",
        "%",
        "@",
        "?",
        "&&",
        "||",
        "!",
        "==",
        "..",
        ".",
        "1",
        "2.5",
        "0x1F",
        "4x8xf32",
    ],
    *(
        "%x",
        "%0",
        "^a",
        "@f",
        "->",
        "br",
        "cond_br",
        "tensor.relu",
        "let",
        "x: f32",
        "%a = relu(%x)",
    ),
    *('"s"', "'", "/*", "*/", "#", "\n", "행", "；", "\t", "%0", "pattern", "schedule", "func"),
]
BOUNDED = settings(max_examples=150, deadline=None, derandomize=True)


def check(text: str) -> None:
    source = Source(text)
    try:
        program = import_program(parse(source), BINDINGS)
    except CompileError as error:
        assert error.diagnostics
        rendered = str(error)
        for diagnostic in error.diagnostics:
            assert diagnostic.message in rendered
            assert diagnostic.span is not None
            lines = text.split("\n")
            assert 1 <= diagnostic.span.line <= len(lines)
            assert 1 <= diagnostic.span.column <= len(lines[diagnostic.span.line - 1]) + 1
        return
    program.module.verify()
    printed = print_ir(program.module)
    assert print_ir(parse_ir(printed)) == printed


@BOUNDED
@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    check(data.decode("utf-8", "replace"))
    check(data.decode("latin-1"))


@BOUNDED
@given(st.lists(st.sampled_from(WORDS), max_size=40))
def test_random_words(words: list[str]) -> None:
    check(" ".join(words))
    check(f"kernel k(input A: tensor, output C: tensor) {{ {' '.join(words)} }}")
    check(f"func @f(%x: tensor, %A: tensor) -> tensor {{ {' '.join(words)}\n return %x }}")


@BOUNDED
@given(
    st.sampled_from(PROGRAMS),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 6), st.sampled_from(["", *WORDS])),
        min_size=1,
        max_size=4,
    ),
)
def test_mutated_programs(text: str, edits: list[tuple[float, int, str]]) -> None:
    for place, length, replacement in edits:
        at = int(place * len(text))
        text = text[:at] + replacement + text[at + length :]
    check(text)


NAMES = st.sampled_from(["A", "B", "C"])
NUMBERS = st.one_of(st.integers(0, 100), st.floats(0, 10, allow_nan=False)).map(str)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.sampled_from(["+", "-", "*", "/", "//", "%", "@", "**", "&&", "||"])
    return st.one_of(
        st.tuples(inner, binary, inner).map(" ".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"-{text}"),
        inner.map(lambda text: f"!{text}"),
        inner.map(lambda text: f"relu({text})"),
        st.tuples(inner, inner, inner).map(lambda parts: "({} ? {} : {})".format(*parts)),
    )


EXPRESSIONS = st.recursive(st.one_of(NAMES, NUMBERS), _grown, max_leaves=12)


@BOUNDED
@given(EXPRESSIONS)
def test_every_node_spans_exactly_its_text(text: str) -> None:
    """The text of a node's span, parsed alone, is the same tree again."""
    source = Source(f"kernel k() {{ x = {text}; }}")
    (statement,) = parse(source).kernels[0].body
    assert isinstance(statement, syntax.Assign)
    for node in syntax.walk(statement.values):
        if isinstance(node, syntax.Word | syntax.Argument):
            continue
        words = source.text[node.span.column - 1 : node.span.end_column - 1]  # pyright: ignore
        again = parse(Source(f"kernel k() {{ x = {words}; }}")).kernels[0].body[0]
        assert isinstance(again, syntax.Assign)
        assert _shape(again.values[0]) == _shape(node)


def _shape(root: object) -> list[str]:
    return [f"{type(node).__name__} {getattr(node, 'text', '')}" for node in syntax.walk(root)]


@BOUNDED
@given(EXPRESSIONS)
def test_every_valid_expression_imports(text: str) -> None:
    check(f"kernel k(input A: tensor, input B: tensor, input C: tensor) {{ return {text}; }}")
