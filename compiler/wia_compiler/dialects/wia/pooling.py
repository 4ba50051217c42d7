"""Pooling as PyTorch has it, over the one, two or three axes behind N×C.

FLOP convention: one per element of a window, padding counted as if it were an element.
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
from wia_compiler.dialects.wia.rules import describe, int_tuple, require_float, require_number
from wia_compiler.dialects.wia.windows import WindowAxis, windowed_shape

_NAMES = {1: "L", 2: "H×W", 3: "D×H×W"}


def spatial_count(operand: TensorSpec, sizes: object, name: str, axes: int | None) -> int:
    """How many of the last axes a pool moves over; ``axes`` where the op's name says so."""
    if axes is None:
        axes = len(sizes) if isinstance(sizes, tuple) else operand.rank - 2  # pyright: ignore[reportUnknownArgumentType]
    if axes < 1 or operand.rank not in (axes + 1, axes + 2):
        shape = _NAMES.get(axes, f"{axes} axes")
        raise InferenceError(
            f"{name} needs input N×C×{shape} or C×{shape}, found {describe(operand)}",
            "add or drop axes with reshape, or give kernel_size one entry for each windowed axis",
        )
    return axes


def pool_windows(
    operand: TensorSpec, attributes: Attributes, name: str, axes: int | None
) -> tuple[WindowAxis, ...]:
    """The windows of a pool over the last axes of its operand.

    With ``ceil_mode`` a last, partial window counts if it starts inside the input or the padding
    before it, as PyTorch defines it.
    """
    count = spatial_count(operand, attributes["kernel_size"], name, axes)
    sizes = int_tuple(attributes["kernel_size"], count, "kernel_size")
    stride = attributes["stride"]
    strides = sizes if stride is None else int_tuple(stride, count, "stride")
    paddings = int_tuple(attributes["padding"], count, "padding")
    dilations = int_tuple(attributes.get("dilation", 1), count, "dilation")
    if min(*sizes, *strides, *dilations) < 1 or min(paddings) < 0:
        raise InferenceError(
            f"{name}: kernel_size {list(sizes)}, stride {list(strides)} and dilation "
            f"{list(dilations)} start at 1, padding {list(paddings)} at 0",
            "give whole numbers, one or one for each windowed axis",
        )
    windows: list[WindowAxis] = []
    lengths = operand.shape[operand.rank - count :]
    for length, row in zip(
        lengths, zip(sizes, strides, paddings, dilations, strict=True), strict=True
    ):
        size, step, padding, dilation = row
        if 2 * padding > dilation * (size - 1) + 1:
            raise InferenceError(
                f"{name}: padding {padding} is more than half of a window of "
                f"{dilation * (size - 1) + 1}",
                "a window must hold an element of the input; pad the input itself for more",
            )
        after = padding
        if attributes["ceil_mode"]:
            after = _padding_of_last(length, size, step, padding, dilation)
        windows.append(WindowAxis(size, step, padding, after, dilation))
    return tuple(windows)


