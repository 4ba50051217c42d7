"""Elementwise ops in primitives."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.ir import SSAValue

from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.decomposing.steps import Steps


def relu(op: TensorOp, steps: Steps) -> SSAValue:
    """``max(x, 0)``, which keeps NaN."""
    x = op.arguments[0]
    return steps.op("max", x, steps.constant(0, x))


def clamp(op: TensorOp, steps: Steps) -> SSAValue:
    """``min(max(x, low), high)``."""
    value = op.arguments[0]
    low, high = op.argument("min"), op.argument("max")
    if low is not None:
        value = steps.op("max", value, low)
    if high is not None:
        value = steps.op("min", value, high)
    return value


def in_accumulator(
    formula: Callable[[SSAValue, Steps, TensorOp], SSAValue],
) -> Callable[[TensorOp, Steps], SSAValue]:
    """A formula whose steps are taken in f32 (f64 for f64) and whose result is rounded once."""

    def decomposition(op: TensorOp, steps: Steps) -> SSAValue:
        result = formula(steps.widened(op.arguments[0]), steps, op)
        return steps.cast(result, op.result_spec.dtype)

    return decomposition


def sigmoid(x: SSAValue, steps: Steps, op: TensorOp) -> SSAValue:
    """1 / (1 + exp(-x)) as e / (1 + e) below 0, with e = exp(-\\|x\\|), which never overflows."""
    small = steps.op("exp", steps.op("neg", steps.op("abs", x)))
    one = steps.constant(1, x)
    below = steps.op("lt", x, steps.constant(0, x))
    return steps.op("div", steps.op("where", below, small, one), steps.op("add", one, small))


def silu(x: SSAValue, steps: Steps, op: TensorOp) -> SSAValue:
    """x · sigmoid(x)."""
    return steps.op("mul", x, sigmoid(x, steps, op))


def gelu(x: SSAValue, steps: Steps, op: TensorOp) -> SSAValue:
    """0.5 x (1 + erf(x / √2)), or 0.5 x (1 + tanh u) with u = √(2/π) (x + 0.044715 x³).

    The latter as x / (1 + exp(-2 u)), which is the same: it costs half as much, and where tanh is
    near -1 nothing cancels.
    """
    if op.values["approximate"] == "tanh":
        cube = steps.op("mul", steps.op("mul", x, x), x)
        bent = steps.op("add", x, steps.op("mul", steps.constant(0.044715, x), cube))
        inner = steps.op("mul", steps.constant(-2 * math.sqrt(2 / math.pi), x), bent)
        return steps.op("div", x, steps.op("add", steps.constant(1, x), steps.op("exp", inner)))
    gate = steps.op("erf", steps.op("mul", x, steps.constant(math.sqrt(0.5), x)))
    half = steps.op("mul", steps.constant(0.5, x), x)
    return steps.op("mul", half, steps.op("add", steps.constant(1, x), gate))
