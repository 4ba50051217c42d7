"""The notation of WIA-AI-011, section 5.1.1."""

from __future__ import annotations

import pytest
from chapter_texts import CONDITIONAL
from wia_compiler.base.dtypes import F32
from wia_compiler.base.source import Source
from wia_compiler.dialects.types import tensor_type
from wia_compiler.dialects.wia.ops import FusedOp, YieldOp, make_op
from wia_compiler.frontend.chapter_form import chapter_text
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program
from xdsl.dialects import func
from xdsl.ir import Block, Region

CHAPTER = """\
func @matmul_kernel(
    %A: tensor,
    %B: tensor
) -> tensor {
    %C = tensor.matmul %A, %B : (tensor, tensor)
                                -> tensor
    return %C
}"""


def chapter(text: str) -> str:
    (function,) = import_program(parse(Source(text))).module.ops
    assert isinstance(function, func.FuncOp)
    return chapter_text(function)


def test_the_chapter_s_kernel_prints_as_the_chapter_prints_it() -> None:
    text = """
kernel matmul_kernel(
    input A: tensor,
    input B: tensor,
    output C: tensor
) {
    // 고수준 텐서 표기법
    C = A @ B;  // 행렬 곱셈
}
"""
    assert chapter(text) == CHAPTER


def test_declared_types_scalars_constants_and_attributes() -> None:
    text = """
kernel k(input A: tensor<M, f32>, s: f32, output C: tensor<M, f32>, output D: tensor) {
    let x = A * s;
    x = x + 1.5;
    C = softmax(x, axis=0);
    D = conv2d(x, A, padding=[1, 2]);
}
"""
    assert chapter(text).split("\n") == [
        "func @k(",
        "    %A: tensor<M, f32>,",
        "    %s: f32",
        ") -> (tensor<M, f32>, tensor) {",
        "    %x = tensor.mul %A, %s : (tensor<M, f32>, f32)",
        "                             -> tensor",
        "    %0 = tensor.constant 1.5 : tensor",
        "    %x_1 = tensor.add %x, %0 : (tensor, tensor) -> tensor",
        "    %C = tensor.softmax %x_1 {dim = 0} : (tensor)",
        "                                         -> tensor<M, f32>",
        "    %D = tensor.conv2d %x_1, %A {padding = [1, 2]} : (tensor, tensor<M, f32>)",
        "                                                     -> tensor",
        "    return %C, %D",
        "}",
    ]


def test_one_parameter_stands_on_the_line() -> None:
    text = "kernel k(input x: tensor) { return relu(x); }"
    assert chapter(text).startswith("func @k(%x: tensor) -> tensor {\n")


def test_specialised_and_fused_ops_show_their_shapes() -> None:
    matrix, row = tensor_type((4, 8), F32), tensor_type((4,), F32)
    block = Block(arg_types=[matrix])
    block.args[0].name_hint = "A"
    inner = Block(arg_types=[matrix])
    exp = make_op("exp", [inner.args[0]])
    total = make_op("reduce_sum", [exp.result], {"dim": 1})
    inner.add_ops([exp, total, YieldOp([total.result])])
    fused = FusedOp("fused_exp_reduce_sum", [block.args[0]], [row], Region(inner))
    block.add_ops([fused, func.ReturnOp(fused.outputs[0])])
    function = func.FuncOp("k", ([matrix], [row]), Region(block))
    function.verify()
    assert chapter_text(function).split("\n") == [
        "func @k(%A: tensor<4x8xf32>) -> tensor<4xf32> {",
        "    %0 = fused_exp_reduce_sum(%A) : (tensor<4x8xf32>)",
        "                                    -> tensor<4xf32>",
        "    return %0",
        "}",
    ]


CONTROL = """\
func @conditional_compute(
    %x: tensor,
    %threshold: f32
) -> tensor {
    %0 = tensor.abs %x : (tensor) -> tensor
    %norm = tensor.reduce_sum %0 : (tensor) -> tensor
    %1 = tensor.gt %norm, %threshold : (tensor, f32)
                                       -> tensor
    cond_br %1, ^compute, ^skip

^compute:
    %result = tensor.exp %x : (tensor) -> tensor
    br ^exit(%result)

^skip:
    br ^exit(%x)

^exit(%final: tensor):
    return %final
}"""


def test_branches_print_as_the_chapter_prints_them() -> None:
    text = CONDITIONAL.replace("expensive_operation(%x)", "exp(%x)")
    assert chapter(text) == CONTROL
    assert chapter(CONTROL) == CONTROL


PROGRAMS = {
    "one line": "kernel k(input x: tensor) { return relu(x); }",
    "if and else": """kernel k(input x: tensor<N, f32>, t: f32, output y: tensor<N, f32>) {
        if (reduce_sum(x) > t) { y = x * 2.0; }
        else if (t > 3.0) { y = x; return; } else { y = -x; }
        y = y + cast(N, f32);
    }""",
    "loops": """kernel k(input x: tensor, n: i32, inout y: tensor) {
        let s: f32 = 0.0;
        for i in 2..n step 3 { y = y + cast(i, f32) * s; s = s + 1.0; }
        while (reduce_max(y) > 100.0 && true) { y = y / 2.0; }
    }""",
    "operands by name": """kernel k(input x: tensor, input b: tensor, output y: tensor) {
        y = layer_norm(clamp(x, max=b), bias=b) + gelu(x, approximate="tanh");
    }""",
    "slices and many operands": """kernel k(input x: tensor, output y: tensor) {
        y = concat([x[0:16, :], x[-1:, ::2], x], dim=1);
    }""",
    "several results": """kernel k(input x: tensor, output y: tensor) { a, b = two(x); y = a + b; }
    kernel two(input x: tensor) { return x, x * 1e-5; }""",
    "nested": """kernel k(input x: tensor, n: i64, output y: tensor) {
        y = x;
        for i in 0..n { for j in 0..i { if (j > 2) { y = y * 2.0; } } y = y - 1.0; }
    }""",
    "a numbered value": "func @f(%0: tensor) -> tensor { %1 = relu(%0)  return %1 }",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_printed_parses_back_to_the_same(name: str) -> None:
    program = import_program(parse(Source(PROGRAMS[name])))
    functions = [each for each in program.module.ops if isinstance(each, func.FuncOp)]
    printed = "\n\n".join(map(chapter_text, functions))
    again = import_program(parse(Source(printed)))
    again.module.verify()
    functions = [each for each in again.module.ops if isinstance(each, func.FuncOp)]
    assert "\n\n".join(map(chapter_text, functions)) == printed
