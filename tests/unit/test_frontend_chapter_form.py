"""The notation of WIA-AI-011, section 5.1.1."""

from __future__ import annotations

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
        "    %A: tensor,",
        "    %s: f32",
        ") -> (tensor, tensor) {",
        "    %x = tensor.mul %A, %s : (tensor, f32) -> tensor",
        "    %0 = tensor.constant 1.5 : tensor",
        "    %x_1 = tensor.add %x, %0 : (tensor, tensor) -> tensor",
        "    %C = tensor.softmax %x_1 {dim = 0} : (tensor)",
        "                                         -> tensor",
        "    %D = tensor.conv2d %x_1, %A {padding = [1, 2]} : (tensor, tensor)",
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
