"""The formatter on programs whose spaces, line ends and comments are drawn anew."""

from __future__ import annotations

import dataclasses
import re

import pytest
import wia_kernels
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source, Span
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.format.formatter import format_text
from wia_compiler.frontend.format.layout import WIDTH
from wia_compiler.frontend.format.tokens import read_words

NOTATION = """func @f(%x: tensor, %t: f32) -> tensor {
    %n = reduce_sum(abs(%x))
    cond_br %n > %t, ^a, ^b
^a:
    %r, %s = split(%x, -1, dim=1)
    %C = tensor.matmul %r, %s {flag = true, size = 2} : (tensor, tensor) -> tensor<4x8xf32>
    br ^c(%C : tensor)
^b:
    br ^c(%x)
^c(%final: tensor):
    return %final
}
pattern P { match: %c = conv2d(%x, %w) %o = relu(%c) rewrite: %o = fused_conv(%x, %w) }
schedule f { tile i 128, j 128; unroll k 4; use_tensor_cores; }
"""
STATEMENTS = """kernel k(inout D: tensor<?x?xf32>, n: i32 = -3, output C: tensor<M, 4, f32>) {
  let a: f32, b = halves(D), 2; D += a[0:1, ::2]; C = a > 0 && !b ? -a ** 2 : a // b;
  for i in 0..n - 1 step 2 { C[i, i] += f(1, axis=-1) % 3; }
  if (a) { return; } else if b == 1 { while (a < 2 || b) { a -= 1.5; } }
  else { b = [1, 'x', 0x1F]; }
}
"""
LINES = "%0 = conv2d(%input, %weight)\n%1 = add(%0, %bias)\n%2 = relu(%1)\n"
PROGRAMS = [wia_kernels.get(name).text for name in wia_kernels.names()]
PROGRAMS += [NOTATION, STATEMENTS, LINES, NOTATION + STATEMENTS]
GAPS = [" ", " ", " ", "\n", "\n\n", "\n\n\n\n  ", "\t", " # note\n", " /* 행렬 */ ", "\n  # own\n"]
GAPS += [" // slashes, and words after them\n", "\n/* two\n   lines */\n"]
BOUNDED = settings(max_examples=120, deadline=None, derandomize=True)


def without_spans(node: object) -> object:
    """A tree as nested tuples, wherever its words stand."""
    if isinstance(node, Span | Source):
        return None
    if isinstance(node, tuple):
        return tuple(without_spans(each) for each in node)
    if dataclasses.is_dataclass(node):
        parts = (getattr(node, each.name) for each in dataclasses.fields(node))
        return (type(node).__name__, *(without_spans(each) for each in parts))
    return node


def comments_of(text: str) -> list[str]:
    words = read_words(text, "")
    return [comment.text for word in words for comment in word.comments]


def check(text: str) -> None:
    before = without_spans(parse(Source(text)))
    formatted = format_text(text)
    assert without_spans(parse(Source(formatted))) == before
    assert format_text(formatted) == formatted
    assert comments_of(formatted) == comments_of(text)
    assert formatted.endswith("\n") and not re.search(r"[ \t]$|\n\n\n|\A\n", formatted, re.M)


@pytest.mark.parametrize("text", PROGRAMS)
def test_programs_as_written(text):
    check(text)
    for row in format_text(text).split("\n"):
        assert len(row) <= WIDTH or len(row.split()) < 3


@BOUNDED
@given(st.sampled_from(PROGRAMS), st.data())
def test_spaces_and_comments_drawn_anew(text: str, data: st.DataObject) -> None:
    words = [word.text for word in read_words(text, "")]
    places = st.integers(0, len(words) - 1)
    gaps = [" "] * len(words)
    for place, gap in data.draw(st.lists(st.tuples(places, st.sampled_from(GAPS)), max_size=12)):
        gaps[place] = gap
    drawn = "".join(f"{word}{gap}" for word, gap in zip(words, gaps, strict=True))
    try:
        same = without_spans(parse(Source(drawn))) == without_spans(parse(Source(text)))
    except CompileError:
        same = False
    assume(same)  # a comment after a value may be read as a division, and the other way round
    check(drawn)


@BOUNDED
@given(st.text(max_size=80))
def test_what_is_no_program_is_reported(text: str) -> None:
    try:
        format_text(text)
    except CompileError as error:
        assert error.diagnostics
