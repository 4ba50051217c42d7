"""Tree to high-level IR: SSA values under the user's names, declared types, calls, locations."""

from __future__ import annotations

import textwrap

import pytest
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.dialects.location import origins_of, spans_of
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import ImportedProgram, import_program
from xdsl.dialects.builtin import ModuleOp


def imported(text: str) -> ImportedProgram:
    program = import_program(parse(Source(text)))
    program.module.verify()
    printed = print_ir(program.module)
    assert print_ir(parse_ir(printed)) == printed
    return program


def lines(text: str) -> list[str]:
    """The ops of all kernels, one a line."""
    printed = print_ir(imported(text).module).split("\n")
    return [line.strip() for line in printed[1:-1]]


def ops(parameters: str, body: str) -> list[str]:
    return lines(f"kernel k({parameters}) {{ {body} }}")[1:-2]


def test_the_chapter_s_kernel() -> None:
    text = """\
        // WIA DSL 예제
        kernel matmul_kernel(
            input A: tensor,
            input B: tensor,
            output C: tensor
        ) {
            // 고수준 텐서 표기법
            C = A @ B;  // 행렬 곱셈
        }
        """
    assert lines(textwrap.dedent(text)) == [
        "func.func @matmul_kernel(%A: !wia.tensor, %B: !wia.tensor) -> !wia.tensor {",
        "%C = wia.matmul %A, %B : (!wia.tensor, !wia.tensor) -> !wia.tensor",
        "func.return %C : !wia.tensor",
        "}",
    ]


AB = "input A: tensor, input B: tensor, output C: tensor"


@pytest.mark.parametrize(
    ("operator", "op"),
    [
        ("+", "add"),
        ("-", "sub"),
        ("*", "mul"),
        ("/", "div"),
        ("//", "floordiv"),
        ("%", "mod"),
        ("**", "pow"),
        ("@", "matmul"),
        ("==", "eq"),
        ("!=", "ne"),
        ("<", "lt"),
        ("<=", "le"),
        (">", "gt"),
        (">=", "ge"),
        ("&&", "logical_and"),
        ("||", "logical_or"),
    ],
)
def test_each_operator_is_its_op(operator: str, op: str) -> None:
    types = "(!wia.tensor, !wia.tensor) -> !wia.tensor"
    assert ops(AB, f"C = A {operator} B;") == [f"%C = wia.{op} %A, %B : {types}"]


def test_prefix_operators_and_the_conditional() -> None:
    assert ops(AB, "C = !A ? -B : A;") == [
        "%0 = wia.logical_not %A : (!wia.tensor) -> !wia.tensor",
        "%1 = wia.neg %B : (!wia.tensor) -> !wia.tensor",
        "%C = wia.where %0, %1, %A : (!wia.tensor, !wia.tensor, !wia.tensor) -> !wia.tensor",
    ]


def test_a_sign_becomes_part_of_its_literal() -> None:
    assert ops(AB, "C = A * -2.5; let d = -(3); let e = -0x8000000000000000; let f = !true;") == [
        "%0 = wia.constant -2.500000e+00 : f64 : !wia.literal",
        "%C = wia.mul %A, %0 : (!wia.tensor, !wia.literal) -> !wia.tensor",
        "%d = wia.constant -3 : i64 : !wia.literal",
        "%e = wia.constant -9223372036854775808 : i64 : !wia.literal",
        "%f = wia.constant false : !wia.literal",
    ]


def test_a_name_that_is_set_again_is_a_value_of_its_own() -> None:
    assert ops(AB, "x = A + B; x = x * x; x += A; C = x; C = C - B;") == [
        "%x = wia.add %A, %B : (!wia.tensor, !wia.tensor) -> !wia.tensor",
        "%x_1 = wia.mul %x, %x : (!wia.tensor, !wia.tensor) -> !wia.tensor",
        "%x_2 = wia.add %x_1, %A : (!wia.tensor, !wia.tensor) -> !wia.tensor",
        "%C = wia.sub %x_2, %B : (!wia.tensor, !wia.tensor) -> !wia.tensor",
    ]


@pytest.mark.parametrize(
    ("operator", "op"), [("+=", "add"), ("-=", "sub"), ("*=", "mul"), ("/=", "div")]
)
def test_compound_assignment(operator: str, op: str) -> None:
    types = "(!wia.tensor, !wia.tensor) -> !wia.tensor"
    found = ops("inout D: tensor, input A: tensor", f"D {operator} A;")
    assert found == [f"%D_1 = wia.{op} %D, %A : {types}"]


