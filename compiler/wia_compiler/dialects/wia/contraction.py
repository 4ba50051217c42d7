"""Matrix products.

FLOP convention: a multiply-add counts two.
"""

from __future__ import annotations

from typing import Any

from wia_compiler.base.dtypes import I32
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Algebra, Call
from wia_compiler.dialects.wia.rules import (
    broadcast_shapes,
    describe,
    require_number,
    same_dtype,
)


def _product_shape(a: TensorSpec, b: TensorSpec, op: str) -> tuple[int, ...]:
    """The shape of a matrix product by the ranks of torch.matmul."""
    for spec in (a, b):
        if spec.rank == 0:
            raise InferenceError(
                f"{op} needs at least one axis, found {describe(spec)}",
                "reshape it to [1], or use mul",
            )
    rows = b.shape[-2] if b.rank > 1 else b.shape[0]
    if a.shape[-1] != rows:
        axis = 0 if b.rank == 1 else b.rank - 2
        raise InferenceError(
            f"{op}: axis {a.rank - 1} of {describe(a)} has size {a.shape[-1]}, "
            f"axis {axis} of {describe(b)} has size {rows}",
            "the last axis of the left side and the second last of the right side must agree",
        )
    batch = broadcast_shapes(
        [TensorSpec(spec.shape[:-2], spec.dtype, spec.label) for spec in (a, b)]
    )
    return (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.rank > 1 else ()))


def _infer_matmul(operands: Operands, attributes: Attributes) -> TensorSpec:
    a, b = operands.all
    for spec in (a, b):
        require_number(spec, "matmul")
    shape = _product_shape(a, b, "matmul")
    return TensorSpec(shape, same_dtype((a, b)))


def _matmul_flops(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    return 2 * result.num_elements * operands["input"].shape[-1]


def _infer_linear(operands: Operands, attributes: Attributes) -> TensorSpec:
    x, weight, bias = operands["input"], operands["weight"], operands.get("bias")
    require_number(x, "linear")
    if x.rank == 0 or weight.rank not in (1, 2) or x.shape[-1] != weight.shape[-1]:
        raise InferenceError(
            f"linear multiplies the last axis of {describe(x)} by the last of {describe(weight)}",
            "weight is out×in, with in equal to the last size of the input",
        )
    outputs = weight.shape[:-1]
    if bias is not None and bias.shape not in (outputs, (1,), ()):
        raise InferenceError(
            f"linear's bias has one value for each of its outputs {list(outputs)}, found "
            f"{describe(bias)}",
            "weight is out×in, bias has out elements",
        )
    return TensorSpec((*x.shape[:-1], *outputs), same_dtype(operands.all))


def _linear_flops(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    bias = result.num_elements if operands.get("bias") is not None else 0
    return 2 * result.num_elements * operands["input"].shape[-1] + bias


def _linear(call: Call[Any], a: Algebra[Any]) -> Any:
    weight, bias = call["weight"], call.get("bias")
    if a.spec(weight).rank == 2:
        weight = a.op("permute", weight, dims=(1, 0))
    product = a.op("matmul", call["input"], weight)
    if bias is None:
        return product
    return a.op("add", product, bias if call.result.rank else a.reshape(bias, ()))


def _infer_matmul_integer(operands: Operands, attributes: Attributes) -> TensorSpec:
    a, b = operands["input"], operands["other"]
    for side, zero_name in ((a, "input_zero_point"), (b, "other_zero_point")):
        zero = operands.get(zero_name)
        for spec in (side, zero):
            if spec is not None and spec.dtype.name not in ("i8", "u8"):
                raise InferenceError(
                    f"matmul_integer takes i8 and u8, found {describe(spec)}",
                    "use matmul for other dtypes",
                )
        if zero is not None and zero.num_elements != 1:
            raise InferenceError(
                f"matmul_integer's {zero_name} is one number, found {describe(zero)}",
                "subtract a zero point for each channel before: cast(x, i32) - zero",
            )
    return TensorSpec(_product_shape(a, b, "matmul_integer"), I32)


def _matmul_integer(call: Call[Any], a: Algebra[Any]) -> Any:
    sides: list[Any] = []
    for name in ("input", "other"):
        side, zero = a.cast(call[name], I32), call.get(f"{name}_zero_point")
        if zero is not None:
            side = a.op("sub", side, a.reshape(a.cast(zero, I32), ()))
        sides.append(side)
    return a.op("matmul", *sides)


CONTRACTION: tuple[OpDeclaration, ...] = (
    OpDeclaration(
        "matmul",
        "contraction",
        (Parameter("input"), Parameter("other")),
        _infer_matmul,
        _matmul_flops,
        "Matrix product as torch.matmul: leading axes are batches and broadcast; f16 and bf16 "
        "accumulate in f32 and round once, integers wrap.",
        "@",
        access="contraction",
        rule="numbers of one dtype, which is the result's; …×M×K and …×K×N give …×M×N; a side of "
        "one axis is a row on the left and a column on the right, and its axis goes",
        numerics="The order of accumulation is not defined; a product over no elements is 0.",
    ).with_example("x @ y", x=[[1.0, 2.0], [3.0, 4.0]], y=[[1.0], [10.0]]),
    OpDeclaration(
        "linear",
        "contraction",
        (Parameter("input"), Parameter("weight"), Parameter("bias", "optional_tensor", None)),
        _infer_linear,
        _linear_flops,
        "input @ weightᵀ + bias: a dense layer with weight out×in.",
        primitive=False,
        formula=_linear,
        access="free",
        rule="numbers of one dtype, which is the result's; the last axis becomes out",
        numerics="As matmul; bias is then added as by `+`.",
    ).with_example("linear(x, w, b)", x=[[1.0, 2.0]], w=[[1.0, 0.0], [1.0, 1.0]], b=[0.5, -1.0]),
    OpDeclaration(
        "matmul_integer",
        "contraction",
        (
            Parameter("input"),
            Parameter("other"),
            Parameter("input_zero_point", "optional_tensor", None),
            Parameter("other_zero_point", "optional_tensor", None),
        ),
        _infer_matmul_integer,
        _matmul_flops,
        "(input - input_zero_point) @ (other - other_zero_point) of i8 and u8, computed in i32 "
        "(ONNX MatMulInteger).",
        primitive=False,
        formula=_matmul_integer,
        access="free",
        rule="i8 and u8 in any mixture; shapes as matmul; i32",
        numerics="Exact up to 2^31, then it wraps.",
    ).with_example("matmul_integer(x, y)", x=("i8", [[100, -100]]), y=("i8", [[100], [-100]])),
)
