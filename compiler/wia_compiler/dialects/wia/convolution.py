"""Convolutions: cross-correlations of N×C×… with F×(C/groups)×…, and their transposes.

FLOP convention: a multiply-add counts two; padding taps are counted as if they were multiplied,
as PyTorch's counter does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Algebra, Call
from wia_compiler.dialects.wia.rules import describe, int_tuple, require_number, same_dtype

_SHAPES = {1: ("N×C×L", "F×C×R"), 2: ("N×C×H×W", "F×C×R×S")}


@dataclass(frozen=True)
class ConvolutionAxis:
    """How a filter of ``size`` taps moves along one axis."""

    size: int
    stride: int
    before: int
    after: int
    dilation: int

    @property
    def reach(self) -> int:
        """Elements from the first tap to the last."""
        return self.dilation * (self.size - 1) + 1


def convolution_axes(
    attributes: Attributes, sizes: tuple[int, ...], op: str
) -> tuple[ConvolutionAxis, ...]:
    """Stride, padding and dilation along each axis of a filter with these sizes.

    ``padding="same"`` keeps the size, with the odd element of padding behind, as PyTorch does.
    """
    count = len(sizes)
    stride = int_tuple(attributes["stride"], count, "stride")
    dilation = int_tuple(attributes["dilation"], count, "dilation")
    padding = attributes["padding"]
    if padding == "same":
        if any(step != 1 for step in stride):
            raise InferenceError(
                f"{op}: padding='same' needs stride 1, found {list(stride)}",
                "give the padding in numbers",
            )
        totals = [each * (size - 1) for size, each in zip(sizes, dilation, strict=True)]
        ends = [(total // 2, total - total // 2) for total in totals]
    elif isinstance(padding, str) and padding != "valid":
        raise InferenceError(
            f"{op} has no padding={padding!r}", "expected numbers, 'same' or 'valid'"
        )
    else:
        listed = int_tuple(0 if padding == "valid" else padding, count, "padding")
        ends = [(each, each) for each in listed]
    if min(stride) < 1 or min(dilation) < 1 or min(min(pair) for pair in ends) < 0:
        raise InferenceError(
            f"{op}: stride {stride} and dilation {dilation} start at 1, padding {padding} at 0",
            "give whole numbers, one or one for each axis",
        )
    rows = zip(sizes, stride, ends, dilation, strict=True)
    return tuple(ConvolutionAxis(size, s, *pair, d) for size, s, pair, d in rows)


def conv2d_window(
    attributes: Attributes,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Stride, padding and dilation of a ``conv2d`` whose padding is in numbers, by axis."""
    axes = convolution_axes(attributes, (1, 1), "conv2d")
    return (
        tuple(axis.stride for axis in axes),
        tuple(axis.before for axis in axes),
        tuple(axis.dilation for axis in axes),
    )


def _require_operands(operands: Operands, attributes: Attributes, op: str, axes: int) -> int:
    """The number of groups of a convolution whose operands fit together."""
    x, w, bias = operands["input"], operands["weight"], operands.get("bias")
    require_number(x, op)
    if x.rank != axes + 2 or w.rank != axes + 2:
        shapes = _SHAPES[axes]
        raise InferenceError(
            f"{op} needs input {shapes[0]} and weight {shapes[1]}, found {describe(x)} and "
            f"{describe(w)}",
            "add the missing axes with reshape",
        )
    groups = attributes["groups"]
    if not isinstance(groups, int) or groups < 1 or x.shape[1] % groups or w.shape[0] % groups:
        raise InferenceError(
            f"groups={groups} does not divide {x.shape[1]} input and {w.shape[0]} output channels",
            "groups must divide both; 1 connects every channel with every other",
        )
    if x.shape[1] // groups != w.shape[1]:
        raise InferenceError(
            f"{op}: axis 1 of {describe(x)} has size {x.shape[1]}, axis 1 of {describe(w)} "
            f"has size {w.shape[1]}, with groups={groups}",
            "weight's axis 1 must be the input channels divided by groups",
        )
    require_bias(bias, w.shape[0], op)
    return groups


def require_bias(bias: TensorSpec | None, channels: int, op: str) -> None:
    """Refuse a bias that has not one value for each output channel."""
    if bias is not None and bias.shape != (channels,):
        raise InferenceError(
            f"{op}'s bias has one value per output channel ({channels}), found {describe(bias)}",
            "a bias is a list along the output channels",
        )


