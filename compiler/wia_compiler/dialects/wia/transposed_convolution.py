"""Transposed convolutions: what the gradient of a convolution does to its output.

FLOP convention: a multiply-add of an input element and a tap counts two.
"""

from __future__ import annotations

import math
from typing import Any

from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.convolution import require_bias
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Algebra, Call
from wia_compiler.dialects.wia.rules import describe, int_tuple, require_number, same_dtype

_SHAPES = {1: ("N×C×L", "C×F×R"), 2: ("N×C×H×W", "C×F×R×S")}


def _numbers(attributes: Attributes, count: int, op: str) -> list[tuple[int, ...]]:
    """Stride, padding, output padding and dilation of each axis."""
    names = ("stride", "padding", "output_padding", "dilation")
    columns = [int_tuple(attributes[name], count, name) for name in names]
    rows = list(zip(*columns, strict=True))
    for stride, padding, output_padding, dilation in rows:
        if min(stride, dilation) < 1 or min(padding, output_padding) < 0:
            raise InferenceError(
                f"{op}: stride {stride} and dilation {dilation} start at 1, padding {padding} and "
                f"output_padding {output_padding} at 0",
                "give whole numbers, one or one for each axis",
            )
        if output_padding >= max(stride, dilation):
            raise InferenceError(
                f"{op}: output_padding {output_padding} must be smaller than stride {stride} or "
                f"dilation {dilation}",
                "it only chooses among the sizes that the same convolution maps to one",
            )
    return rows


def _infer(op: str, count: int):
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        x, w = operands["input"], operands["weight"]
        require_number(x, op)
        if x.rank != count + 2 or w.rank != count + 2:
            raise InferenceError(
                f"{op} needs input {_SHAPES[count][0]} and weight {_SHAPES[count][1]}, found "
                f"{describe(x)} and {describe(w)}",
                "add the missing axes with reshape",
            )
        groups = attributes["groups"]
        if not isinstance(groups, int) or groups < 1 or x.shape[1] % groups:
            raise InferenceError(
                f"groups={groups} does not divide the {x.shape[1]} channels of {describe(x)}",
                "give a divisor of the input channels",
            )
        if x.shape[1] != w.shape[0]:
            raise InferenceError(
                f"{op}: axis 1 of {describe(x)} has size {x.shape[1]}, axis 0 of {describe(w)} "
                f"has size {w.shape[0]}",
                "weight is C×(F/groups)×…: its axis 0 must be the input channels",
            )
        require_bias(operands.get("bias"), w.shape[1] * groups, op)
        sizes: list[int] = []
        for axis, (length, taps, row) in enumerate(
            zip(x.shape[2:], w.shape[2:], _numbers(attributes, count, op), strict=True), start=2
        ):
            stride, padding, output_padding, dilation = row
            size = (length - 1) * stride - 2 * padding + dilation * (taps - 1) + output_padding + 1
            if length < 1 or taps < 1 or size < 1:
                raise InferenceError(
                    f"{op} leaves {size} elements of axis {axis} of {describe(x)} with a window of "
                    f"{taps}, stride {stride} and padding {padding}",
                    "use a smaller padding; the axis and the window need an element",
                )
            sizes.append(size)
        shape = (x.shape[0], w.shape[1] * groups, *sizes)
        return TensorSpec(shape, same_dtype(operands.all))

    return infer


def _flops(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    taps = operands["input"].num_elements * math.prod(operands["weight"].shape[1:])
    return 2 * taps + (result.num_elements if operands.get("bias") is not None else 0)


def _formula(op: str, count: int):
    def formula(call: Call[Any], a: Algebra[Any]) -> Any:
        """A convolution of the input, spread by the stride, with the filters turned around."""
        x, w = call["input"], call["weight"]
        shape, groups = a.spec(w).shape, call.integer("groups")
        rows = _numbers(call.attributes, count, op)
        ends: list[int] = []
        for taps, (_, padding, output_padding, dilation) in zip(shape[2:], rows, strict=True):
            before = dilation * (taps - 1) - padding
            ends = [before, before + output_padding, *ends]
        spread = tuple(stride - 1 for stride, *_ in reversed(rows))
        x = a.op("pad", x, pad=tuple(ends), interior=spread)
        w = a.op("flip", w, dims=tuple(range(2, 2 + count)))
        w = _swapped_channels(w, groups, a)
        operands = {"input": x, "weight": w}
        if call.get("bias") is not None:
            operands["bias"] = call["bias"]
        dilations = tuple(dilation for *_, dilation in rows)
        return a.named(f"conv{count}d", operands, {"dilation": dilations, "groups": groups})

    return formula


def _swapped_channels(w: Any, groups: int, a: Algebra[Any]) -> Any:
    """C×(F/groups)×… as F×(C/groups)×…, within each group."""
    inputs, outputs, *taps = a.spec(w).shape
    if groups == 1:
        return a.op("permute", w, dims=(1, 0, *range(2, 2 + len(taps))))
    w = a.reshape(w, (groups, inputs // groups, outputs, *taps))
    w = a.op("permute", w, dims=(0, 2, 1, *range(3, 3 + len(taps))))
    return a.reshape(w, (groups * outputs, inputs // groups, *taps))


def _row(op: str, count: int, doc: str) -> OpDeclaration:
    return OpDeclaration(
        op,
        "contraction",
        (
            Parameter("input"),
            Parameter("weight"),
            Parameter("bias", "optional_tensor", None),
            Parameter("stride", "attribute", 1),
            Parameter("padding", "attribute", 0),
            Parameter("output_padding", "attribute", 0),
            Parameter("groups", "attribute", 1),
            Parameter("dilation", "attribute", 1),
        ),
        _infer(op, count),
        _flops,
        doc,
        primitive=False,
        formula=_formula(op, count),
        access="free",
        rule="numbers of one dtype, which is the result's; a windowed axis has (size − 1) stride − "
        "2 padding + dilation (kernel − 1) + output_padding + 1 elements",
        numerics="f16 and bf16 accumulate in f32 and round once, in any order; bias is then added "
        "as by `+`.",
    )


TRANSPOSED_CONVOLUTION: tuple[OpDeclaration, ...] = (
    _row(
        "conv_transpose1d",
        1,
        "Transposed 1-D convolution of N×C×L with C×(F/groups)×R: each input element adds its "
        "multiple of the filter to the output, stride apart.",
    ).with_example("conv_transpose1d(x, w, stride=2)", x=[[[1.0, 2.0]]], w=[[[1.0, 10.0, 100.0]]]),
    _row(
        "conv_transpose2d",
        2,
        "Transposed 2-D convolution of N×C×H×W with C×(F/groups)×R×S: each input element adds its "
        "multiple of the filter to the output, stride apart.",
    ).with_example(
        "conv_transpose2d(x, w, stride=2)", x=[[[[1.0, 2.0]]]], w=[[[[1.0, 10.0, 100.0]]]]
    ),
)
