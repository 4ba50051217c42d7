"""Patterns: two functions over the same values."""

from __future__ import annotations

import pytest
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.dialects.patterns import PatternDeclaration
from wia_compiler.dialects.text import print_ir
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import ImportedProgram, import_program

KERNEL = "kernel k(input A: tensor, output C: tensor) { C = relu(A); }\n"


def program(match: str, rewrite: str, rest: str = KERNEL) -> ImportedProgram:
    text = f"pattern P {{\n match:\n{match}\n rewrite:\n{rewrite}\n}}\n{rest}"
    return import_program(parse(Source(text)))


def pattern(match: str, rewrite: str) -> PatternDeclaration:
    (found,) = program(match, rewrite).patterns
    found.match.verify()
    found.rewrite.verify()
    return found


def ops(function: object) -> list[str]:
    lines = print_ir(function).split("\n")[1:-1]  # pyright: ignore
    return [line.strip().split(" : ")[0] for line in lines]


def test_the_chapter_s_pattern() -> None:
    found = pattern(
        "%conv = conv2d(%input, %weight)\n%bias_add = add(%conv, %bias)\n%output = relu(%bias_add)",
        "%output = fused_conv_bias_relu(%input, %weight, %bias)",
    )
    assert found.name == "P"
    assert [a.name_hint for a in found.match.body.block.args] == ["input", "weight", "bias"]
    assert [a.name_hint for a in found.rewrite.body.block.args] == ["input", "weight", "bias"]
    assert ops(found.rewrite) == [
        '%output = wia.fuse_match "fused_conv_bias_relu" %input, %weight, %bias',
        "func.return %output",
    ]


def test_both_sides_give_the_names_that_both_set() -> None:
    found = pattern(
        "%a = exp(%x)\n%b = relu(%a)\n%c = neg(%a)", "%c = neg(%x)\n%t = abs(%x)\n%b = relu(%t)"
    )
    assert ops(found.match)[-1] == "func.return %b, %c"
    assert ops(found.rewrite)[-1] == "func.return %b, %c"


def test_one_unread_value_each_needs_no_common_name() -> None:
    found = pattern("%a = neg(%x)\n%b = neg(%a)", "%y = relu(%x)")
    assert ops(found.match)[-1] == "func.return %b"
    assert ops(found.rewrite)[-1] == "func.return %y"


def test_a_rewrite_may_read_what_the_match_computes() -> None:
    found = pattern(
        "%a = exp(%x)\n%u = tanh(%x)\n%b = mul(%a, %a)\n%c = add(%b, %u)", "%c = add(%u, %b)"
    )
    assert [line.split(" ")[2] for line in ops(found.rewrite)[:-1]] == [
        "wia.exp",
        "wia.tanh",
        "wia.mul",
        "wia.add",
    ]


def test_attributes_and_operators_stand_in_patterns() -> None:
    found = pattern("%y = softmax(%x * 2.0, dim=0)", "%y = softmax(%x + %x, dim=0)")
    assert "dim = 0" in print_ir(found.match)


def test_a_text_may_call_what_a_rewrite_names() -> None:
    rest = "func @f(%p: tensor, %q: tensor) -> tensor { %0 = fused_thing(%q, %p)  return %0 }"
    made = program("%a = sub(%x, %y)\n%b = relu(%a)", "%b = fused_thing(%y, %x)", rest)
    assert list(made.kernels) == ["f"]
    printed = print_ir(made.module)
    assert "func.func @fused_thing(%y: !wia.tensor, %x: !wia.tensor)" in printed
    assert "wia.sub %x, %y" in printed


def test_patterns_alone_are_a_program_without_kernels() -> None:
    made = program("%a = neg(%x)", "%a = sub(0.0, %x)", rest="")
    assert (len(made.patterns), len(made.kernels)) == (1, 0)


@pytest.mark.parametrize(
    ("match", "rewrite", "message"),
    [
        ("%a = neg(%x)", "%a = neg(%z)", "'%z' is no value of the match"),
        ("%a = neg(%x)\nreturn %a", "%a = neg(%x)", "the match of a pattern has no branches"),
        ("%a = neg(%x)", "^l:\n%a = neg(%x)", "the rewrite of a pattern has no labels"),
        ("%a = k(%x)", "%a = neg(%x)", "no op or kernel named 'k'"),
        ("%a = neg(%x)\n%a = neg(%x)", "%a = neg(%x)", "'%a' is set twice"),
        ("%a = neg(x)", "%a = neg(%x)", "no value named 'x'"),
        ("", "%a = neg(%x)", "the match of pattern 'P' is empty"),
        ("%a = neg(%x)\n%b = exp(%x)", "%c = neg(%x)", "match and rewrite of pattern 'P' set no"),
        ("%a = fused_neg(%x)", "%a = neg(%x)", "no op or kernel named 'fused_neg'"),
    ],
)
def test_what_a_pattern_cannot_be(match: str, rewrite: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        program(match, rewrite)
    found = [each.message for each in caught.value.diagnostics]
    assert any(each.startswith(message) for each in found), found
