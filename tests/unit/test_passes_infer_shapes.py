"""Specialisation: types, literals, declared sizes, and faults that are found together."""

import pytest
from building import Builder, context, kernel, spec, specs
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.dialects.text import print_ir
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.literals import literal_fault
from wia_compiler.dialects.wia.ops import ConstantOp
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.passes.kernel_function import kernel_function, return_of
from xdsl.dialects.builtin import Float32Type, ModuleOp
from xdsl.ir import SSAValue


def specialize(module: ModuleOp, **arguments: str) -> ModuleOp:
    InferShapes(specs(**arguments)).run(module, context())
    module.verify()
    return module


def result(module: ModuleOp, index: int = 0) -> str:
    return str(spec_of(return_of(kernel_function(module, "k")).operands[index].type))


def faults(module: ModuleOp, **arguments: str) -> list[str]:
    with pytest.raises(CompileError) as raised:
        specialize(module, **arguments)
    return [diagnostic.message for diagnostic in raised.value.diagnostics]


def test_a_named_size_is_checked_within_one_kernel() -> None:
    def body(b: Builder, a: SSAValue, w: SSAValue) -> SSAValue:
        left = b.declare(a, "a", ("M", "K"))
        right = b.declare(w, "w", ("K", None))
        return b.declare(b.op("matmul", left, right), "c", ("M", "N"), "f32")

    assert (
        result(specialize(kernel(["a", "w"], body), a="3x17xf32", w="17x0xf32"))
        == "tensor<3x0xf32>"
    )
    assert faults(kernel(["a", "w"], body), a="3x16xf32", w="17x4xf32") == [
        "size K is 16 on axis 1 of a, and 17 on axis 0 of w",
        "matmul: axis 1 of a: tensor<3x16xf32> has size 16, "
        "axis 0 of w: tensor<17x4xf32> has size 17",
    ]


def test_rank_size_and_dtype_of_a_declaration() -> None:
    module = kernel(["a"], lambda b, a: b.declare(a, "a", (4, "N"), "f32"))
    assert faults(module, a="4xf32") == [
        "a is declared with 2 axes, tensor<4, N, f32>, found 1 axis, tensor<4xf32>"
    ]
    module = kernel(["a"], lambda b, a: b.declare(a, "a", (4, "N"), "f32"))
    assert faults(module, a="5x2xf64") == [
        "a is declared tensor<4, N, f32>, found tensor<5x2xf64>",
        "axis 0 of a is declared 4, found size 5",
    ]


def test_an_output_is_named_when_it_has_another_shape() -> None:
    def body(b: Builder, a: SSAValue) -> SSAValue:
        return b.declare(b.op("reduce_sum", a, dim=0, hint="c"), "c", ("N", "N"))

    assert faults(kernel(["a"], body), a="2x3xf32") == [
        "c is declared with 2 axes, tensor<N, N>, found 1 axis, tensor<3xf32>"
    ]


def test_faults_stand_in_order_of_the_text_and_later_ops_are_not_blamed() -> None:
    def body(b: Builder, a: SSAValue, c: SSAValue) -> SSAValue:
        wrong = b.op("add", a, c, hint="s")
        b.op("exp", wrong)
        return b.op("sub", b.op("matmul", a, a), wrong)

    module = kernel(["a", "c"], body)
    source = Source("\n".join(f"line {n}" for n in range(1, 9)))
    with pytest.raises(CompileError) as raised:
        InferShapes(specs(a="2x3xf32", c="4x3xf32")).run(
            module, PassContext(source, "k", context().facts)
        )
    rendered = str(raised.value)
    assert [d.span.line for d in raised.value.diagnostics if d.span] == [1, 3]
    assert (
        "axis 0 of a: tensor<2x3xf32> has size 2, axis 0 of c: tensor<4x3xf32> has size 4"
        in rendered
    )
    assert "   1 | line 1" in rendered


def test_a_scalar_is_a_tensor_of_rank_0() -> None:
    module = kernel(["a", "s"], lambda b, a, s: b.op("mul", a, s))
    kernel_function(module, "k").body.block.args[1]._type = Float32Type()  # pyright: ignore
    assert result(specialize(module, a="5xf32", s="f32")) == "tensor<5xf32>"
    module = kernel(["a", "s"], lambda b, a, s: b.op("mul", a, s))
    kernel_function(module, "k").body.block.args[1]._type = Float32Type()  # pyright: ignore
    assert faults(module, a="5xf32", s="1xf64") == ["s is a scalar of f32, found tensor<1xf64>"]


