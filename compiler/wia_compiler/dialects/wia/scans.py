"""Ops that go along an axis in order: running folds, and where an extreme stands.

FLOP convention: one per element that is read.
"""

from __future__ import annotations

from typing import Any

from wia_compiler.base.dtypes import I64
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Algebra, Call, Formula, carried
from wia_compiler.dialects.wia.reduction import reduced_shape
from wia_compiler.dialects.wia.rules import describe, is_narrow, normalize_axis, require_number


def _per_input(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    return operands["input"].num_elements


def _of_all_axes(operands: Operands, attributes: Attributes) -> bool:
    return attributes["dim"] is None


def _in_row_major_order(name: str) -> Formula:
    """The position in the array as one list."""

    def formula(call: Call[Any], a: Algebra[Any]) -> Any:
        count = a.spec(call["input"]).num_elements
        return a.reshape(a.op(name, a.reshape(call["input"], (count,)), dim=0), call.result.shape)

    return formula


def _position(name: str, doc: str) -> OpDeclaration:
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        operand = operands["input"]
        require_number(operand, name)
        keep = bool(attributes["keepdim"])
        if attributes["dim"] is None:
            axes = tuple(range(operand.rank))
        else:
            axes = (normalize_axis(attributes["dim"], operand),)
        shape = reduced_shape(operand, axes, keep)
        if any(operand.shape[axis] == 0 for axis in axes):
            raise InferenceError(
                f"{name} of no elements is undefined: {describe(operand)}",
                "the axis must have an element",
            )
        return TensorSpec(shape, I64)

    return OpDeclaration(
        name,
        "reduction",
        (
            Parameter("input"),
            Parameter("dim", "attribute", None, aliases=("axis",)),
            Parameter("keepdim", "attribute", False, aliases=("keepdims",)),
        ),
        infer,
        _per_input,
        doc,
        composite_when=_of_all_axes,
        formula=_in_row_major_order(name),
        access="free",
        rule="numbers; the shape without dim (or with size 1 there), all axes where dim is none; "
        "i64",
        numerics="The first position among equals; the first NaN wins; -0 and +0 are equal.",
    )


def _scan(name: str, doc: str) -> OpDeclaration:
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        operand = operands["input"]
        require_number(operand, name)
        normalize_axis(attributes["dim"], operand)
        return TensorSpec(operand.shape, operand.dtype)

    return OpDeclaration(
        name,
        "reduction",
        (Parameter("input"), Parameter("dim", "attribute", aliases=("axis",))),
        infer,
        _per_input,
        doc,
        composite_when=is_narrow,
        formula=carried(name),
        access="free",
        rule="numbers; shape and dtype of input",
        numerics="Carried in f32 for f16 and bf16, and each element rounded once; integers wrap. "
        "The order of accumulation is not defined.",
    )


SCANS: tuple[OpDeclaration, ...] = (
    _position(
        "argmax", "Position of the largest element along an axis; of all, in row-major order."
    ).with_example("argmax(x, dim=1)", x=[[1.0, 3.0, 3.0], [7.0, 5.0, 6.0]]),
    _position(
        "argmin", "Position of the smallest element along an axis; of all, in row-major order."
    ).with_example("argmin(x, dim=1)", x=[[1.0, 3.0, 0.5], [5.0, 5.0, 6.0]]),
    _scan("cumsum", "Sum of the elements up to and with each one along an axis.").with_example(
        "cumsum(x, dim=0)", x=[1.0, 2.0, 3.0, 4.0]
    ),
    _scan("cumprod", "Product of the elements up to and with each one along an axis.").with_example(
        "cumprod(x, dim=0)", x=[1.0, 2.0, 3.0, 4.0]
    ),
)
