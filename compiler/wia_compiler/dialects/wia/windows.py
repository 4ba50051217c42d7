"""Ops that fold windows which slide over the last axes: pooling.

FLOP convention: one per element of a window, padding counted as if it were an element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from wia_compiler.dialects.types import TensorSpec, Value
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import carried
from wia_compiler.dialects.wia.rules import describe, is_narrow, require_number

WINDOW_KINDS = ("max", "min", "sum", "prod")


@dataclass(frozen=True)
class WindowAxis:
    """A window along one axis: ``size`` taps ``dilation`` apart, moved by ``stride``.

    ``before`` and ``after`` are elements of padding at the ends of the axis.
    """

    size: int
    stride: int
    before: int
    after: int
    dilation: int

    @property
    def reach(self) -> int:
        """Elements from the first tap to the last."""
        return self.dilation * (self.size - 1) + 1

    def count(self, length: int) -> int:
        """Windows on an axis of ``length`` elements; below 0 where not even one fits."""
        return (length + self.before + self.after - self.reach) // self.stride + 1


def windows_of(attributes: Attributes) -> tuple[WindowAxis, ...]:
    """The window along each of the last axes of ``reduce_window``'s operand, in order."""
    sizes = attributes["kernel_size"]
    sizes = sizes if isinstance(sizes, tuple) else (sizes,)
    stride = attributes["stride"]
    columns = (
        sizes,
        _each(sizes if stride is None else stride, len(sizes), "stride"),
        _each(attributes["padding"], len(sizes), "padding"),
        _each(attributes["dilation"], len(sizes), "dilation"),
    )
    axes: list[WindowAxis] = []
    for size, step, padding, dilation in zip(*columns, strict=True):
        before, after = padding if isinstance(padding, tuple) else (padding, padding)
        numbers = [size, step, before, after, dilation]
        whole = [n for n in numbers if isinstance(n, int) and not isinstance(n, bool)]
        if len(whole) < 5 or min(whole[0], whole[1], whole[4]) < 1 or min(whole[2:4]) < 0:
            raise InferenceError(
                f"no window of kernel_size={size}, stride={step}, padding={padding}, "
                f"dilation={dilation}",
                "kernel_size, stride and dilation are whole numbers from 1, padding from 0",
            )
        axes.append(WindowAxis(*whole))
    return tuple(axes)


def _each(value: Value, length: int, name: str) -> tuple[Value, ...]:
    items = value if isinstance(value, tuple) else (value,) * length
    if len(items) != length:
        raise InferenceError(
            f"{name} has {len(items)} entries, kernel_size {length}", "give one for each axis"
        )
    return items


def windowed_shape(
    operand: TensorSpec, windows: tuple[WindowAxis, ...], op: str
) -> tuple[int, ...]:
    """The shape that windows over the last axes of ``operand`` leave."""
    if len(windows) > operand.rank:
        raise InferenceError(
            f"{op} has windows of {len(windows)} axes, {describe(operand)} has {operand.rank}",
            "give kernel_size one entry for each axis that the windows move over",
        )
    kept = operand.rank - len(windows)
    sizes: list[int] = []
    for axis, window in enumerate(windows, start=kept):
        length = operand.shape[axis]
        count = window.count(length)
        if count < 0 or (count == 0 and length + window.before + window.after):
            raise InferenceError(
                f"{op}: a window of {window.reach} does not fit {length} + {window.before} + "
                f"{window.after} elements of axis {axis} of {describe(operand)}",
                "use a smaller kernel_size or a larger padding",
            )
        sizes.append(count)
    return (*operand.shape[:kept], *sizes)


def _infer_reduce_window(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    require_number(operand, "reduce_window")
    if attributes["kind"] not in WINDOW_KINDS:
        expected = ", ".join(repr(kind) for kind in WINDOW_KINDS)
        raise InferenceError(
            f"reduce_window has no kind={attributes['kind']!r}", f"expected one of {expected}"
        )
    shape = windowed_shape(operand, windows_of(attributes), "reduce_window")
    return TensorSpec(shape, operand.dtype)


def _is_carried(operands: Operands, attributes: Attributes) -> bool:
    return attributes["kind"] in ("sum", "prod") and is_narrow(operands, attributes)


def _window_flops(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    return result.num_elements * math.prod(window.size for window in windows_of(attributes))


WINDOWS: tuple[OpDeclaration, ...] = (
    OpDeclaration(
        "reduce_window",
        "reduction",
        (
            Parameter("input"),
            Parameter("kind", "attribute"),
            Parameter("kernel_size", "attribute", aliases=("kernel",)),
            Parameter("stride", "attribute", None),
            Parameter("padding", "attribute", 0),
            Parameter("dilation", "attribute", 1),
        ),
        _infer_reduce_window,
        _window_flops,
        "max, min, sum or prod (kind) of windows that slide over the last axes, as many as "
        "kernel_size has entries. stride left out is kernel_size; padding is a number or a pair "
        "(before, after) for each axis, and padding elements take no part.",
        composite_when=_is_carried,
        formula=carried("reduce_window"),
        access="free",
        rule="numbers; a windowed axis has (size + padding − dilation (kernel − 1) − 1) / stride "
        "+ 1 elements, rounded down",
        numerics="sum and prod are carried in f32 for f16 and bf16 and rounded once; NaN in a "
        "window gives NaN. A window of padding alone gives the fold of no elements: 0, 1, -inf or "
        "inf (for integers the ends of their range).",
    ).with_example('reduce_window(x, "max", [2], stride=[1])', x=[1.0, 5.0, 2.0, 4.0]),
)
