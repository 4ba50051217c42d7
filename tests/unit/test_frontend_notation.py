"""The IR notation, patterns and schedules: what parses, and to which nodes."""

from __future__ import annotations

import pytest
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.dialects.text import print_ir
from wia_compiler.frontend import syntax
from wia_compiler.frontend.comments import without_line_comments
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program


def program(text: str) -> syntax.Program:
    return parse(Source(text))


def function(text: str) -> syntax.Function:
    (found,) = program(text).functions
    return found


def lines(text: str) -> list[str]:
    """The ops of the functions of a text, one a line."""
    module = import_program(program(text)).module
    module.verify()
    return [line.strip() for line in print_ir(module).split("\n")[1:-1]]


def test_a_func_is_its_blocks() -> None:
    found = function("""
    func @f(%x: tensor<4x8xf32>, %t: f32 = 1.5) -> (tensor, tensor) {
        %a, %b = g(%x) : (tensor) -> (tensor, tensor)
        cond_br %t > 0.0, ^one, ^two(%a, %x : tensor)
    ^one:
        br ^two(%b, %a)
    ^two(%p: tensor, %q: tensor<4, f32>):
        return %p, %q
    }
    """)
    assert (found.name.text, found.snippet) == ("f", False)
    assert [p.name.text for p in found.parameters] == ["x", "t"]
    assert found.results is not None
    assert len(found.results) == 2
    blocks = found.blocks or ()
    assert [block.label and block.label.text for block in blocks] == [None, "one", "two"]
    assert [p.name.text for p in blocks[2].parameters] == ["p", "q"]
    operation, branch = blocks[0].lines
    assert isinstance(operation, syntax.Operation)
    assert [word.text for word in operation.results] == ["a", "b"]
    assert isinstance(branch, syntax.ConditionalBranch)
    assert (branch.first.label.text, branch.first.arguments) == ("one", ())
    assert len(branch.second.arguments) == 2


def test_a_func_may_have_no_body_and_no_types() -> None:
    assert function("func @f(%a: tensor)\n -> tensor").blocks is None
    found = function("func @f() { return }")
    assert (found.results, found.parameters) == (None, ())


def test_the_chapter_s_matmul_line() -> None:
    found = function("""func @matmul_kernel(
    %A: tensor,
    %B: tensor
) -> tensor {
    %C = tensor.matmul %A, %B : (tensor, tensor)
                                -> tensor
    return %C
}""")
    assert found.blocks is not None
    operation = found.blocks[0].lines[0]
    assert isinstance(operation, syntax.Operation)
    assert isinstance(operation.value, syntax.Call)
    assert operation.value.callee == syntax.Name("tensor.matmul", operation.value.callee.span)
    assert operation.signature is not None
    assert len(operation.signature.operands or ()) == 2
    assert operation.signature.span.end_line == 6


@pytest.mark.parametrize(
    ("line", "op"),
    [
        ("%r = %x + %y", "wia.add %x, %y"),
        ("%r = %x % %y", "wia.mod %x, %y"),
        ("%r = %x %y", "error"),
        ("%r = floordiv(%x, %y)", "wia.floordiv %x, %y"),
        ("%r = %x @ %y // %z is not read", "wia.matmul %x, %y"),
        ("%r = relu(%x)// 활성화", "wia.relu %x"),
        ("%r = relu(%x) // one", "wia.relu %x"),
        ("%r = relu(%x) # one", "wia.relu %x"),
        ("%r = relu(/* in */ %x)", "wia.relu %x"),
        ("%r = tensor.softmax %x {dim = 0}", "wia.softmax %x {dim = 0 : i64}"),
        ("%r = tensor.clamp %x, max = %y", 'wia.clamp %x, %y {given = ["input", "max"]}'),
        ("%r = tensor.relu %x : tensor", "wia.relu %x"),
        ("%r = softmax(%x,\n  dim=0)", "wia.softmax %x {dim = 0 : i64}"),
        ("%r = softmax(%x,\n\n  dim=-1) : (tensor)\n -> tensor", "wia.softmax %x {dim = -1 : i64}"),
    ],
)
def test_one_line(line: str, op: str) -> None:
    text = f"func @f(%x: tensor, %y: tensor) -> tensor {{\n{line}\nreturn %r\n}}"
    if op == "error":
        with pytest.raises(CompileError):
            lines(text)
        return
    assert lines(text)[1].startswith(f"%r = {op} : ")


def test_operators_of_the_next_line_do_not_join_two_lines() -> None:
    text = "func @f(%x: tensor) -> tensor {\n%a = relu(%x)\n%b = relu(%a)\nreturn\n%b\n}"
    assert [line.split(" : ")[0] for line in lines(text)[1:3]] == [
        "%a = wia.relu %x",
        "%b = wia.relu %a",
    ]


