"""Losses: how far predictions are from what was wanted.

FLOP convention: one per element for each pass over the data.
"""

from __future__ import annotations

import math
from typing import Any

from wia_compiler.base.dtypes import I64
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    Flops,
    Infer,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Algebra, Call, Formula
from wia_compiler.dialects.wia.rules import describe, require_float, same_dtype

_REDUCTIONS = ("mean", "sum", "none")


def _passes(count: int) -> Flops:
    def flops(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
        return count * operands["input"].num_elements

    return flops


def _require_reduction(attributes: Attributes, op: str) -> None:
    if attributes["reduction"] not in _REDUCTIONS:
        expected = ", ".join(repr(each) for each in _REDUCTIONS)
        raise InferenceError(
            f"{op} has no reduction={attributes['reduction']!r}", f"expected one of {expected}"
        )


def _loss_shape(shape: tuple[int, ...], attributes: Attributes) -> tuple[int, ...]:
    return shape if attributes["reduction"] == "none" else ()


def _reduced(losses: Any, count: Any, call: Call[Any], a: Algebra[Any]) -> Any:
    """Losses as they are, their sum, or their sum divided by ``count``; rounded once."""
    reduction = call.attributes["reduction"]
    if reduction != "none":
        losses = a.op("reduce_sum", losses)
    if reduction == "mean":
        losses = a.op("div", losses, count)
    return a.cast(losses, call.result.dtype)


def _infer_pairs(op: str) -> Infer:
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        x, target = operands["input"], operands["target"]
        require_float(x, op)
        _require_reduction(attributes, op)
        if x.shape != target.shape:
            raise InferenceError(
                f"{op} compares arrays of one shape, found {describe(x)} and {describe(target)}",
                "stretch one of them with broadcast",
            )
        return TensorSpec(_loss_shape(x.shape, attributes), same_dtype((x, target)))

    return infer


def _of_pairs(step: Any) -> Formula:
    """A loss of each pair of elements, in f32 (f64 for f64)."""

    def formula(call: Call[Any], a: Algebra[Any]) -> Any:
        x, target = a.widened(call["input"]), a.widened(call["target"])
        count = a.constant(a.spec(x).num_elements, x)
        return _reduced(step(x, target, a), count, call, a)

    return formula


def _squared(x: Any, target: Any, a: Algebra[Any]) -> Any:
    difference = a.op("sub", x, target)
    return a.op("mul", difference, difference)


def _absolute(x: Any, target: Any, a: Algebra[Any]) -> Any:
    return a.op("abs", a.op("sub", x, target))


def _with_logits(x: Any, target: Any, a: Algebra[Any]) -> Any:
    """max(x, 0) - x target + log(1 + exp(-\\|x\\|)), which never overflows."""
    positive = a.op("max", x, a.constant(0, x))
    rest = a.op("log1p", a.op("exp", a.op("neg", a.op("abs", x))))
    return a.op("add", a.op("sub", positive, a.op("mul", x, target)), rest)


def _infer_classes(op: str) -> Infer:
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        x, target, weight = operands["input"], operands["target"], operands.get("weight")
        require_float(x, op)
        _require_reduction(attributes, op)
        if x.rank == 0:
            raise InferenceError(f"{op} needs classes, found {describe(x)}", "input is N×C×… or C")
        axis = min(x.rank - 1, 1)
        classes, wanted = x.shape[axis], (*x.shape[:axis], *x.shape[axis + 1 :])
        if not target.dtype.is_integer:
            raise InferenceError(
                f"{op}'s target holds class numbers, found {describe(target)}",
                "take argmax of one-hot targets, or write -reduce_sum(target * log_softmax(x))",
            )
        if target.shape != wanted:
            raise InferenceError(
                f"{op}'s target has shape {list(wanted)} for {describe(x)}, found "
                f"{describe(target)}",
                "one class number for each row of classes (axis 1 of the input)",
            )
        if weight is not None and weight.shape != (classes,):
            raise InferenceError(
                f"{op}'s weight has one value for each of the {classes} classes, found "
                f"{describe(weight)}",
                "classes are axis 1 of the input",
            )
        smoothing = attributes.get("label_smoothing", 0.0)
        if not isinstance(smoothing, int | float) or not 0 <= smoothing <= 1:
            raise InferenceError(
                f"label_smoothing goes from 0 to 1, found {smoothing!r}", "0 is no smoothing"
            )
        if not isinstance(attributes["ignore_index"], int):
            raise InferenceError(
                f"ignore_index is a whole number, found {attributes['ignore_index']!r}",
                "give a number that is no class, e.g. -100",
            )
        specs = (x,) if weight is None else (x, weight)
        return TensorSpec(_loss_shape(target.shape, attributes), same_dtype(specs))

    return infer


def _nll_loss(call: Call[Any], a: Algebra[Any]) -> Any:
    return _negative_log_likelihood(a.widened(call["input"]), call, a, 0.0)


def _cross_entropy(call: Call[Any], a: Algebra[Any]) -> Any:
    x = a.widened(call["input"])
    axis = min(a.spec(x).rank - 1, 1)
    smoothing = call.number("label_smoothing")
    return _negative_log_likelihood(a.op("log_softmax", x, dim=axis), call, a, smoothing)


def _negative_log_likelihood(logs: Any, call: Call[Any], a: Algebra[Any], smoothing: float) -> Any:
    """Minus the log of each target's class, times its weight; 0 where the target is ignored."""
    shape = a.spec(logs).shape
    axis = min(len(shape) - 1, 1)
    target, kept, safe = _targets(call, a)
    picked = _picked(logs, axis, safe, a)
    weight = call.get("weight")
    wide = None if weight is None else a.widened(weight)
    losses = a.op("neg", picked)
    weights = a.op("cast", kept, dtype=a.spec(logs).dtype.name)
    if wide is not None:
        flat = a.reshape(safe, (a.spec(safe).num_elements,))
        own = a.reshape(a.op("index_select", wide, flat, dim=0), a.spec(target).shape)
        losses = a.op("mul", losses, own)
        weights = a.op("where", kept, own, a.constant(0, own))
    if smoothing:
        losses = _smoothed(losses, logs, axis, wide, smoothing, a)
    losses = a.op("where", kept, losses, a.constant(0, losses))
    return _reduced(losses, a.op("reduce_sum", weights), call, a)


def _targets(call: Call[Any], a: Algebra[Any]) -> tuple[Any, Any, Any]:
    """The targets as i64, which of them count, and a class for each, 0 for those that do not."""
    target = a.cast(call["target"], I64)
    ignored = a.constant(call.integer("ignore_index"), target)
    kept = a.op("ne", target, ignored)
    return target, kept, a.op("where", kept, target, a.constant(0, target))


def _picked(logs: Any, axis: int, target: Any, a: Algebra[Any]) -> Any:
    shape = list(a.spec(logs).shape)
    index = a.reshape(target, (*shape[:axis], 1, *shape[axis + 1 :]))
    return a.reshape(a.op("gather", logs, index, dim=axis), a.spec(target).shape)


def _smoothed(
    losses: Any, logs: Any, axis: int, weight: Any, smoothing: float, a: Algebra[Any]
) -> Any:
    """(1 - s) loss + s / C · the loss of all classes (Szegedy et al., 2016; as PyTorch)."""
    shape = a.spec(logs).shape
    every = logs
    if weight is not None:
        every = a.op("mul", logs, a.reshape(weight, (shape[axis], *(1,) * (len(shape) - axis - 1))))
    total = a.op("neg", a.op("reduce_sum", every, dim=axis))
    share = a.op("mul", total, a.constant(smoothing / max(shape[axis], 1), total))
    return a.op("add", a.op("mul", losses, a.constant(1 - smoothing, losses)), share)


_REDUCTION = Parameter("reduction", "attribute", "mean")
_PAIRS = "floats of one shape and dtype; a scalar, or their shape with reduction='none'"
_CARRIED = "Steps and sums are in f32 (f64 for f64), the result rounded once."
_CLASSES = (
    "input is floats N×C, N×C×… or C; target integers of its shape without C; weight C; a scalar, "
    "or target's shape with reduction='none'"
)
_IGNORED = (
    f"{_CARRIED} A mean divides by the weights of what counts: of nothing it is NaN. A target that "
    "is no class is an error when the kernel runs."
)


def _pair_row(name: str, doc: str, step: Any, passes: int) -> OpDeclaration:
    return OpDeclaration(
        name,
        "reduction",
        (Parameter("input"), Parameter("target"), _REDUCTION),
        _infer_pairs(name),
        _passes(passes),
        f"{doc}: mean, sum or none of them reduced.",
        primitive=False,
        formula=_of_pairs(step),
        access="free",
        rule=_PAIRS,
        numerics=_CARRIED,
    )


def _class_row(
    name: str, doc: str, formula: Formula, passes: int, *more: Parameter
) -> OpDeclaration:
    return OpDeclaration(
        name,
        "reduction",
        (
            Parameter("input"),
            Parameter("target"),
            Parameter("weight", "optional_tensor", None),
            Parameter("ignore_index", "attribute", -100),
            _REDUCTION,
            *more,
        ),
        _infer_classes(name),
        _passes(passes),
        doc,
        primitive=False,
        formula=formula,
        access="free",
        rule=_CLASSES,
        numerics=_IGNORED,
    )


_LOGS = [[math.log(0.5), math.log(0.25), math.log(0.25)], [0.0, -1.0, -2.0]]

LOSSES: tuple[OpDeclaration, ...] = (
    _pair_row("mse_loss", "Squared differences", _squared, 3).with_example(
        "mse_loss(x, y)", x=[1.0, 2.0], y=[1.0, 4.0]
    ),
    _pair_row("l1_loss", "Absolute differences", _absolute, 3).with_example(
        "l1_loss(x, y)", x=[1.0, 2.0], y=[1.0, 4.0]
    ),
    _pair_row(
        "binary_cross_entropy_with_logits",
        "Cross-entropy of sigmoid(input) with probabilities",
        _with_logits,
        7,
    ).with_example("binary_cross_entropy_with_logits(x, y)", x=[0.0, 2.0], y=[1.0, 0.0]),
    _class_row(
        "nll_loss",
        "Minus the log-probability of each target class, times its weight; targets equal to "
        "ignore_index do not count.",
        _nll_loss,
        1,
    ).with_example("nll_loss(x, y)", x=_LOGS, y=("i64", [1, 0])),
    _class_row(
        "cross_entropy",
        "nll_loss of log_softmax(input) over the classes (axis 1).",
        _cross_entropy,
        6,
        Parameter("label_smoothing", "attribute", 0.0),
    ).with_example("cross_entropy(x, y)", x=[[1.0, 2.0], [3.0, 0.0]], y=("i64", [1, 0])),
)
