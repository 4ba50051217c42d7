"""Decompositions: by a function of this table, or by the formula that an op is declared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from xdsl.ir import SSAValue

from wia_compiler.dialects.wia.formula import Call
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
    reduce_mean,
    rms_norm,
    softmax,
)
from wia_compiler.passes.decomposing.steps import Steps

Decomposition: TypeAlias = "Callable[[TensorOp, Steps], SSAValue]"


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
    """How to write an op in simpler ones; ``None`` where the mid level can express it."""
    if op.is_primitive:
        return None
    if op.declaration.name in DECOMPOSITIONS:
        return DECOMPOSITIONS[op.declaration.name]
    if op.declaration.formula is None:
        raise ValueError(f"{op.name} is no primitive and has no formula")
    return by_formula


def by_formula(op: TensorOp, steps: Steps) -> SSAValue:
    """The steps of the op's own formula."""
    formula = op.declaration.formula
    if formula is None:
        raise ValueError(f"{op.name} has no formula")
    operands = dict(zip(op.given, op.arguments, strict=True))
    return formula(Call(operands, op.values, op.result_spec), steps)


def is_written_out(op: TensorOp) -> bool:
    """Whether an op stands for several kernels or views, so that fusion is to see its steps.

    The others become one kernel each, and fusion decides on them as a whole.
    """
    formula = op.declaration.formula is not None
    if not formula or op.declaration.access not in ("free", "view"):
        return False
    return decomposition_of(op) is not None