def test_values_can_be_swapped() -> None:
    printed = lines(
        "kernel k(input A: tensor, input B: tensor) { a, b = A, B; a, b = b, a; return a, b; }"
    )
    assert printed[1] == "func.return %B, %A : !wia.tensor, !wia.tensor"


def test_declared_types_are_declared_on_the_way_in_and_out() -> None:
    found = lines(
        "kernel k(input A: tensor<M, 8, f32>, output C: tensor<?, M>, n: i32 = 3) "
        "{ C = A * cast(n, f32); }"
    )
    assert found == [
        "func.func @k(%A: !wia.tensor, %n: i32) -> !wia.tensor {",
        '%A_1 = wia.declare %A as "k" "A" dims ["M", 8 : i64] dtype "f32" scope 0 : i64 '
        ": !wia.tensor -> !wia.tensor",
        '%n_1 = wia.declare %n as "k" "n" dims [] dtype "i32" scope 0 : i64 : i32 -> i32',
        '%0 = wia.cast %n_1 {dtype = "f32"} : (i32) -> tensor<f32>',
        "%C = wia.mul %A_1, %0 : (!wia.tensor, tensor<f32>) -> !wia.tensor",
        '%C_1 = wia.declare %C as "k" "C" dims [unit, "M"] dtype unit scope 0 : i64 '
        ": !wia.tensor -> !wia.tensor",
        "func.return %C_1 : !wia.tensor",
        "}",
    ]


def test_results_are_outputs_and_inouts_in_order() -> None:
    program = imported(
        "kernel k(output C: tensor, inout D: tensor, input A: tensor, output E: tensor, s: f32) "
        "{ E = A; C = D; D = A * s; }"
    )
    signature = program.kernels["k"]
    assert signature.output_names == ("C", "D", "E")
    assert [p.name for p in signature.inputs] == ["D", "A", "s"]
    assert "func.return %D, %D_1, %A" in print_ir(program.module)


def test_a_kernel_without_outputs_returns_values() -> None:
    program = imported("kernel k(input A: tensor) { return A, A + 1; }")
    assert program.kernels["k"].output_names == ("result0", "result1")


def test_a_lone_literal_stays_a_literal() -> None:
    assert ops("output C: tensor<4, f32>", "C = 1.0;")[0] == (
        "%C = wia.constant 1.000000e+00 : f64 : !wia.literal"
    )


@pytest.mark.parametrize(
    ("call", "op"),
    [
        ("softmax(A)", "softmax %A {dim = -1 : i64}"),
        ("softmax(A, 0)", "softmax %A {dim = 0 : i64}"),
        ("softmax(input=A, axis=1)", "softmax %A {dim = 1 : i64}"),
        ("softmax(dim=1, input=A)", "softmax %A {dim = 1 : i64}"),
        ("reduce_sum(A)", "reduce_sum %A {dim, keepdim = false}"),
        (
            "reduce_sum(A, [0, -1], keepdims=true)",
            "reduce_sum %A {dim = [0 : i64, -1 : i64], keepdim = true}",
        ),
        ("cast(A, f16)", 'cast %A {dtype = "f16"}'),
        ('cast(A, "f16")', 'cast %A {dtype = "f16"}'),
        ("gelu(A, approximate='tanh')", 'gelu %A {approximate = "tanh"}'),
        ("reshape(A, [2 * 3, -1])", "reshape %A {shape = [6 : i64, -1 : i64]}"),
        ("transpose(A)", "transpose %A {dim0 = -2 : i64, dim1 = -1 : i64}"),
        ("rms_norm(A, eps=1)", 'rms_norm %A {normalized_shape, eps = 1 : i64, given = ["input"]}'),
        (
            "layer_norm(A, bias=B, eps=1)",
            "layer_norm %A, %B {normalized_shape, "
            'eps = 1.000000e+00 : f64, given = ["input", "bias"]}',
        ),
        (
            "conv2d(A, B, stride=[1, 2])",
            "conv2d %A, %B {stride = [1 : i64, 2 : i64], "
            'padding = 0 : i64, dilation = 1 : i64, groups = 1 : i64, given = ["input", "weight"]}',
        ),
        ("reduce_sum(A, dim=none)", "reduce_sum %A {dim, keepdim = false}"),
        (
            "layer_norm(A, none, none, B)",
            "layer_norm %A, %B {normalized_shape, "
            'eps = 1.000000e-05 : f64, given = ["input", "bias"]}',
        ),
        ("minimum(A, B)", "min %A, %B"),
        ("maximum(A, other=B)", "max %A, %B"),
        ("max(A, B)", "max %A, %B"),
    ],
)
def test_arguments_are_bound_by_place_name_alias_and_default(call: str, op: str) -> None:
    (line,) = ops(AB, f"C = {call};")
    assert line.startswith(f"%C = wia.{op} : ")


