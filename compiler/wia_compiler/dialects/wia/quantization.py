"""Between floats and the integers that stand for them: x ≈ (q - zero_point) * scale.

FLOP convention: one per element and step.
"""

from __future__ import annotations

from typing import Any

from wia_compiler.base.dtypes import DTYPES
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
from wia_compiler.dialects.wia.rules import describe, normalize_axis, require_float


def _check_parameters(operands: Operands, attributes: Attributes, op: str) -> None:
    """Scale and zero point are one number, or a list along ``axis``."""
    x, axis = operands["input"], attributes["axis"]
    scale = operands["scale"]
    require_float(scale, f"{op}'s scale")
    length = None if axis is None else x.shape[normalize_axis(axis, x)]
    for name in ("scale", "zero_point"):
        spec = operands.get(name)
        if spec is None:
            continue
        single = spec.num_elements == 1 and spec.rank <= 1
        if not single and (length is None or spec.shape != (length,)):
            found = f"found {describe(spec)}"
            if length is None:
                raise InferenceError(
                    f"{op}'s {name} is one number, {found}", "name the axis it goes along: axis=0"
                )
            raise InferenceError(
                f"{op}'s {name} is one number, or {length} along axis {axis} of {describe(x)}, "
                f"{found}",
                "give one for each element of the axis",
            )
    zero = operands.get("zero_point")
    if zero is not None and not (zero.dtype.is_integer or zero.dtype == scale.dtype):
        raise InferenceError(
            f"{op}'s zero_point is an integer, found {describe(zero)}", "cast it: cast(…, i32)"
        )


def _infer_quantize(operands: Operands, attributes: Attributes) -> TensorSpec:
    x = operands["input"]
    require_float(x, "quantize")
    _check_parameters(operands, attributes, "quantize")
    _require_scale_of(x, operands, "quantize")
    dtype = DTYPES.get(str(attributes["dtype"]))
    if dtype is None or dtype.name not in ("i8", "u8", "i16", "i32"):
        raise InferenceError(
            f"quantize has no dtype={attributes['dtype']!r}", "expected i8, u8, i16 or i32"
        )
    return TensorSpec(x.shape, dtype)


def _require_scale_of(x: TensorSpec, operands: Operands, op: str) -> None:
    scale = operands["scale"]
    if scale.dtype != x.dtype:
        raise InferenceError(
            f"{op}'s scale has the dtype of {describe(x)}, found {describe(scale)}",
            f"convert it: cast(…, {x.dtype})",
        )


def _infer_dequantize(operands: Operands, attributes: Attributes) -> TensorSpec:
    x = operands["input"]
    if not x.dtype.is_integer:
        raise InferenceError(
            f"dequantize needs integers, found {describe(x)}", "quantize gives what it takes"
        )
    if not operands["scale"].dtype.is_float:
        raise InferenceError(
            f"dequantize's scale is a float, found {describe(operands['scale'])}",
            "a literal takes the integers' dtype here: write cast(0.5, f32)",
        )
    _check_parameters(operands, attributes, "dequantize")
    return TensorSpec(x.shape, operands["scale"].dtype)


def _infer_fake_quantize(operands: Operands, attributes: Attributes) -> TensorSpec:
    x = operands["input"]
    require_float(x, "fake_quantize")
    _check_parameters(operands, attributes, "fake_quantize")
    _require_scale_of(x, operands, "fake_quantize")
    low, high = attributes["quant_min"], attributes["quant_max"]
    if not (isinstance(low, int) and isinstance(high, int) and low <= high):
        raise InferenceError(
            f"fake_quantize's quant_min={low!r} and quant_max={high!r} are not a range",
            "give two whole numbers, the smaller first",
        )
    return TensorSpec(x.shape, x.dtype)


def _parameter(name: str, x: Any, call: Call[Any], a: Algebra[Any]) -> Any:
    """Scale or zero point in the dtype that ``x`` is computed in, shaped to stand along its axis.

    ``None`` where the call left it out.
    """
    value, axis = call.get(name), call.attributes["axis"]
    if value is None:
        return None
    value = a.cast(value, a.spec(x).dtype)
    count = a.spec(value).num_elements
    if axis is None or count == 1:
        return a.reshape(value, ())
    spec = a.spec(x)
    return a.reshape(value, (count, *(1,) * (spec.rank - 1 - normalize_axis(axis, spec))))