def test_values_keep_their_names_and_labels() -> None:
    text = """func @f(%x: tensor, %t: f32) -> tensor {
        cond_br %t > 0.0, ^big, ^exit(%x)
    ^big:
        %half = %x * 0.5
        br ^exit(%half)
    ^exit(%r: tensor):
        return %r
    }"""
    found = lines(text)
    assert found[5:] == [
        "cf.cond_br %2, ^big, ^exit(%x : !wia.tensor)",
        "^big:",
        "%3 = wia.constant 5.000000e-01 : f64 : !wia.literal",
        "%half = wia.mul %x, %3 : (!wia.tensor, !wia.literal) -> !wia.tensor",
        "cf.br ^exit(%half : !wia.tensor)",
        "^exit(%r: !wia.tensor):",
        "func.return %r : !wia.tensor",
        "}",
    ]


def test_several_returns_meet() -> None:
    text = """func @f(%x: tensor, %t: f32) -> tensor {
        cond_br %t > 0.0, ^one, ^two
    ^one:
        return %x
    ^two:
        %y = neg(%x)
        return %y
    }"""
    assert lines(text)[-3:] == [
        "^exit(%result: !wia.tensor):",
        "func.return %result : !wia.tensor",
        "}",
    ]


def test_a_loop_in_blocks() -> None:
    text = """func @f(%x: tensor, %n: i64) -> tensor {
        %zero = cast(0, i64)
        br ^test(%zero, %x)
    ^test(%i: tensor, %v: tensor):
        cond_br %i < %n, ^body, ^done
    ^done:
        return %v
    ^body:
        %w = %v * 2.0
        %j = %i + 1
        br ^test(%j, %w)
    }"""
    assert "cf.br ^test(%j, %w : !wia.tensor, !wia.tensor)" in lines(text)


def test_ops_and_kernels_can_be_told_apart() -> None:
    text = """
    kernel exp(input x: tensor) { return x * 3.0; }
    func @f(%x: tensor) -> tensor {
        %a = exp(%x)
        %b = call @exp(%a)
        %c = tensor.exp %b
        return %c
    }
    """
    found = [line.split(" = ")[1].split("(")[0] for line in lines(text) if " = " in line]
    assert found[-3:-1] == ["func.call @exp", "func.call @exp"]
    assert found[-1].startswith("wia.exp %b")


def test_types_of_lines_and_blocks_are_checks() -> None:
    text = """func @f(%x: tensor<M, f32>) -> tensor<M, f32> {
        %a = relu(%x) : (tensor) -> tensor<M, f32>
        br ^next(%a)
    ^next(%b: tensor<?, f32>):
        return %b
    }"""
    declared = [line for line in lines(text) if "wia.declare" in line]
    assert [line.split("dims [")[1].split("]")[0] for line in declared] == [
        '"M"',
        '"M"',
        "unit",
        '"M"',
    ]


def test_a_pattern_and_a_schedule_are_nodes() -> None:
    found = program("""
    pattern ConvBiasRelu {
        match:
            %conv = conv2d(%input, %weight)
            %output = relu(%conv)
        rewrite:
            %output = fused_conv_relu(%input, %weight)
    }
    schedule k { tile i 128, j.0 32; thread_tile i 8; accumulators 4; use_tensor_cores }
    kernel k(input A: tensor) { return A; }
    """)
    (pattern,) = found.patterns
    assert (len(pattern.match[0].lines), len(pattern.rewrite[0].lines)) == (2, 1)
    (schedule,) = found.schedules
    assert schedule.kernel.text == "k"
    assert [
        (
            directive.name.text,
            [
                (e.name.text if e.name else None, e.number.value if e.number else None)
                for e in directive.entries
            ],
        )
        for directive in schedule.directives
    ] == [
        ("tile", [("i", 128), ("j.0", 32)]),
        ("thread_tile", [("i", 8)]),
        ("accumulators", [(None, 4)]),
        ("use_tensor_cores", []),
    ]


def test_words_of_the_notation_are_names_in_kernels() -> None:
    text = """kernel pattern(input match: tensor, input func: tensor, output br: tensor) {
        call = match + func; schedule = call * 2.0; rewrite = schedule; cond_br = rewrite;
        br = cond_br;
    }"""
    assert len(lines(text)) == 6


def test_comments_are_taken_out_only_where_nothing_can_be_divided() -> None:
    text = (
        "// a\nkernel k(input A: tensor) { // b\n C = A // B;\n}\n"
        'func @f(%x: tensor) { %0 = relu(%x) // c "d"\n}\n%1 = f("//") // e\n'
    )
    shown = without_line_comments(text)
    assert len(shown) == len(text)
    assert [each for each in ("// a", "// b", "// B", "// c", "// e") if each in shown] == [
        "// b",
        "// B",
    ]
    assert '"//"' in shown


def test_let_with_types() -> None:
    (statement, other) = (
        program("kernel k() { let a: f32, b = 1.0, 2.0; let t: tensor<4x8xf32>; }").kernels[0].body
    )
    assert isinstance(statement, syntax.Let)
    assert isinstance(other, syntax.Let)
    assert [each and each.name.text for each in statement.types] == ["f32", None]
    assert (other.values, len(other.types)) == ((), 1)