def test_a_named_constant_can_be_an_attribute() -> None:
    found = ops("input A: tensor, output C: tensor", "let axis = 1; C = softmax(A, axis=-axis);")
    assert "wia.softmax %A {dim = -1 : i64}" in found[1]


def test_a_value_may_hide_an_op() -> None:
    assert len(ops(AB, "let relu = A; C = relu + abs(B);")) == 2


CALLS = """
kernel k(input A: tensor, output C: tensor) {
    let s, d = both(A, A);
    C = scale(s, 3) + scale(d, factor=0.5) + scale(A) + scale(A, A);
}
kernel both(input A: tensor, input B: tensor, output sum: tensor, output difference: tensor) {
    sum = A + B;
    difference = A - B;
}
kernel scale(input A: tensor, output C: tensor, factor: f32 = 2.0) { C = factor * A; }
"""


def test_kernels_call_kernels_that_stand_below_them() -> None:
    found = lines(CALLS)
    assert [line.split("(")[0] for line in found if line.startswith("func.func")] == [
        "func.func @k",
        "func.func @both",
        "func.func @scale",
    ]
    assert (
        "%s, %d = func.call @both(%A, %A) : (!wia.tensor, !wia.tensor) -> "
        "(!wia.tensor, !wia.tensor)" in found
    )
    constants = [line for line in found if "wia.constant" in line]
    assert [line.split("wia.constant ")[1] for line in constants] == [
        "3 : i64 : !wia.literal",
        "5.000000e-01 : f64 : !wia.literal",
        "2.000000e+00 : f64 : !wia.literal",
    ]
    assert sum("-> f32" in line and "wia.declare" in line for line in found) == 5


def test_a_kernel_named_like_an_op_means_the_op_inside_itself_only() -> None:
    found = lines(
        "kernel relu(input X: tensor, output Y: tensor) { Y = relu(X); }\n"
        "kernel k(input X: tensor, output Y: tensor) { Y = relu(X); }"
    )
    assert found[1].startswith("%Y = wia.relu")
    assert found[5].startswith("%Y = func.call @relu")


def test_every_op_has_a_token_of_its_own_and_the_span_of_its_text() -> None:
    text = CALLS
    module = imported(text).module
    found = [op for op in module.walk() if not isinstance(op, ModuleOp)]
    tokens = [origin.token for op in found for origin in origins_of(op)]
    assert len(tokens) == len(set(tokens)) == len(found)
    source = Source(text)
    words = {
        op.name: source.line(span.line)[span.column - 1 : span.end_column - 1]
        for op in found
        for span in spans_of(op)
    }
    assert words["wia.sub"] == "A - B"
    assert words["wia.mul"] == "factor * A"
    assert words["func.func"] == "scale"
    assert all(len(spans_of(op)) == 1 for op in found)


def test_locations_survive_printing_and_parsing() -> None:
    module = imported("kernel k(input A: tensor, output C: tensor) { C = relu(A); }").module
    parsed = parse_ir(print_ir(module, locations=True))
    before = {op.name: origins_of(op) for op in module.walk()}
    after = {op.name: origins_of(op) for op in parsed.walk()}
    assert after["wia.relu"] == before["wia.relu"]


def test_long_sums_import() -> None:
    found = ops("input A: tensor, output C: tensor", f"C = {' + '.join(['A'] * 2000)};")
    assert len(found) == 1999


def test_unused_values_and_inputs_are_fine() -> None:
    assert len(ops(AB, "let unused = A + 1; C = A;")) == 2


def test_faults_of_all_kernels_are_raised_together() -> None:
    text = "\n".join(
        f"kernel k{n}(input A: tensor, output C: tensor) {{ C = x{n}; }}" for n in range(30)
    )
    with pytest.raises(CompileError) as caught:
        imported(text)
    spans = [diagnostic.span for diagnostic in caught.value.diagnostics]
    assert [span.line for span in spans if span] == list(range(1, 31))


def test_a_fault_is_not_repeated_where_its_value_is_used() -> None:
    with pytest.raises(CompileError) as caught:
        imported("kernel k(input A: tensor, output C: tensor) { let x = y; C = x + relu(x); }")
    assert len(caught.value.diagnostics) == 1
