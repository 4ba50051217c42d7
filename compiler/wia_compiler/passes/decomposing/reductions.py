"""Reductions, softmax and norms in primitives: carried in f32 (f64 for f64), rounded once."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from wia_compiler.dialects.types import TensorSpec, spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.decomposing.steps import Steps
from wia_compiler.passes.fusing.places import folded_axes
from wia_compiler.reference.reductions import machine_epsilon


def reduce_mean(op: TensorOp, steps: Steps) -> SSAValue:
    """The sum divided by how many there are; 0 / 0 of none."""
    wide = steps.widened(op.arguments[0])
    shape = spec_of(wide.type).shape
    count = math.prod(shape[axis] for axis in folded_axes(op))
    total = steps.named("reduce_sum", {"input": wide}, op.values)
    mean = steps.op("div", total, steps.constant(count, wide))
    return steps.cast(mean, op.result_spec.dtype)


def softmax(op: TensorOp, steps: Steps) -> SSAValue:
    """exp(x - max) · 1 / sum(exp(x - max)): the largest power is 1, so nothing overflows.

    The sum is at least 1, so its inverse is rounded once and a row needs one division.
    """
    spec, axes = op.result_spec, folded_axes(op)
    if not spec.num_elements:
        return _nothing(steps, spec)
    wide = steps.widened(op.arguments[0])
    largest = steps.op("reduce_max", wide, dim=axes, keepdim=True)
    powers = steps.op("exp", steps.op("sub", wide, largest))
    total = steps.total(powers, axes)
    inverse = steps.op("div", steps.constant(1, total), total)
    return steps.cast(steps.op("mul", powers, inverse), spec.dtype)


def layer_norm(op: TensorOp, steps: Steps) -> SSAValue:
    """Mean first, then the mean of squared distances from it, which does not cancel."""
    spec, axes = op.result_spec, folded_axes(op)
    if not spec.num_elements:
        return _nothing(steps, spec)
    wide = steps.widened(op.arguments[0])
    centered = steps.op("sub", wide, steps.mean(wide, axes))
    variance = steps.mean(steps.op("mul", centered, centered), axes)
    eps = float(str(op.values["eps"]))
    result = steps.op("mul", centered, _inverse_root(variance, eps, steps))
    return _scaled(op, steps, result)


def rms_norm(op: TensorOp, steps: Steps) -> SSAValue:
    """x / sqrt(mean(x²) + eps)."""
    spec, axes = op.result_spec, folded_axes(op)
    if not spec.num_elements:
        return _nothing(steps, spec)
    wide = steps.widened(op.arguments[0])
    squares = steps.mean(steps.op("mul", wide, wide), axes)
    eps = op.values["eps"]
    small = machine_epsilon(spec) if eps is None else float(str(eps))
    result = steps.op("mul", wide, _inverse_root(squares, small, steps))
    return _scaled(op, steps, result)


def _scaled(op: TensorOp, steps: Steps, value: SSAValue) -> SSAValue:
    weight, bias = op.argument("weight"), op.argument("bias")
    if weight is not None:
        value = steps.op("mul", value, steps.widened(weight))
    if bias is not None:
        value = steps.op("add", value, steps.widened(bias))
    return steps.cast(value, op.result_spec.dtype)


def _inverse_root(variance: SSAValue, eps: float, steps: Steps) -> SSAValue:
    return steps.op("rsqrt", steps.op("add", variance, steps.constant(eps, variance)))


def _nothing(steps: Steps, spec: TensorSpec) -> SSAValue:
    """A result without elements: there is nothing to compute."""
    return steps.splat(0.0, spec)