def _steps_from_zero(x: Any, call: Call[Any], a: Algebra[Any]) -> tuple[Any, Any, Any]:
    """round(x / scale) + zero point, and the scale and zero point."""
    scale, zero = (_parameter(name, x, call, a) for name in ("scale", "zero_point"))
    steps = a.op("round", a.op("div", x, scale))
    return (steps if zero is None else a.op("add", steps, zero)), scale, zero


def _quantize(call: Call[Any], a: Algebra[Any]) -> Any:
    """The cast saturates: what lies beyond the integers becomes the nearest of them."""
    steps, _, _ = _steps_from_zero(a.widened(call["input"]), call, a)
    return a.cast(steps, call.result.dtype)


def _dequantize(call: Call[Any], a: Algebra[Any]) -> Any:
    wide = DTYPES[call.result.dtype.accumulator]
    x = a.cast(call["input"], wide)
    return a.cast(_scaled(x, x, call, a), call.result.dtype)


def _scaled(steps: Any, x: Any, call: Call[Any], a: Algebra[Any]) -> Any:
    """(steps - zero point) * scale."""
    scale, zero = (_parameter(name, x, call, a) for name in ("scale", "zero_point"))
    return a.op("mul", steps if zero is None else a.op("sub", steps, zero), scale)


def _fake_quantize(call: Call[Any], a: Algebra[Any]) -> Any:
    x = a.widened(call["input"])
    steps, scale, zero = _steps_from_zero(x, call, a)
    low, high = (a.constant(call.integer(name), x) for name in ("quant_min", "quant_max"))
    steps = a.op("min", a.op("max", steps, low), high)
    shifted = steps if zero is None else a.op("sub", steps, zero)
    return a.cast(a.op("mul", shifted, scale), call.result.dtype)


_SCALE = Parameter("scale")
_ZERO = Parameter("zero_point", "optional_tensor", None)
_AXIS = Parameter("axis", "attribute", None, aliases=("dim",))
_RULE = (
    "scale and zero_point are one number, or one for each element of axis; zero_point is an "
    "integer or of scale's dtype"
)

QUANTIZATION: tuple[OpDeclaration, ...] = (
    OpDeclaration(
        "quantize",
        "elementwise",
        (Parameter("input"), _SCALE, _ZERO, _AXIS, Parameter("dtype", "attribute", "i8")),
        _infer_quantize,
        per_element(3),
        "round(input / scale) + zero_point as an integer (halves to even), saturating; one scale "
        "for all, or one for each element of axis.",
        literal_operands=("scale", "zero_point"),
        primitive=False,
        formula=_quantize,
        rule=f"floats; {_RULE}; shape of input, i8, u8, i16 or i32",
        numerics="Steps are in f32 (f64 for f64). NaN becomes 0.",
    ).with_example("quantize(x, 0.5, 10)", x=[0.25, 0.75, -1.0, 1000.0]),
    OpDeclaration(
        "dequantize",
        "elementwise",
        (Parameter("input"), _SCALE, _ZERO, _AXIS),
        _infer_dequantize,
        per_element(2),
        "(input - zero_point) * scale; one scale for all, or one for each element of axis.",
        primitive=False,
        formula=_dequantize,
        rule=f"integers; {_RULE}; shape of input, dtype of scale",
        numerics="Steps are in f32 (f64 for f64), the result rounded once.",
    ).with_example("dequantize(x, s, z)", x=("i8", [10, 12, -128]), s=0.5, z=("i8", 10)),
    OpDeclaration(
        "fake_quantize",
        "elementwise",
        (
            Parameter("input"),
            _SCALE,
            _ZERO,
            Parameter("quant_min", "attribute", -128),
            Parameter("quant_max", "attribute", 127),
            _AXIS,
        ),
        _infer_fake_quantize,
        per_element(7),
        "What quantize to whole numbers from quant_min to quant_max and dequantize leave of input.",
        literal_operands=("scale", "zero_point"),
        primitive=False,
        formula=_fake_quantize,
        rule=f"floats; {_RULE}; shape and dtype of input",
        numerics="Steps are in f32 (f64 for f64), the result rounded once; NaN stays.",
    ).with_example("fake_quantize(x, 0.5)", x=[0.3, 0.75, -100.0]),
)
