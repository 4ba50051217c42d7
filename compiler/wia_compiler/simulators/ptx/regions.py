"""Arrays of a launch as buffers of device memory: those that share memory share a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.memory import DeviceMemory

Array = NDArray[Any]


@dataclass(frozen=True)
class _Region:
    start: int
    stop: int
    arrays: tuple[int, ...]


def _regions(arrays: Sequence[Array]) -> list[_Region]:
    """Ranges of this process's memory that hold the arrays; those that overlap are one."""
    ends = [np.lib.array_utils.byte_bounds(array) for array in arrays]
    found: list[_Region] = []
    for number in sorted(range(len(arrays)), key=lambda each: ends[each]):
        start, stop = ends[number]
        if found and start < found[-1].stop:
            last = found.pop()
            found.append(_Region(last.start, max(stop, last.stop), (*last.arrays, number)))
        else:
            found.append(_Region(start, stop, (number,)))
    return found


class DeviceArrays:
    """Arrays laid into device memory; ``addresses`` has the one of each first element."""

    def __init__(self, device: DeviceMemory, arrays: Sequence[Array], names: Sequence[str]):
        self._device = device
        self._arrays = arrays
        self.addresses = [0] * len(arrays)
        self._places: list[tuple[int, _Region]] = []
        for region in _regions(arrays):
            label = ", ".join(names[number] for number in region.arrays)
            base = device.reserve(label, region.stop - region.start)
            self._places.append((len(device.places) - 1, region))
            for number in region.arrays:
                first = arrays[number].__array_interface__["data"][0]
                self.addresses[number] = base + first - region.start

    def fill(self) -> None:
        """Copy the arrays to their places, once these are laid out."""
        for place, region in self._places:
            content = self._device.content(place)
            for number in region.arrays:
                _view(content, region, self._arrays[number])[...] = self._arrays[number]

    def copy_back(self) -> list[int]:
        """Write what changed into the arrays; numbers of read-only arrays that were written."""
        refused: list[int] = []
        for place, region in self._places:
            content = self._device.content(place)
            for number in region.arrays:
                array, made = self._arrays[number], _view(content, region, self._arrays[number])
                if array.flags.writeable:
                    array[...] = made
                elif array.tobytes() != made.tobytes():
                    refused.append(number)
        return refused


def _view(content: NDArray[np.uint8], region: _Region, array: Array) -> Array:
    """The bytes of a region under an array's own shape, strides and dtype."""
    offset = array.__array_interface__["data"][0] - region.start
    return np.ndarray(array.shape, array.dtype, content.data, offset, array.strides)
