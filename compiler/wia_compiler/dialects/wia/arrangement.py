"""Ops that arrange elements anew and are written in reshapes, slices, stretches and joins."""

from __future__ import annotations

import math
from typing import Any

from wia_compiler.dialects.types import TensorSpec, Value
from wia_compiler.dialects.wia.arranging import AXIS, arranged, attribute, cut, whole_attribute
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Algebra, Call
from wia_compiler.dialects.wia.movement import whole_numbers
from wia_compiler.dialects.wia.rules import describe, normalize_axes, normalize_axis, same_dtype

Axes = tuple[int, ...]


def squeezed_axes(spec: TensorSpec, dim: Value) -> Axes:
    """The axes of size 1 that ``squeeze`` drops; those named that are larger stay."""
    named = normalize_axes(dim, spec)
    return tuple(axis for axis in named if spec.shape[axis] == 1)


def _infer_squeeze(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    dropped = squeezed_axes(operand, attributes["dim"])
    kept = (size for axis, size in enumerate(operand.shape) if axis not in dropped)
    return TensorSpec(tuple(kept), operand.dtype)


def _infer_unsqueeze(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    axis = normalize_axis(attributes["dim"], operand, extra=1)
    return TensorSpec((*operand.shape[:axis], 1, *operand.shape[axis:]), operand.dtype)


def _reshaped(call: Call[Any], a: Algebra[Any]) -> Any:
    return a.reshape(call["input"], call.result.shape)


def _infer_stack(operands: Operands, attributes: Attributes) -> TensorSpec:
    specs = operands.all
    if not specs:
        raise InferenceError("stack needs at least one tensor", "write stack([a, b], dim=0)")
    first = specs[0]
    for spec in specs[1:]:
        if spec.shape != first.shape:
            raise InferenceError(
                f"stack needs arrays of one shape, found {describe(first)} and {describe(spec)}",
                "use concat to join along an axis that they have",
            )
    axis = normalize_axis(attributes["dim"], first, extra=1)
    shape = (*first.shape[:axis], len(specs), *first.shape[axis:])
    return TensorSpec(shape, same_dtype(specs))


def _stack(call: Call[Any], a: Algebra[Any]) -> Any:
    values = list(call.operands.values())
    axis = normalize_axis(call.attributes["dim"], a.spec(values[0]), extra=1)
    shape = a.spec(values[0]).shape
    parts = [a.reshape(value, (*shape[:axis], 1, *shape[axis:])) for value in values]
    return a.op("concat", *parts, dim=axis)


def _infer_flip(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    normalize_axes(whole_numbers(attributes["dims"], "dims"), operand)
    return TensorSpec(operand.shape, operand.dtype)


def _flip(call: Call[Any], a: Algebra[Any]) -> Any:
    value = call["input"]
    axes = normalize_axes(call.attributes["dims"], a.spec(value))
    steps = tuple(-1 if axis in axes else 1 for axis in range(a.spec(value).rank))
    return a.op("slice", value, steps=steps)


def _rolls(operand: TensorSpec, attributes: Attributes) -> list[tuple[int, int]]:
    """Axis and shift of each axis that ``roll`` turns; ``dims`` left out rolls all as one."""
    shifts = whole_numbers(attributes["shifts"], "shifts")
    dims = attributes["dims"]
    axes = (0,) if dims is None else whole_numbers(dims, "dims")
    if len(axes) != len(shifts):
        raise InferenceError(
            f"roll has {len(shifts)} shifts for {len(axes)} axes", "give one shift for each axis"
        )
    flat = TensorSpec((operand.num_elements,), operand.dtype) if dims is None else operand
    return [(normalize_axis(axis, flat), by) for axis, by in zip(axes, shifts, strict=True)]


def _infer_roll(operands: Operands, attributes: Attributes) -> TensorSpec:
    _rolls(operands["input"], attributes)
    return TensorSpec(operands["input"].shape, operands["input"].dtype)


def _roll(call: Call[Any], a: Algebra[Any]) -> Any:
    value, rolls = call["input"], _rolls(a.spec(call["input"]), call.attributes)
    if call.attributes["dims"] is None:
        value = a.reshape(value, (call.result.num_elements,))
    for axis, by in rolls:
        size = a.spec(value).shape[axis]
        by = by % size if size else 0
        if by:
            tail = cut(value, axis, size - by, by, a)
            value = a.op("concat", tail, cut(value, axis, 0, size - by, a), dim=axis)
    return a.reshape(value, call.result.shape)


def _tiled(operand: TensorSpec, attributes: Attributes) -> tuple[Axes, Axes]:
    """The shape and the repetitions of ``tile``, both with as many entries."""
    counts = whole_numbers(attributes["dims"], "dims")
    if any(count < 0 for count in counts):
        raise InferenceError(f"tile's dims {list(counts)} start at 0", "1 leaves an axis as it is")
    rank = max(len(counts), operand.rank)
    shape = (*(1,) * (rank - operand.rank), *operand.shape)
    return shape, (*(1,) * (rank - len(counts)), *counts)


def _infer_tile(operands: Operands, attributes: Attributes) -> TensorSpec:
    shape, counts = _tiled(operands["input"], attributes)
    sizes = tuple(size * count for size, count in zip(shape, counts, strict=True))
    return TensorSpec(sizes, operands["input"].dtype)


def _tile(call: Call[Any], a: Algebra[Any]) -> Any:
    shape, counts = _tiled(a.spec(call["input"]), call.attributes)
    spread = tuple(each for size in shape for each in (1, size))
    full = tuple(each for pair in zip(counts, shape, strict=True) for each in pair)
    value = a.op("broadcast", a.reshape(call["input"], spread), shape=full)
    return a.reshape(value, call.result.shape)


def _infer_repeat_interleave(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    repeats = whole_attribute(attributes, "repeats", "repeat_interleave")
    if repeats < 0:
        raise InferenceError(
            f"repeat_interleave's repeats starts at 0, found {repeats}",
            "1 leaves the array as it is",
        )
    if attributes["dim"] is None:
        return TensorSpec((operand.num_elements * repeats,), operand.dtype)
    axis = normalize_axis(attributes["dim"], operand)
    shape = (*operand.shape[:axis], operand.shape[axis] * repeats, *operand.shape[axis + 1 :])
    return TensorSpec(shape, operand.dtype)


def _repeat_interleave(call: Call[Any], a: Algebra[Any]) -> Any:
    spec, repeats = a.spec(call["input"]), call.integer("repeats")
    shape, axis = spec.shape, 0
    if call.attributes["dim"] is None:
        shape = (spec.num_elements,)
    else:
        axis = normalize_axis(call.attributes["dim"], spec)
    head, tail = shape[: axis + 1], shape[axis + 1 :]
    value = a.reshape(call["input"], (*head, 1, *tail))
    return a.reshape(a.op("broadcast", value, shape=(*head, repeats, *tail)), call.result.shape)


def _infer_pixel_shuffle(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    factor = whole_attribute(attributes, "upscale_factor", "pixel_shuffle")
    if operand.rank < 3 or factor < 1 or operand.shape[-3] % factor**2:
        raise InferenceError(
            f"pixel_shuffle by {factor} needs …×(C·{factor}²)×H×W, found {describe(operand)}",
            "the channels must be a multiple of the factor's square",
        )
    *lead, channels, rows, columns = operand.shape
    shape = (*lead, channels // factor**2, rows * factor, columns * factor)
    return TensorSpec(shape, operand.dtype)


def _pixel_shuffle(call: Call[Any], a: Algebra[Any]) -> Any:
    factor = call.integer("upscale_factor")
    *lead, channels, rows, columns = a.spec(call["input"]).shape
    count = math.prod(lead)
    split = (count, channels // factor**2, factor, factor, rows, columns)
    moved = a.op("permute", a.reshape(call["input"], split), dims=(0, 1, 4, 2, 5, 3))
    return a.reshape(moved, call.result.shape)


ARRANGEMENT: tuple[OpDeclaration, ...] = (
    arranged(
        "squeeze",
        "Axes of size 1 dropped: those named, or all.",
        _infer_squeeze,
        _reshaped,
        "an axis named that is larger than 1 stays",
        attribute("dim", None, aliases=AXIS),
    ).with_example("squeeze(x)", x=[[[1, 2]]]),
    arranged(
        "unsqueeze",
        "An axis of size 1 put in.",
        _infer_unsqueeze,
        _reshaped,
        "dim is where the new axis stands in the result",
        attribute("dim", aliases=AXIS),
    ).with_example("unsqueeze(x, 0)", x=[1, 2]),
    arranged(
        "stack",
        "Arrays of one shape joined along a new axis.",
        _infer_stack,
        _stack,
        "one shape and dtype; dim is a new axis with one element for each array",
        attribute("dim", 0, aliases=AXIS),
        access="free",
        operand=Parameter("tensors", "tensors"),
    ).with_example("stack([x, y])", x=[1, 2], y=[3, 4]),
    arranged(
        "flip",
        "The order of elements reversed along axes.",
        _infer_flip,
        _flip,
        "shape of input",
        attribute("dims", aliases=("dim", "axis")),
    ).with_example("flip(x, [1])", x=[[1, 2, 3], [4, 5, 6]]),
    arranged(
        "roll",
        "Elements moved along axes; those that leave at the end come back at the start.",
        _infer_roll,
        _roll,
        "shape of input",
        attribute("shifts"),
        attribute("dims", None, aliases=("dim", "axis")),
        access="free",
    ).with_example("roll(x, 1)", x=[1, 2, 3, 4]),
    arranged(
        "tile",
        "The array repeated dims times along each axis, as blocks.",
        _infer_tile,
        _tile,
        "each size times its count, counted from the last axis",
        attribute("dims", aliases=("repeats",)),
    ).with_example("tile(x, [2, 2])", x=[1, 2]),
    arranged(
        "repeat_interleave",
        "Each element repeated, next to itself, along an axis; of all, in row-major order.",
        _infer_repeat_interleave,
        _repeat_interleave,
        "dim is repeats times as long; without dim a list",
        attribute("repeats"),
        attribute("dim", None, aliases=AXIS),
    ).with_example("repeat_interleave(x, 2)", x=[1, 2]),
    arranged(
        "pixel_shuffle",
        "Groups of upscale_factor² channels spread over as many pixels (Shi et al., 2016).",
        _infer_pixel_shuffle,
        _pixel_shuffle,
        "…×(C·r²)×H×W gives …×C×(H·r)×(W·r)",
        attribute("upscale_factor"),
    ).with_example("pixel_shuffle(x, 2)", x=[[[[1]], [[2]], [[3]], [[4]]]]),
)