def constants(module: ModuleOp) -> list[tuple[object, str]]:
    ops = [op for op in module.walk() if isinstance(op, ConstantOp)]
    return [(op.number, str(spec_of(op.result.type).dtype)) for op in ops]


def test_a_literal_takes_the_other_sides_dtype() -> None:
    def body(b: Builder, a: SSAValue, i: SSAValue) -> list[SSAValue]:
        two = b.literal(2)
        return [b.op("mul", a, two), b.op("mul", two, i)]

    module = specialize(kernel(["a", "i"], body), a="2xf16", i="2xi8")
    assert sorted(constants(module), key=str) == [(2, "i8"), (2.0, "f16")]
    assert "!wia" not in print_ir(module)


def test_a_negative_literal_is_one_number() -> None:
    module = specialize(kernel(["i"], lambda b, i: b.op("max", i, b.op("neg", 128))), i="2xi8")
    assert constants(module) == [(-128, "i8")]
    module = kernel(["i"], lambda b, i: b.op("max", i, b.op("neg", 1)))
    assert faults(module, i="2xu8") == ["u8 cannot hold -1 (a literal takes the dtype of i)"]


def test_a_literal_meets_its_dtype_through_other_literals() -> None:
    def body(b: Builder, a: SSAValue) -> SSAValue:
        chosen = b.op("where", b.op("gt", a, 0), b.op("add", 1, 2), 0)
        return b.op("mul", a, chosen)

    module = specialize(kernel(["a"], body), a="3xbf16")
    assert result(module) == "tensor<3xbf16>"
    assert {dtype for _, dtype in constants(module)} == {"bf16"}


def test_casts_and_declared_outputs_give_literals_a_dtype() -> None:
    def body(b: Builder, a: SSAValue) -> list[SSAValue]:
        return [b.op("cast", 1, dtype="i64"), b.declare(b.literal(0.5), "c", (), "f64")]

    module = specialize(kernel(["a"], body), a="1xf32")
    assert constants(module) == [(1, "i64"), (0.5, "f64")]


def test_literals_alone_are_refused_with_what_to_write() -> None:
    with pytest.raises(CompileError, match=r"cast\(1\.0, f32\)"):
        specialize(kernel(["a"], lambda b, a: b.op("mul", 2, 3)), a="1xf32")
    with pytest.raises(CompileError, match="c is made of literals alone"):
        specialize(kernel(["a"], lambda b, a: b.declare(b.literal(1), "c")), a="1xf32")
    with pytest.raises(CompileError, match="compares literals alone"):
        specialize(kernel(["a"], lambda b, a: b.op("add", a, b.op("lt", 1, 2))), a="1xf32")


@pytest.mark.parametrize(
    ("number", "dtype", "fault"),
    [
        (300, "i8", "i8 cannot hold 300"),
        (-128, "i8", None),
        (256, "u8", "u8 cannot hold 256"),
        (1.5, "i32", "i32 cannot hold 1.5"),
        (2.0, "i32", None),
        (float("inf"), "i64", "i64 cannot hold inf"),
        (float("inf"), "f16", None),
        (70000, "f16", "f16 cannot hold 70000"),
        (65504, "f16", None),
        (1e-10, "f16", "1e-10 vanishes in f16"),
        (1e-10, "bf16", None),
        (2049, "f16", "f16 cannot hold 2049 exactly, its nearest is 2048"),
        (257, "bf16", "bf16 cannot hold 257 exactly, its nearest is 256"),
        (16777217, "f32", "f32 cannot hold 16777217 exactly, its nearest is 16777216"),
        (16777217.0, "f32", None),
        (1e39, "f32", "f32 cannot hold 1e+39"),
        (0.1, "bf16", None),
        (True, "f32", "true is a bool, not a number of f32"),
        (1, "bool", "1 is a number, not a bool"),
        (False, "bool", None),
        (-0.0, "f16", None),
    ],
)
def test_which_numbers_a_dtype_holds(number: bool | float, dtype: str, fault: str | None) -> None:
    found = literal_fault(number, DTYPES[dtype])
    assert (found[0] if found else None) == fault


def test_arguments_of_another_count_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="1 arguments expected, 2 given"):
        specialize(kernel(["a"], lambda b, a: a), a="1xf32", b="1xf32")
    assert spec("f32").rank == 0


def test_all_dtypes_and_odd_sizes() -> None:
    for dtype in DTYPES:
        for size in (0, 1, 3, 17, 127, 1000):
            module = specialize(kernel(["a"], lambda b, a: b.op("eq", a, a)), a=f"{size}x{dtype}")
            assert result(module) == f"tensor<{size}xbool>"
