"""Folds of rows that take several steps: any and all, variance, log-sum-exp, log-softmax.

FLOP convention: one per element for each pass over the data.
"""

from __future__ import annotations

import math
from typing import Any

from wia_compiler.base.dtypes import BOOL, U8
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    Flops,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Algebra, Call, Formula
from wia_compiler.dialects.wia.reduction import AXES, KEEP, reduced_shape
from wia_compiler.dialects.wia.rules import (
    describe,
    normalize_axes,
    normalize_axis,
    require_float,
)


def _passes(count: int) -> Flops:
    def flops(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
        return count * operands["input"].num_elements

    return flops


def _without_axes(operand: TensorSpec, attributes: Attributes) -> tuple[int, ...]:
    axes = normalize_axes(attributes["dim"], operand)
    return reduced_shape(operand, axes, bool(attributes["keepdim"]))


def _infer_of_bools(op: str):
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        operand = operands["input"]
        if operand.dtype != BOOL:
            raise InferenceError(
                f"{op} needs bool, found {describe(operand)}", "compare it first, e.g. x != 0"
            )
        return TensorSpec(_without_axes(operand, attributes), BOOL)

    return infer


def _of_bools(reduction: str, of_none: bool) -> Formula:
    """The largest or smallest of the bools as 0 and 1."""

    def formula(call: Call[Any], a: Algebra[Any]) -> Any:
        if not a.spec(call["input"]).num_elements:
            return a.splat(of_none, call.result)
        folded = a.named(reduction, {"input": a.cast(call["input"], U8)}, dict(call.attributes))
        return a.cast(folded, BOOL)

    return formula


def _infer_floats(op: str):
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        operand = operands["input"]
        require_float(operand, op)
        return TensorSpec(_without_axes(operand, attributes), operand.dtype)

    return infer


def _infer_log_softmax(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    require_float(operand, "log_softmax")
    normalize_axis(attributes["dim"], operand)
    return TensorSpec(operand.shape, operand.dtype)


def _finite_largest(x: Any, axes: tuple[int, ...], a: Algebra[Any]) -> Any:
    """The largest of each row, 0 where it is infinite, to be subtracted before exponentials."""
    largest = a.op("reduce_max", x, dim=axes, keepdim=True)
    infinite = a.op("eq", a.op("abs", largest), a.constant(math.inf, x))
    return a.op("where", infinite, a.constant(0, x), largest)


def _logsumexp(call: Call[Any], a: Algebra[Any]) -> Any:
    """m + log(sum(exp(x - m))) with the largest m, 0 instead of an infinite one."""
    x = a.widened(call["input"])
    spec = a.spec(x)
    axes = normalize_axes(call.attributes["dim"], spec)
    if not spec.num_elements:
        return a.splat(-math.inf, call.result)
    largest = _finite_largest(x, axes, a)
    total = a.total(a.op("exp", a.op("sub", x, largest)), axes)
    value = a.op("add", a.op("log", total), largest)
    return a.cast(a.reshape(value, call.result.shape), call.result.dtype)


def _log_softmax(call: Call[Any], a: Algebra[Any]) -> Any:
    """(x - m) - log(sum(exp(x - m))) with the largest m: nothing overflows or cancels."""
    x = a.widened(call["input"])
    spec = a.spec(x)
    axes = normalize_axes(call.attributes["dim"], spec)
    if not spec.num_elements:
        return a.splat(0.0, call.result)
    shifted = a.op("sub", x, a.op("reduce_max", x, dim=axes, keepdim=True))
    total = a.total(a.op("exp", shifted), axes)
    return a.cast(a.op("sub", shifted, a.op("log", total)), call.result.dtype)


def _variance(call: Call[Any], a: Algebra[Any]) -> Any:
    x = a.widened(call["input"])
    return a.cast(a.reshape(_spread(x, call, a), call.result.shape), call.result.dtype)


def _std(call: Call[Any], a: Algebra[Any]) -> Any:
    x = a.widened(call["input"])
    root = a.op("sqrt", _spread(x, call, a))
    return a.cast(a.reshape(root, call.result.shape), call.result.dtype)


def _spread(x: Any, call: Call[Any], a: Algebra[Any]) -> Any:
    """The sum of squared distances from the mean, over n - 1, or n where biased; axes kept."""
    spec = a.spec(x)
    axes = normalize_axes(call.attributes["dim"], spec)
    count = math.prod(spec.shape[axis] for axis in axes)
    centered = a.op("sub", x, a.mean(x, axes))
    total = a.total(a.op("mul", centered, centered), axes)
    divisor = max(count - bool(call.attributes["unbiased"]), 0)
    return a.op("div", total, a.constant(divisor, x))


_FLOATS = "floats; the shape without dim, or with size 1 there (keepdim); dtype of input"
_CARRIED = "Steps are in f32 (f64 for f64), the result rounded once."


def _spread_row(name: str, doc: str, formula: Formula) -> OpDeclaration:
    return OpDeclaration(
        name,
        "reduction",
        (Parameter("input"), AXES, Parameter("unbiased", "attribute", True), KEEP),
        _infer_floats(name),
        _passes(4),
        doc,
        primitive=False,
        formula=formula,
        access="rows",
        rule=_FLOATS,
        numerics=f"{_CARRIED} With no element left to divide by it is NaN.",
    )


def _bool_row(name: str, reduction: str, doc: str, of_none: bool) -> OpDeclaration:
    return OpDeclaration(
        name,
        "reduction",
        (Parameter("input"), AXES, KEEP),
        _infer_of_bools(name),
        _passes(1),
        doc,
        primitive=False,
        formula=_of_bools(reduction, of_none),
        access="rows",
        rule="bool; the shape without dim, or with size 1 there (keepdim); bool",
    )


_ROWS = [[1.0, 2.0], [3.0, 7.0]]

STATISTICS: tuple[OpDeclaration, ...] = (
    _bool_row(
        "reduce_any", "reduce_max", "Whether any element over axes is true; of none, false.", False
    ).with_example("reduce_any(x, dim=1)", x=[[False, True], [False, False]]),
    _bool_row(
        "reduce_all", "reduce_min", "Whether all elements over axes are true; of none, true.", True
    ).with_example("reduce_all(x, dim=1)", x=[[True, True], [False, True]]),
    _spread_row(
        "variance",
        "Mean squared distance from the mean over axes; unbiased divides by n - 1.",
        _variance,
    ).with_example("variance(x, dim=1)", x=_ROWS),
    _spread_row("std", "Square root of the variance.", _std).with_example(
        "std(x, dim=1, unbiased=false)", x=_ROWS
    ),
    OpDeclaration(
        "logsumexp",
        "reduction",
        (Parameter("input"), Parameter("dim", "attribute", aliases=("axis",)), KEEP),
        _infer_floats("logsumexp"),
        _passes(3),
        "log(sum(exp(x))) over axes, without overflow; of no elements -inf.",
        primitive=False,
        formula=_logsumexp,
        access="rows",
        rule=_FLOATS,
        numerics=f"{_CARRIED} A row of -inf gives -inf, one with inf gives inf.",
    ).with_example("logsumexp(x, dim=1)", x=_ROWS),
    OpDeclaration(
        "log_softmax",
        "reduction",
        (Parameter("input"), Parameter("dim", "attribute", -1, aliases=("axis",))),
        _infer_log_softmax,
        _passes(5),
        "x - log(sum(exp(x))) along an axis: the logarithm of softmax, precise where that is 0.",
        primitive=False,
        formula=_log_softmax,
        access="rows",
        rule="floats; shape and dtype of input",
        numerics=f"{_CARRIED} A row of -inf gives NaN, as softmax does.",
    ).with_example("log_softmax(x)", x=_ROWS),
)
