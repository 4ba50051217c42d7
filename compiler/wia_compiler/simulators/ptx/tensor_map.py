"""Tensor maps: what ``cuTensorMapEncodeTiled`` makes of an array, for the simulator and the driver.

A map says how boxes of a tensor of one to five axes are copied to shared memory and back: its
sizes, the strides of its axes, the box, how the bytes of a box are swizzled, and what fills it
beyond the tensor. The 128 bytes that a kernel sees are opaque on a GPU; here they have a form of
their own.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.errors import ArgumentError

MAP_BYTES = 128
MAP_ALIGNMENT = 64
Swizzle = Literal["32B", "64B", "128B"]
Fill = Literal["zero", "nan"]
SWIZZLES: tuple[Swizzle | None, ...] = (None, "32B", "64B", "128B")
"""By the driver's number for each (``CUtensorMapSwizzle``)."""
_BF16 = np.dtype(ml_dtypes.bfloat16)
_DATA_TYPES = {
    **dict.fromkeys(("uint8", "int8", "bool", "float8_e4m3fn", "float8_e5m2"), 0),
    **dict.fromkeys(("uint16", "int16"), 1),
    **{"uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7},
    **{"float64": 8, "bfloat16": 9},
}
"""The driver's number of an element type (``CUtensorMapDataType``)."""
ELEMENTS: tuple[np.dtype[Any], ...] = (
    *(np.dtype(name) for name in ("u1", "u2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")),
    _BF16,
)
"""The type of an element by that number."""
MOST_AXES, _MOST_BOX, _MOST_ELEMENT_STRIDE = 5, 256, 8
_STRIDE_ALIGNMENT, _MOST_STRIDE, _MOST_SIZE = 16, 1 << 40, 1 << 32
_FORM = struct.Struct("<8sQ5Q5Q5H5B4B")
MAP_MARK = b"tile map"
MAP_OFFSETS = {
    **{"address": 8, "sizes": 16, "strides": 56, "box": 96, "element_strides": 106},
    **{"axes": 111, "data_type": 112, "swizzle": 113, "fills_nan": 114},
}
"""Where the parts of a map lie in its bytes, those for each axis from the innermost on."""


@dataclass(frozen=True)
class TiledTensor:
    """What a tensor map says, its axes the innermost first, as PTX's coordinates have them.

    ``strides`` are in bytes, that of the innermost axis the size of an element; ``data_type`` and
    ``swizzle`` are the driver's numbers.
    """

    address: int
    data_type: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: int
    fills_nan: bool

    @cached_property
    def element(self) -> np.dtype[Any]:
        """The type of its elements."""
        return ELEMENTS[self.data_type]

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Elements of a box along each axis, strides of elements taken out."""
        inner, *outer = zip(self.box, self.element_strides, strict=True)
        return (inner[0], *(-(-size // step) for size, step in outer))

    @cached_property
    def steps(self) -> tuple[tuple[int, int, int, int], ...]:
        """Of each axis its size, the stride of its elements, those of a box, and their step."""
        every = (1, *self.element_strides[1:])
        return tuple(zip(self.sizes, self.strides, self.counts, every, strict=True))

    @cached_property
    def box_bytes(self) -> int:
        """What a copy of a box counts for in ``complete_tx``, in or out of the tensor."""
        total = self.element.itemsize
        for count in self.counts:
            total *= count
        return total

    def encoded(self) -> bytes:
        """The 128 bytes of the map."""
        missing = MOST_AXES - len(self.sizes)

        def five(values: Sequence[int]) -> tuple[int, ...]:
            return (*values, *(0,) * missing)

        content = _FORM.pack(
            MAP_MARK,
            self.address,
            *five(self.sizes),
            *five(self.strides),
            *five(self.box),
            *five(self.element_strides),
            *(len(self.sizes), self.data_type, self.swizzle, self.fills_nan),
        )
        return content.ljust(MAP_BYTES, b"\0")


@lru_cache(maxsize=256)
def decoded_map(content: bytes) -> TiledTensor | None:
    """The map that 128 bytes are, ``None`` where they are none."""
    mark, address, *numbers = _FORM.unpack(content[: _FORM.size])
    if mark != MAP_MARK:
        return None
    axes, data_type, swizzle, fills_nan = numbers[20:]
    rows = [tuple(numbers[start : start + axes]) for start in (0, 5, 10, 15)]
    sizes, strides, box, element_strides = rows
    return TiledTensor(
        address, data_type, sizes, strides, box, element_strides, swizzle, bool(fills_nan)
    )


class TensorMap:
    """A map of an array: boxes of ``box`` elements of it, as ``cp.async.bulk.tensor`` copies them.

    ``box`` and what else is given for each axis is in the order of the array's axes, outermost
    first (PTX's coordinates and the driver's lists are in the other order). ``shape`` and
    ``strides`` (in bytes) are the array's own, if left out. ``element_strides`` takes every n-th
    element of an axis. ``swizzle`` is ``None``, ``"32B"``, ``"64B"`` or ``"128B"``; ``fill`` says
    what a box has beyond the tensor: ``"zero"`` or ``"nan"``.

    As an element of ``args`` it is a parameter ``.param .align 64 .b8 p[128]``, or, for a
    parameter of 64 bits, the address of its 128 bytes in device memory. Raises ``ArgumentError``
    for what ``cuTensorMapEncodeTiled`` refuses.

    >>> from wia_compiler.simulators.ptx import TensorMap
    >>> TensorMap(np.zeros((100, 64), np.float16), box=(64, 64), swizzle="128B").box_bytes
    8192
    """

    def __init__(
        self,
        array: NDArray[Any],
        *,
        box: Sequence[int],
        shape: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        element_strides: Sequence[int] | None = None,
        interleave: str | None = None,
        swizzle: Swizzle | None = None,
        fill: Fill = "zero",
    ):
        self.array = array
        sizes = tuple(int(each) for each in (array.shape if shape is None else shape))
        steps = tuple(int(each) for each in (array.strides if strides is None else strides))
        boxes = tuple(int(each) for each in box)
        every = tuple(int(each) for each in element_strides or (1,) * len(boxes))
        if interleave is not None:
            raise ArgumentError(
                f"interleave={interleave!r}: interleaved layouts are not simulated, expected None"
            )
        if swizzle not in SWIZZLES:
            raise ArgumentError(
                f"swizzle={swizzle!r}: expected None, {', '.join(map(repr, get_args(Swizzle)))}"
            )
        if fill not in get_args(Fill):
            raise ArgumentError(f"fill={fill!r}: expected 'zero' or 'nan'")
        data_type = _DATA_TYPES.get(array.dtype.name)
        if data_type is None:
            raise ArgumentError(
                f"array: elements of {array.dtype} have no tensor maps, expected one of: "
                f"{', '.join(_DATA_TYPES)}"
            )
        if fill == "nan" and ELEMENTS[data_type].kind not in "fV":
            raise ArgumentError(f"fill='nan': {array.dtype} has no NaN, expected fill='zero'")
        _check_axes(sizes, steps, boxes, every, array.dtype.itemsize)
        _check_extent(array, sizes, steps)
        self._tensor = TiledTensor(
            0,
            data_type,
            sizes[::-1],
            steps[::-1],
            boxes[::-1],
            every[::-1],
            SWIZZLES.index(swizzle),
            fill == "nan",
        )
        _check_inner_box(self._tensor, swizzle)

    @property
    def box_bytes(self) -> int:
        """What one copy counts for in ``complete_tx``."""
        return self._tensor.box_bytes

    def at(self, address: int) -> TiledTensor:
        """The map of the array at an address of device memory, 16-byte aligned."""
        if address % _STRIDE_ALIGNMENT:
            raise ArgumentError(
                f"array: its first element lies at {address:#x}, expected a multiple of "
                f"{_STRIDE_ALIGNMENT} bytes"
            )
        own = self._tensor
        return TiledTensor(
            address, own.data_type, own.sizes, own.strides, own.box, own.element_strides,
            own.swizzle, own.fills_nan,
        )  # fmt: skip

    def __repr__(self) -> str:
        own = self._tensor
        swizzle = SWIZZLES[own.swizzle]
        return f"TensorMap({own.element}{list(own.sizes[::-1])}, box={own.box[::-1]}, {swizzle=})"


def _check_axes(
    sizes: Sequence[int], strides: Sequence[int], box: Sequence[int], every: Sequence[int],
    item_bytes: int,
) -> None:  # fmt: skip
    """The bounds of the driver for each axis, all lists outermost first."""
    axes = len(sizes)
    if not 1 <= axes <= MOST_AXES:
        raise ArgumentError(f"shape: {axes} axes, expected 1 to {MOST_AXES}")
    for name, values in (("strides", strides), ("box", box), ("element_strides", every)):
        if len(values) != axes:
            raise ArgumentError(f"{name}: {len(values)} numbers, expected {axes}, one an axis")
    if strides[-1] != item_bytes:
        raise ArgumentError(
            f"strides: the elements of the last axis lie {strides[-1]} bytes apart, expected "
            f"{item_bytes}: next to one another"
        )
    for axis, size in enumerate(sizes):
        if not 1 <= size <= _MOST_SIZE:
            raise ArgumentError(f"shape: size {size} of axis {axis}, expected 1 to 2**32")
    for axis, stride in enumerate(strides[:-1]):
        if stride % _STRIDE_ALIGNMENT or not 0 <= stride < _MOST_STRIDE:
            raise ArgumentError(
                f"strides: {stride} bytes of axis {axis}, expected a multiple of "
                f"{_STRIDE_ALIGNMENT} below 2**40"
            )
    for axis, size in enumerate(box):
        if not 1 <= size <= _MOST_BOX:
            raise ArgumentError(f"box: size {size} of axis {axis}, expected 1 to {_MOST_BOX}")
    for axis, step in enumerate(every):
        if not 1 <= step <= _MOST_ELEMENT_STRIDE:
            raise ArgumentError(
                f"element_strides: {step} of axis {axis}, expected 1 to {_MOST_ELEMENT_STRIDE}"
            )
    if every[-1] != 1:
        raise ArgumentError(
            f"element_strides: {every[-1]} of the last axis, expected 1: it is copied whole"
        )


def _check_extent(array: NDArray[Any], sizes: Sequence[int], strides: Sequence[int]) -> None:
    """What a shape and strides of their own reach must lie in the array."""
    last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    own = sum((size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True))
    if not array.size or any(stride < 0 for stride in array.strides) or last > own:
        raise ArgumentError(
            f"array: a tensor of {tuple(sizes)} with strides {tuple(strides)} ends at byte "
            f"{last + array.dtype.itemsize}, the array at byte "
            f"{own + array.dtype.itemsize if array.size else 0}"
        )


def _check_inner_box(tensor: TiledTensor, swizzle: Swizzle | None) -> None:
    inner = tensor.box[0] * tensor.element.itemsize
    if inner % 16:
        raise ArgumentError(
            f"box: {tensor.box[0]} elements of the last axis are {inner} bytes, expected a "
            "multiple of 16"
        )
    if swizzle is not None and inner > int(swizzle[:-1]):
        raise ArgumentError(
            f"box: {tensor.box[0]} elements of the last axis are {inner} bytes, expected at most "
            f"{swizzle[:-1]} for swizzle={swizzle!r}"
        )
