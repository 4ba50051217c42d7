"""Normalisation over rows, channels and groups, in the form that inference uses.

FLOP convention: one per element for each pass over the data.
"""

from __future__ import annotations

import math
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
from wia_compiler.dialects.wia.pointwise import per_element
from wia_compiler.dialects.wia.rules import describe, require_float, same_dtype

_STATISTICS = ("running_mean", "running_var")
_SCALES = ("weight", "bias")
_WEIGHT = Parameter("weight", "optional_tensor", None)
_BIAS = Parameter("bias", "optional_tensor", None)
_EPS = Parameter("eps", "attribute", 1e-5)
_CARRIED = "Every step is in f32 (f64 for f64), the result rounded once; the variance is biased."


def _require_channels(operands: Operands, op: str, names: tuple[str, ...]) -> int:
    """The channels of the input; each of the named operands has one value for each of them."""
    operand = operands["input"]
    require_float(operand, op)
    if operand.rank < 2:
        raise InferenceError(
            f"{op} needs input N×C×…, found {describe(operand)}", "add the missing axes"
        )
    channels = operand.shape[1]
    for name in names:
        spec = operands.get(name)
        if spec is not None and spec.shape != (channels,):
            raise InferenceError(
                f"{op}'s {name} has one value for each of the {channels} channels of "
                f"{describe(operand)}, found {describe(spec)}",
                "channels are axis 1 of the input",
            )
    return channels


def _require_eps(attributes: Attributes, op: str) -> None:
    eps = attributes["eps"]
    if not isinstance(eps, int | float) or not eps >= 0:
        raise InferenceError(f"{op}'s eps is a number from 0, found {eps!r}", "e.g. eps=1e-5")


def _infer_batch_norm(operands: Operands, attributes: Attributes) -> TensorSpec:
    _require_channels(operands, "batch_norm", (*_STATISTICS, *_SCALES))
    _require_eps(attributes, "batch_norm")
    return TensorSpec(operands["input"].shape, same_dtype(operands.all))


def batch_norm(call: Call[Any], a: Algebra[Any]) -> Any:
    """(x - mean) / sqrt(var + eps) * weight + bias, each statistic along the channels."""
    x = a.widened(call["input"])
    mean, variance = (a.widened(call[name]) for name in _STATISTICS)
    root = a.op("rsqrt", a.op("add", variance, a.constant(call.number("eps"), x)))
    centered = a.op("sub", x, _along_channels(mean, x, a))
    value = a.op("mul", centered, _along_channels(root, x, a))
    return a.cast(_scaled(value, call, a), call.result.dtype)


def _scaled(value: Any, call: Call[Any], a: Algebra[Any]) -> Any:
    weight, bias = call.get("weight"), call.get("bias")
    if weight is not None:
        value = a.op("mul", value, _along_channels(a.widened(weight), value, a))
    if bias is not None:
        value = a.op("add", value, _along_channels(a.widened(bias), value, a))
    return value


def _along_channels(value: Any, x: Any, a: Algebra[Any]) -> Any:
    """One value for each channel, shaped to stand along axis 1 of ``x``."""
    channels = a.spec(value).shape[0]
    return a.reshape(value, (channels, *(1,) * (a.spec(x).rank - 2)))


def _infer_group_norm(operands: Operands, attributes: Attributes) -> TensorSpec:
    channels = _require_channels(operands, "group_norm", _SCALES)
    _require_eps(attributes, "group_norm")
    groups = attributes["num_groups"]
    if not isinstance(groups, int) or groups < 1 or channels % groups:
        raise InferenceError(
            f"num_groups={groups} does not divide the {channels} channels of "
            f"{describe(operands['input'])}",
            "give a divisor of the channels",
        )
    return TensorSpec(operands["input"].shape, same_dtype(operands.all))


def _group_norm(call: Call[Any], a: Algebra[Any]) -> Any:
    return _normalized_groups(call.integer("num_groups"), call, a)


