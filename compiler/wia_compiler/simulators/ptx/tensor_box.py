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
_MOVED = (0, 0x10, 0x30, 0x70)
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
        starts: list[int] = []
        stops: list[int] = []
        strides: list[int] = []
        for at, size, stride, count, step in zip(
            coordinates,
            tensor.sizes,
            tensor.strides,
            tensor.counts,
            (1, *tensor.element_strides[1:]),
            strict=True,
        ):
            first = min(count, max(0, -(at // step)))
            stop = max(first, min(count, -(-(size - at) // step)))
            starts.append(first)
            stops.append(stop)
            strides.append(stride * step)
            offset += (at + first * step) * stride
        self.part = tuple(slice(a, b) for a, b in zip(starts[::-1], stops[::-1], strict=True))
        shape = tuple(b - a for a, b in zip(starts[::-1], stops[::-1], strict=True))
        self.is_empty = 0 in shape
        self._offset = 0 if self.is_empty else offset
        self.inside: NDArray[Any] = np.ndarray(
            shape, tensor.element, arena.data, self._offset, tuple(strides[::-1])
        )

    def loaded(self) -> Bytes:
        """The bytes of the whole box, filled where it is out of the tensor."""
        tensor = self.tensor
        content = np.empty(tensor.counts[::-1], tensor.element)
        if self.inside.shape != content.shape:
            content.view(np.uint8)[...] = 0
            if tensor.fills_nan:
                content[...] = np.nan
        content[self.part] = self.inside
        return content.reshape(-1).view(np.uint8)

    def elements_of(self, content: Bytes) -> NDArray[Any]:
        """Of the bytes of a whole box, the elements that lie in the tensor."""
        return content.view(self.tensor.element).reshape(self.tensor.counts[::-1])[self.part]

    def sectors(self) -> int:
        """Sectors of device memory that the part inside touches."""
        if self.is_empty:
            return 0
        *outer, inner = self.inside.shape
        starts: NDArray[np.int64] = np.full((1,), self._offset, np.int64)
        for size, stride in zip(outer, self.inside.strides[:-1], strict=True):
            steps = np.arange(size, dtype=np.int64) * stride
            starts = np.add.outer(starts, steps).reshape(-1)
        starts = np.sort(starts)
        first: NDArray[np.int64] = starts // SECTOR_BYTES
        last: NDArray[np.int64] = (starts + inner * self.inside.itemsize - 1) // SECTOR_BYTES
        # Rows that lie next to one another may share a sector.
        new = np.maximum(first[1:], np.maximum.accumulate(last)[:-1] + 1)
        rest = np.maximum(0, last[1:] - new + 1)
        return int(last[0] - first[0] + 1) + int(rest.sum())


def swizzled(start: int, tensor: TiledTensor) -> NDArray[np.int64]:
    """Where each 16 bytes of a box lie that is copied to an address of shared memory."""
    return _swizzled(start % 1024, tensor.box_bytes, tensor.swizzle) + start // 1024 * 1024


@lru_cache(maxsize=256)
def _swizzled(start: int, size: int, swizzle: int) -> NDArray[np.int64]:
    places = start + np.arange(0, size, CHUNK_BYTES, dtype=np.int64)
    return places ^ ((places >> 3) & _MOVED[swizzle])
