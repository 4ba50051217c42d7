"""One part of an array: chunks, splits, ranges and single positions of an axis."""

from __future__ import annotations

from typing import Any

from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.arranging import AXIS, arranged, attribute, cut, whole_attribute
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    Infer,
    InferenceError,
    OpDeclaration,
    Operands,
)
from wia_compiler.dialects.wia.formula import Algebra, Call, Formula
from wia_compiler.dialects.wia.rules import describe, normalize_axis


def _part(operand: TensorSpec, attributes: Attributes, op: str) -> tuple[int, int, int]:
    """Axis, first element and length of the part that ``chunk``, ``split`` … take."""
    axis = normalize_axis(attributes["dim"], operand)
    size = operand.shape[axis]
    if op == "narrow":
        start, length = (whole_attribute(attributes, name, op) for name in ("start", "length"))
        first = start + size if start < 0 else start
        if length < 0 or not 0 <= first <= size - length:
            raise InferenceError(
                f"narrow: {length} elements from {start} do not lie on axis {axis} of "
                f"{describe(operand)}",
                f"start and length must stay within {size}",
            )
        return axis, first, length
    index = whole_attribute(attributes, "index", op)
    if op == "select":
        count, step = size, 1
    else:
        name = "chunks" if op == "chunk" else "split_size"
        number = whole_attribute(attributes, name, op)
        if number < 1:
            raise InferenceError(
                f"{op}'s {name} starts at 1, found {number}", "one part is the whole axis"
            )
        step = -(-size // number) if op == "chunk" else number
        count = max(-(-size // step), 1) if step else number
    position = index + count if index < 0 else index
    if not 0 <= position < count:
        raise InferenceError(
            f"{op}: index {index} is out of range for axis {axis} of {describe(operand)}, which "
            f"has {count} part{'s' * (count != 1)}",
            f"expected {-count} to {count - 1}" if count else "the axis has no elements",
        )
    start = min(position * step, size)
    return axis, start, min(step, size - start)


def _infer_part(op: str) -> Infer:
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        operand = operands["input"]
        axis, _, length = _part(operand, attributes, op)
        middle = () if op == "select" else (length,)
        shape = (*operand.shape[:axis], *middle, *operand.shape[axis + 1 :])
        return TensorSpec(shape, operand.dtype)

    return infer


def _take_part(op: str) -> Formula:
    def formula(call: Call[Any], a: Algebra[Any]) -> Any:
        value = call["input"]
        axis, start, length = _part(a.spec(value), call.attributes, op)
        return a.reshape(cut(value, axis, start, length, a), call.result.shape)

    return formula


PARTS: tuple[OpDeclaration, ...] = (
    arranged(
        "chunk",
        "Part number index of chunks parts of an axis, the last of which may be smaller.",
        _infer_part("chunk"),
        _take_part("chunk"),
        "dim has size / chunks elements, rounded up",
        attribute("chunks"),
        attribute("index"),
        attribute("dim", 0, aliases=AXIS),
    ).with_example("chunk(x, 2, 1)", x=[1, 2, 3, 4, 5]),
    arranged(
        "split",
        "Part number index of an axis cut into parts of split_size, the last may be smaller.",
        _infer_part("split"),
        _take_part("split"),
        "dim has split_size elements, or what is left",
        attribute("split_size"),
        attribute("index"),
        attribute("dim", 0, aliases=AXIS),
    ).with_example("split(x, 2, 2)", x=[1, 2, 3, 4, 5]),
    arranged(
        "narrow",
        "length elements of an axis from start; a start below 0 counts from the end.",
        _infer_part("narrow"),
        _take_part("narrow"),
        "dim has length elements, which must be there",
        attribute("dim", aliases=AXIS),
        attribute("start"),
        attribute("length"),
    ).with_example("narrow(x, 0, 1, 2)", x=[1, 2, 3, 4]),
    arranged(
        "select",
        "The slice at one position of an axis; a position below 0 counts from the end.",
        _infer_part("select"),
        _take_part("select"),
        "dim goes; the position must be there",
        attribute("dim", aliases=AXIS),
        attribute("index"),
    ).with_example("select(x, 0, -1)", x=[[1, 2], [3, 4]]),
)