def _padding_of_last(length: int, size: int, stride: int, padding: int, dilation: int) -> int:
    """The padding behind an axis that lets the last, partial window of ``ceil_mode`` fit."""
    reach = dilation * (size - 1) + 1
    count = -(-(length + 2 * padding - reach) // stride) + 1
    if (count - 1) * stride >= length + padding:
        count -= 1
    return max(padding, (count - 1) * stride + reach - length - padding)


def _infer_max_pool(name: str, axes: int | None) -> Infer:
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        operand = operands["input"]
        require_number(operand, name)
        windows = pool_windows(operand, attributes, name, axes)
        return TensorSpec(windowed_shape(operand, windows, name), operand.dtype)

    return infer


def _infer_avg_pool(name: str, axes: int | None) -> Infer:
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        operand, divisor = operands["input"], attributes["divisor_override"]
        require_float(operand, name)
        if divisor is not None and (not isinstance(divisor, int) or divisor == 0):
            raise InferenceError(
                f"{name}'s divisor_override is a whole number but 0, found {divisor!r}",
                "leave it out to divide by the elements of a window",
            )
        windows = pool_windows(operand, attributes, name, axes)
        return TensorSpec(windowed_shape(operand, windows, name), operand.dtype)

    return infer


def _pool_flops(name: str, axes: int | None) -> Flops:
    def flops(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
        windows = pool_windows(operands["input"], attributes, name, axes)
        return result.num_elements * math.prod(window.size for window in windows)

    return flops


def _reduced(value: Any, kind: str, windows: tuple[WindowAxis, ...], a: Algebra[Any]) -> Any:
    return a.op(
        "reduce_window",
        value,
        kind=kind,
        kernel_size=tuple(window.size for window in windows),
        stride=tuple(window.stride for window in windows),
        padding=tuple((window.before, window.after) for window in windows),
        dilation=tuple(window.dilation for window in windows),
    )


def _max_pool(name: str, axes: int | None) -> Formula:
    def formula(call: Call[Any], a: Algebra[Any]) -> Any:
        windows = pool_windows(a.spec(call["input"]), call.attributes, name, axes)
        return _reduced(call["input"], "max", windows, a)

    return formula


def _avg_pool(name: str, axes: int | None) -> Formula:
    """The sum of a window, carried in f32 (f64 for f64), divided by how many it counts."""

    def formula(call: Call[Any], a: Algebra[Any]) -> Any:
        x = a.widened(call["input"])
        windows = pool_windows(a.spec(x), call.attributes, name, axes)
        divided = a.op("div", _reduced(x, "sum", windows, a), _divisor(call, x, windows, a))
        return a.cast(divided, call.result.dtype)

    return formula


def _divisor(call: Call[Any], x: Any, windows: tuple[WindowAxis, ...], a: Algebra[Any]) -> Any:
    """How many elements each window counts: one number, or one for each place."""
    override = call.attributes["divisor_override"]
    if override is not None:
        return a.constant(call.integer("divisor_override"), x)
    spec = a.spec(x)
    kept = spec.rank - len(windows)
    common, tensors = 1, list[Any]()
    for number, window in enumerate(windows):
        length, places = spec.shape[kept + number], call.result.shape[kept + number]
        # What PyTorch pads on both sides counts; what ceil_mode adds beyond it does not.
        margin = window.before if call.attributes["count_include_pad"] else 0
        low, high = -margin, length + margin
        starts = [place * window.stride - window.before for place in range(places)]
        counts = {min(s + window.size, high) - max(s, low) for s in starts}
        if len(counts) == 1:
            common *= counts.pop()
        elif counts:
            shape = (places, *(1,) * (len(windows) - number - 1))
            tensors.append(a.reshape(_counts(window, places, low, high, x, a), shape))
    divisor = a.constant(common, x)
    for each in tensors:
        divisor = a.op("mul", each, divisor)
    return divisor


def _counts(window: WindowAxis, places: int, low: int, high: int, x: Any, a: Algebra[Any]) -> Any:
    """The taps between ``low`` and ``high`` of the window at each place of one axis."""
    place = a.named("iota", {}, {"size": places, "dtype": I64.name})
    spaced = a.op("mul", place, a.constant(window.stride, place))
    start = a.op("sub", spaced, a.constant(window.before, place))
    end = a.op("add", start, a.constant(window.size, place))
    last = a.op("min", end, a.constant(high, place))
    first = a.op("max", start, a.constant(low, place))
    return a.cast(a.op("sub", last, first), a.spec(x).dtype)


_KERNEL = Parameter("kernel_size", "attribute", aliases=("kernel",))
_STRIDE = Parameter("stride", "attribute", None)
_PADDING = Parameter("padding", "attribute", 0)
_CEIL = Parameter("ceil_mode", "attribute", False)
_RULE = (
    "input is N×C×… or C×…; a windowed axis has (size + 2 padding − dilation (kernel − 1) − 1) / "
    "stride + 1 elements, rounded down, or up with ceil_mode"
)


def _max_pool_row(name: str, axes: int | None, where: str) -> OpDeclaration:
    return OpDeclaration(
        name,
        "reduction",
        (
            Parameter("input"),
            _KERNEL,
            _STRIDE,
            _PADDING,
            Parameter("dilation", "attribute", 1),
            _CEIL,
        ),
        _infer_max_pool(name, axes),
        _pool_flops(name, axes),
        f"Largest element of each window over {where}; stride left out is kernel_size.",
        primitive=False,
        formula=_max_pool(name, axes),
        access="free",
        rule=f"numbers; {_RULE}",
        numerics="Padding takes no part; NaN in a window gives NaN.",
    )


def _avg_pool_row(name: str, axes: int | None, where: str) -> OpDeclaration:
    return OpDeclaration(
        name,
        "reduction",
        (
            Parameter("input"),
            _KERNEL,
            _STRIDE,
            _PADDING,
            _CEIL,
            Parameter("count_include_pad", "attribute", True),
            Parameter("divisor_override", "attribute", None),
        ),
        _infer_avg_pool(name, axes),
        _pool_flops(name, axes),
        f"Mean of each window over {where}, zero padding counted unless count_include_pad=false; "
        "stride left out is kernel_size.",
        primitive=False,
        formula=_avg_pool(name, axes),
        access="free",
        rule=f"floats; {_RULE}",
        numerics="Sum and quotient are in f32 (f64 for f64), the result rounded once.",
    )


_IMAGE = [[[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]]]
_ROW = [[[1.0, 5.0, 2.0, 4.0]]]
_PLACES = {
    None: "the axes behind N×C, or as many of the last as kernel_size has entries",
    1: "the last axis",
    2: "the last two axes",
}

POOLING: tuple[OpDeclaration, ...] = (
    _max_pool_row("max_pool", None, _PLACES[None]).with_example("max_pool(x, 2)", x=_IMAGE),
    _max_pool_row("max_pool1d", 1, _PLACES[1]).with_example("max_pool1d(x, 2, stride=1)", x=_ROW),
    _max_pool_row("max_pool2d", 2, _PLACES[2]).with_example(
        "max_pool2d(x, 3, stride=2, padding=1)", x=_IMAGE
    ),
    _avg_pool_row("avg_pool", None, _PLACES[None]).with_example("avg_pool(x, 2)", x=_IMAGE),
    _avg_pool_row("avg_pool1d", 1, _PLACES[1]).with_example("avg_pool1d(x, 2)", x=_ROW),
    _avg_pool_row("avg_pool2d", 2, _PLACES[2]).with_example(
        "avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=false)", x=_IMAGE
    ),
)
