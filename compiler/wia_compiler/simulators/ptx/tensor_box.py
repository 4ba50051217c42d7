"""Boxes of a tensor: which bytes of device memory they are, and where in shared memory they lie."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.counting import SECTOR_BYTES
from wia_compiler.simulators.ptx.tensor_map import TiledTensor

Bytes = NDArray[np.uint8]
CHUNK_BYTES = 16
"""What a swizzle moves as a whole."""
_PERIOD = 1024
"""Bytes after which the widest swizzle repeats."""
MOVED = (0, 0x10, 0x30, 0x70)
"""By the driver's number of a swizzle, the bits of an address that it changes: each is combined
with the bit three places above it."""


class Box:
    """A box of a tensor that begins at coordinates (innermost first), some of it outside.

    ``inside`` is the part that lies in the tensor, as a view of device memory, its axes outermost
    first; ``part`` says where in the box that is.
    """

    def __init__(self, tensor: TiledTensor, coordinates: Sequence[int], arena: Bytes, base: int):
        self.tensor = tensor
        offset = tensor.address - base
        part: list[slice] = []
        shape: list[int] = []
        strides: list[int] = []
        for at, (size, stride, count, step) in zip(coordinates, tensor.steps, strict=True):
            first, stop = 0, count
            if at < 0:
                first = min(count, -(at // step))
            if at + count * step > size:
                stop = max(first, -(-(size - at) // step))
            part.append(slice(first, stop))
            shape.append(stop - first)
            strides.append(stride * step)
            offset += (at + first * step) * stride
        self.part = tuple(part[::-1])
        self.is_empty = 0 in shape
        self._offset = 0 if self.is_empty else offset
        self.inside: NDArray[Any] = np.ndarray(
            shape[::-1], tensor.element, arena.data, self._offset, strides[::-1]
        )

    def loaded(self) -> Bytes:
        """The bytes of the whole box, filled where it is out of the tensor."""
        tensor = self.tensor
        if self.inside.shape == tensor.counts[::-1]:
            return self.inside.copy().reshape(-1).view(np.uint8)
        content = np.empty(tensor.counts[::-1], tensor.element)
        content.view(np.uint8)[...] = 0
        if tensor.fills_nan:
            content[...] = np.nan
        content[self.part] = self.inside
        return content.reshape(-1).view(np.uint8)

    def elements_of(self, content: Bytes) -> NDArray[Any]:
        """Of the bytes of a whole box, the elements that lie in the tensor."""
        return content.view(self.tensor.element).reshape(self.tensor.counts[::-1])[self.part]

    def rows(self) -> tuple[NDArray[np.int64], int]:
        """Where the rows of the part inside begin in device memory, and the bytes of each."""
        starts: NDArray[np.int64] = np.full((1,), self._offset, np.int64)
        *outer, inner = self.inside.shape
        for size, stride in zip(outer, self.inside.strides[:-1], strict=True):
            starts = np.add.outer(starts, np.arange(size, dtype=np.int64) * stride).reshape(-1)
        return starts, inner * self.inside.itemsize

    def sectors(self) -> int:
        """Sectors of device memory that the part inside touches."""
        if self.is_empty:
            return 0
        shape, strides = self.inside.shape, self.inside.strides
        return _sectors(self._offset % SECTOR_BYTES, shape, strides, self.inside.itemsize)


@lru_cache(maxsize=1024)
def _sectors(start: int, shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> int:
    """Sectors that rows of elements touch; those next to one another may share one."""
    *outer, inner = shape
    starts: NDArray[np.int64] = np.full((1,), start, np.int64)
    for size, stride in zip(outer, strides[:-1], strict=True):
        starts = np.add.outer(starts, np.arange(size, dtype=np.int64) * stride).reshape(-1)
    starts = np.sort(starts)
    first: NDArray[np.int64] = starts // SECTOR_BYTES
    last: NDArray[np.int64] = (starts + inner * item - 1) // SECTOR_BYTES
    new = np.maximum(first[1:], np.maximum.accumulate(last)[:-1] + 1)
    rest = np.maximum(0, last[1:] - new + 1)
    return int(last[0] - first[0] + 1) + int(rest.sum())


def box_chunks(start: int, row: int, tensor: TiledTensor) -> NDArray[np.int64]:
    """Which 16 bytes of all shared memory each 16 bytes of a box are.

    ``start`` is an address of a block, ``row`` the byte where the shared memory of that begins.
    """
    within = start % _PERIOD
    chunks = _chunks(within, tensor.box_bytes, tensor.swizzle)
    return chunks + (row + start - within) // CHUNK_BYTES


@lru_cache(maxsize=256)
def _chunks(start: int, size: int, swizzle: int) -> NDArray[np.int64]:
    places = start + np.arange(0, size, CHUNK_BYTES, dtype=np.int64)
    return (places ^ ((places >> 3) & MOVED[swizzle])) // CHUNK_BYTES