def _infer_convolution(op: str, count: int):
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        _require_operands(operands, attributes, op, count)
        x, w = operands["input"], operands["weight"]
        dtype = same_dtype(operands.all)
        axes = convolution_axes(attributes, w.shape[2:], op)
        sizes: list[int] = []
        for number, axis in enumerate(axes, start=2):
            length = x.shape[number] + axis.before + axis.after
            size = (length - axis.reach) // axis.stride + 1
            if size < 0 or axis.reach < 1:
                raise InferenceError(
                    f"{op}: a window of {axis.reach} does not fit {x.shape[number]} + "
                    f"{axis.before} + {axis.after} elements of axis {number} of {describe(x)}",
                    "use a larger padding",
                )
            sizes.append(max(size, 0))
        return TensorSpec((x.shape[0], w.shape[0], *sizes), dtype)

    return infer


def _convolution_flops(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    bias = result.num_elements if operands.get("bias") is not None else 0
    return 2 * result.num_elements * math.prod(operands["weight"].shape[1:]) + bias


def _is_composite(operands: Operands, attributes: Attributes) -> bool:
    return operands.get("bias") is not None or isinstance(attributes["padding"], str)


def _conv2d(call: Call[Any], a: Algebra[Any]) -> Any:
    """The convolution with its padding in numbers, and an addition of the bias to its channels."""
    x, weight, bias = call["input"], call["weight"], call.get("bias")
    axes = convolution_axes(call.attributes, a.spec(weight).shape[2:], "conv2d")
    padding = tuple(axis.before for axis in axes)
    if any(axis.before != axis.after for axis in axes):
        ends = tuple(end for axis in reversed(axes) for end in (axis.before, axis.after))
        x, padding = a.op("pad", x, pad=ends), (0, 0)
    attributes = {**call.attributes, "padding": padding}
    product = a.named("conv2d", {"input": x, "weight": weight}, attributes)
    if bias is None:
        return product
    channels = a.spec(bias).shape[0]
    return a.op("add", product, a.reshape(bias, (channels, 1, 1)))


def _conv1d(call: Call[Any], a: Algebra[Any]) -> Any:
    """A conv2d of images with one row."""
    x, weight = (a.spec(call[name]).shape for name in ("input", "weight"))
    (axis,) = convolution_axes(call.attributes, weight[2:], "conv1d")
    operands = {
        "input": a.reshape(call["input"], (*x[:2], 1, x[2])),
        "weight": a.reshape(call["weight"], (*weight[:2], 1, weight[2])),
    }
    if axis.before != axis.after:
        operands["input"] = a.op("pad", operands["input"], pad=(axis.before, axis.after))
    if call.get("bias") is not None:
        operands["bias"] = call["bias"]
    attributes = {
        "stride": (1, axis.stride),
        "padding": (0, axis.before if axis.before == axis.after else 0),
        "dilation": (1, axis.dilation),
        "groups": call.attributes["groups"],
    }
    return a.reshape(a.named("conv2d", operands, attributes), call.result.shape)


_INPUT, _WEIGHT = Parameter("input"), Parameter("weight")
_BIAS = Parameter("bias", "optional_tensor", None)
_STRIDE = Parameter("stride", "attribute", 1)
_PADDING = Parameter("padding", "attribute", 0)
_DILATION = Parameter("dilation", "attribute", 1)
_GROUPS = Parameter("groups", "attribute", 1)
_RULE = (
    "numbers of one dtype, which is the result's; a windowed axis has (size + 2 padding − "
    "dilation (kernel − 1) − 1) / stride + 1 elements, rounded down"
)
_NUMERICS = (
    "f16 and bf16 accumulate in f32 and round once, in any order; bias is then added as by `+`."
)

CONVOLUTION: tuple[OpDeclaration, ...] = (
    OpDeclaration(
        "conv1d",
        "contraction",
        (_INPUT, _WEIGHT, _BIAS, _STRIDE, _PADDING, _DILATION, _GROUPS),
        _infer_convolution("conv1d", 1),
        _convolution_flops,
        "1-D cross-correlation of N×C×L with F×(C/groups)×R; zero padding, in numbers, 'same' or "
        "'valid'.",
        primitive=False,
        formula=_conv1d,
        access="free",
        rule=_RULE,
        numerics=_NUMERICS,
    ).with_example('conv1d(x, w, padding="same")', x=[[[1.0, 2.0, 3.0]]], w=[[[1.0, 0.0, -1.0]]]),
    OpDeclaration(
        "conv2d",
        "contraction",
        (_INPUT, _WEIGHT, _BIAS, _STRIDE, _PADDING, _DILATION, _GROUPS),
        _infer_convolution("conv2d", 2),
        _convolution_flops,
        "2-D cross-correlation of N×C×H×W with F×(C/groups)×R×S; zero padding, in numbers, 'same' "
        "or 'valid'; f16 and bf16 accumulate in f32 and round once; bias is then added as by `+`.",
        composite_when=_is_composite,
        formula=_conv2d,
        access="contraction",
        rule=_RULE,
        numerics=_NUMERICS,
    ).with_example(
        "conv2d(x, w, stride=[1, 2])",
        x=[[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]],
        w=[[[[1.0], [10.0]]]],
    ),
)
