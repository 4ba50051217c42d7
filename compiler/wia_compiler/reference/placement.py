"""The meaning of ops that cut, join and surround arrays, and of those that read by an index."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wia_compiler.base.dtypes import DTYPES, DType
from wia_compiler.base.errors import ArgumentError
from wia_compiler.dialects.types import Value
from wia_compiler.dialects.wia.declaration import Attributes
from wia_compiler.dialects.wia.padding import Margin, margins_of
from wia_compiler.dialects.wia.placement import cuts_of
from wia_compiler.dialects.wia.rules import normalize_axis
from wia_compiler.reference.elementwise import Meaning, Named
from wia_compiler.reference.reductions import spec_of_array
from wia_compiler.reference.rounding import Array, cast, dtype_of_array


def _slice(operands: Named, attributes: Attributes) -> Array:
    x = operands["input"]
    for axis, cut in enumerate(cuts_of(spec_of_array(x), attributes)):
        positions = cut.start + cut.step * np.arange(cut.size)
        x = np.take(x, positions, axis=axis)
    return x


def number_in(value: Value, dtype: DType) -> Any:
    """A number of the text as an element of a dtype."""
    return np.asarray(value).astype(dtype.numpy)[()]


def _pad(operands: Named, attributes: Attributes) -> Array:
    x, mode = operands["input"], str(attributes["mode"])
    margins = margins_of(spec_of_array(x), attributes)
    if mode != "constant":
        numpy_mode = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
        widths = [(margin.before, margin.after) for margin in margins]
        return np.pad(x, widths, mode=numpy_mode) if x.size else np.pad(x, widths)  # pyright: ignore
    fill = number_in(attributes["value"], dtype_of_array(x))
    for axis, margin in enumerate(margins):
        x = _pad_axis(x, axis, margin, fill)
    return x


def _pad_axis(x: Array, axis: int, margin: Margin, fill: Any) -> Array:
    shape = list(x.shape)
    step = margin.between + 1
    spread = shape[axis] + margin.between * max(shape[axis] - 1, 0)
    shape[axis] = max(margin.before, 0) + spread + max(margin.after, 0)
    result = np.full(shape, fill, x.dtype)
    moved, source = np.moveaxis(result, axis, 0), np.moveaxis(x, axis, 0)
    first = max(margin.before, 0)
    moved[first : first + spread : step] = source
    end = len(moved) - max(-margin.after, 0)
    return np.moveaxis(moved[max(-margin.before, 0) : end], 0, axis)


def _concat(operands: Named, attributes: Attributes) -> Array:
    arrays = list(operands.values())
    return np.concatenate(arrays, axis=normalize_axis(attributes["dim"], spec_of_array(arrays[0])))


def _iota(operands: Named, attributes: Attributes) -> Array:
    size = attributes["size"]
    shape: Any = operands["like"].shape if "like" in operands else size
    template = np.zeros(shape, np.int64)
    axis = normalize_axis(attributes["dim"], spec_of_array(template))
    counts = np.arange(template.shape[axis])
    ends = [1] * template.ndim
    ends[axis] = -1
    spread = np.broadcast_to(counts.reshape(ends), template.shape)
    return cast(spread, DTYPES[str(attributes["dtype"])])


def checked_index(index: Array, size: int, op: str) -> Array:
    """An index as i64; ``ArgumentError`` names the first element that is out of range."""
    wide = index.astype(np.int64)
    wrong = np.argwhere((wide < 0) | (wide >= size))
    if len(wrong):
        place = tuple(int(each) for each in wrong[0])
        raise ArgumentError(
            f"{op}: index {wide[place]} at position {list(place)} is out of range for an axis of "
            f"size {size}: expected 0 to {size - 1}"
        )
    return wide


def _index_select(operands: Named, attributes: Attributes) -> Array:
    x = operands["input"]
    axis = normalize_axis(attributes["dim"], spec_of_array(x))
    index = checked_index(operands["index"].reshape(-1), x.shape[axis], "index_select")
    return np.take(x, index, axis=axis)


def _gather(operands: Named, attributes: Attributes) -> Array:
    x, index = operands["input"], operands["index"]
    axis = normalize_axis(attributes["dim"], spec_of_array(x))
    wide = checked_index(index, x.shape[axis] if x.ndim else 1, "gather")
    part = x[tuple(slice(None) if n == axis else slice(s) for n, s in enumerate(index.shape))]
    if not math.prod(index.shape):
        return np.zeros(index.shape, x.dtype)
    return np.take_along_axis(part, wide, axis=axis)


PLACEMENT_MEANING: dict[str, Meaning] = {
    "slice": _slice,
    "pad": _pad,
    "concat": _concat,
    "iota": _iota,
    "index_select": _index_select,
    "gather": _gather,
}