def _normalized_groups(groups: int, call: Call[Any], a: Algebra[Any]) -> Any:
    """layer_norm of each group's elements, then weight and bias along the channels."""
    x = a.widened(call["input"])
    shape = a.spec(x).shape
    count = math.prod(shape[1:]) // groups if groups else 0
    rows = a.reshape(x, (shape[0], groups, count))
    normal = a.op("layer_norm", rows, eps=call.number("eps"))
    return a.cast(_scaled(a.reshape(normal, shape), call, a), call.result.dtype)


def _infer_instance_norm(operands: Operands, attributes: Attributes) -> TensorSpec:
    _require_channels(operands, "instance_norm", (*_STATISTICS, *_SCALES))
    _require_eps(attributes, "instance_norm")
    given = [name for name in _STATISTICS if operands.get(name) is not None]
    if not attributes["use_input_stats"] and len(given) < 2:
        raise InferenceError(
            "instance_norm without use_input_stats needs running_mean and running_var",
            "pass both, or leave use_input_stats true",
        )
    if operands["input"].rank < 3 and attributes["use_input_stats"]:
        raise InferenceError(
            f"instance_norm normalises the axes behind the channels, "
            f"{describe(operands['input'])} has none",
            "use batch_norm, or add an axis",
        )
    return TensorSpec(operands["input"].shape, same_dtype(operands.all))


def _instance_norm(call: Call[Any], a: Algebra[Any]) -> Any:
    if not call.attributes["use_input_stats"]:
        return batch_norm(call, a)
    return _normalized_groups(a.spec(call["input"]).shape[1], call, a)


_SHAPE = "floats of one dtype; input is N×C×…, the others have C elements; shape of input"

NORMALIZATION: tuple[OpDeclaration, ...] = (
    OpDeclaration(
        "batch_norm",
        "elementwise",
        (
            Parameter("input"),
            Parameter("running_mean"),
            Parameter("running_var"),
            _WEIGHT,
            _BIAS,
            _EPS,
        ),
        _infer_batch_norm,
        per_element(4),
        "(x - running_mean) / sqrt(running_var + eps) * weight + bias, channel by channel (axis "
        "1): batch normalisation as inference has it.",
        primitive=False,
        formula=batch_norm,
        rule=_SHAPE,
        numerics=_CARRIED,
    ).with_example("batch_norm(x, m, v)", x=[[1.0, 4.0], [3.0, 8.0]], m=[2.0, 6.0], v=[1.0, 4.0]),
    OpDeclaration(
        "group_norm",
        "reduction",
        (Parameter("input"), Parameter("num_groups", "attribute"), _WEIGHT, _BIAS, _EPS),
        _infer_group_norm,
        per_element(8),
        "(x - mean) / sqrt(variance + eps) of each group of channels in each sample, then "
        "* weight + bias along the channels (Wu and He, 2018).",
        primitive=False,
        formula=_group_norm,
        access="free",
        rule=_SHAPE,
        numerics=_CARRIED,
    ).with_example("group_norm(x, 2)", x=[[1.0, 3.0, 10.0, 30.0]]),
    OpDeclaration(
        "instance_norm",
        "reduction",
        (
            Parameter("input"),
            Parameter("running_mean", "optional_tensor", None),
            Parameter("running_var", "optional_tensor", None),
            _WEIGHT,
            _BIAS,
            Parameter("use_input_stats", "attribute", True),
            _EPS,
        ),
        _infer_instance_norm,
        per_element(8),
        "(x - mean) / sqrt(variance + eps) of each channel of each sample, then * weight + bias; "
        "with use_input_stats=false, batch_norm with the given statistics.",
        primitive=False,
        formula=_instance_norm,
        access="free",
        rule=_SHAPE,
        numerics=_CARRIED,
    ).with_example("instance_norm(x)", x=[[[1.0, 3.0], [10.0, 30.0]]]),
)
