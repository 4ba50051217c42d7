"""The table of decompositions: op → function that writes it in primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from xdsl.ir import SSAValue

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.canonical_functions import axes_order
from wia_compiler.passes.decomposing.elementwise import (
    clamp,
    gelu,
    in_accumulator,
    relu,
    sigmoid,
    silu,
)
from wia_compiler.passes.decomposing.reductions import (
    layer_norm,
    reduce_in_accumulator,
    reduce_mean,
    rms_norm,
    softmax,
)
from wia_compiler.passes.decomposing.steps import Steps

Decomposition: TypeAlias = "Callable[[TensorOp, Steps], SSAValue]"


def conv2d_with_bias(op: TensorOp, steps: Steps) -> SSAValue:
    """The convolution, and an addition of the bias along the channels."""
    bias = op.argument("bias")
    if bias is None:
        raise ValueError("only a conv2d with a bias is decomposed")
    operands = {"input": op.arguments[0], "weight": op.arguments[1]}
    product = steps.named("conv2d", operands, op.values)
    channels = spec_of(bias.type).shape[0]
    return steps.op("add", product, steps.op("reshape", bias, shape=(channels, 1, 1)))


def transpose(op: TensorOp, steps: Steps) -> SSAValue:
    """A permutation that swaps two axes."""
    return steps.op("permute", op.arguments[0], dims=axes_order(op))


def flatten(op: TensorOp, steps: Steps) -> SSAValue:
    """A reshape to the flattened shape."""
    return steps.op("reshape", op.arguments[0], shape=op.result_spec.shape)


DECOMPOSITIONS: dict[str, Decomposition] = {
    "relu": relu,
    "clamp": clamp,
    "sigmoid": in_accumulator(sigmoid),
    "silu": in_accumulator(silu),
    "gelu": in_accumulator(gelu),
    "reduce_mean": reduce_mean,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "transpose": transpose,
    "flatten": flatten,
}


def decomposition_of(op: TensorOp) -> Decomposition | None:
    """How to write an op in primitives; ``None`` where it is one."""
    name = op.declaration.name
    if name in DECOMPOSITIONS:
        return DECOMPOSITIONS[name]
    if name == "conv2d" and op.argument("bias") is not None:
        return conv2d_with_bias
    dtype = op.result_spec.dtype
    if name in ("reduce_sum", "reduce_prod") and dtype.accumulator != dtype.name:
        return reduce_in_accumulator
    return None
