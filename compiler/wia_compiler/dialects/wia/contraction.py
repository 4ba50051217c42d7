"""Ops that multiply and add over shared axes: matrix products and convolutions.

FLOP convention: a multiply-add counts two; padding taps of a convolution are counted as if
they were multiplied, as PyTorch's counter does.
"""

from __future__ import annotations

from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.rules import (
    broadcast_shapes,
    describe,
    int_tuple,
    require_number,
    same_dtype,
)


def _infer_matmul(operands: Operands, attributes: Attributes) -> TensorSpec:
    a, b = operands.all
    for spec in (a, b):
        require_number(spec, "matmul")
        if spec.rank == 0:
            raise InferenceError(f"matmul needs at least one axis, found {describe(spec)}")
    dtype = same_dtype((a, b))
    rows = b.shape[-2] if b.rank > 1 else b.shape[0]
    if a.shape[-1] != rows:
        axis = 0 if b.rank == 1 else b.rank - 2
        raise InferenceError(
            f"matmul: axis {a.rank - 1} of {describe(a)} has size {a.shape[-1]}, "
            f"axis {axis} of {describe(b)} has size {rows}",
            "the last axis of the left side and the second last of the right side must agree",
        )
    batch = broadcast_shapes([TensorSpec(spec.shape[:-2], dtype, spec.label) for spec in (a, b)])
    left = a.shape[-2:-1]
    right = b.shape[-1:] if b.rank > 1 else ()
    return TensorSpec((*batch, *left, *right), dtype)


def _matmul_flops(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    return 2 * result.num_elements * operands["input"].shape[-1]


def _infer_conv2d(operands: Operands, attributes: Attributes) -> TensorSpec:
    x, w = operands["input"], operands["weight"]
    bias = operands.get("bias")
    require_number(x, "conv2d")
    if x.rank != 4 or w.rank != 4:
        raise InferenceError(
            f"conv2d needs input N×C×H×W and weight F×C×R×S, found {describe(x)} and {describe(w)}",
            "add the missing axes with reshape",
        )
    groups = attributes["groups"]
    if not isinstance(groups, int) or groups < 1 or x.shape[1] % groups or w.shape[0] % groups:
        raise InferenceError(
            f"groups={groups} does not divide {x.shape[1]} input and {w.shape[0]} output channels"
        )
    if x.shape[1] // groups != w.shape[1]:
        raise InferenceError(
            f"conv2d: axis 1 of {describe(x)} has size {x.shape[1]}, axis 1 of {describe(w)} "
            f"has size {w.shape[1]}, with groups={groups}",
            "weight's axis 1 must be the input channels divided by groups",
        )
    if bias is not None and bias.shape != (w.shape[0],):
        raise InferenceError(
            f"conv2d's bias has one value per output channel ({w.shape[0]}), found {describe(bias)}"
        )
    dtype = same_dtype(operands.all)
    window = conv2d_window(attributes)
    sizes: list[int] = []
    for axis in (0, 1):
        stride, padding, dilation = (values[axis] for values in window)
        reach = dilation * (w.shape[2 + axis] - 1) + 1
        size = (x.shape[2 + axis] + 2 * padding - reach) // stride + 1
        if size < 0 or reach < 1:
            raise InferenceError(
                f"conv2d: a window of {reach} does not fit {x.shape[2 + axis]} + 2×{padding} "
                f"elements of axis {2 + axis} of {describe(x)}",
                "use a larger padding",
            )
        sizes.append(max(size, 0))
    return TensorSpec((x.shape[0], w.shape[0], *sizes), dtype)


def conv2d_window(
    attributes: Attributes,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Stride, padding and dilation, each as (rows, columns)."""
    stride = int_tuple(attributes["stride"], 2, "stride")
    padding = int_tuple(attributes["padding"], 2, "padding")
    dilation = int_tuple(attributes["dilation"], 2, "dilation")
    if min(stride) < 1 or min(dilation) < 1 or min(padding) < 0:
        raise InferenceError(
            f"conv2d: stride {stride} and dilation {dilation} start at 1, padding {padding} at 0"
        )
    return stride, padding, dilation


def _conv2d_flops(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    _, channels, rows, columns = operands["weight"].shape
    bias = result.num_elements if operands.get("bias") is not None else 0
    return 2 * result.num_elements * channels * rows * columns + bias


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
    ),
    OpDeclaration(
        "conv2d",
        "contraction",
        (
            Parameter("input"),
            Parameter("weight"),
            Parameter("bias", "optional_tensor", None),
            Parameter("stride", "attribute", 1),
            Parameter("padding", "attribute", 0),
            Parameter("dilation", "attribute", 1),
            Parameter("groups", "attribute", 1),
        ),
        _infer_conv2d,
        _conv2d_flops,
        "2-D cross-correlation of N×C×H×W with F×(C/groups)×R×S, zero padding; f16 and bf16 "
        "accumulate in f32 and round once; bias is then added as by `+`.",
        access="contraction",
    ),
)
