"""The memory that threads see: device buffers, shared and local memory, constants, parameters.

Generic addresses tell the spaces apart by their place: shared and local memory lie in windows of
their own, below everything in device memory. Buffers lie apart, so that an access beyond the end
of one meets nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Addresses = NDArray[np.uint64]

SHARED_WINDOW = 1 << 32
LOCAL_WINDOW = 2 << 32
DEVICE_BASE = 3 << 32
WINDOW_BYTES = 1 << 32
PARAM_WINDOW = 1 << 60
"""Parameters by generic addresses (``cvta.param``): beyond all device memory."""
_GRANULE = 256
"""Buffers begin at multiples of it, as ``cudaMalloc`` promises, and lie at least so far apart."""


@dataclass(frozen=True)
class Place:
    """A named buffer of device memory: where it lies and how long it is."""

    name: str
    address: int
    size_bytes: int


class DeviceMemory:
    """All buffers of a launch in one arena of bytes."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self._contents: list[Bytes | None] = []
        self._next = 0
        self.arena: Bytes = np.zeros(0, np.uint8)
        self.ends: NDArray[np.int64] = np.zeros(0, np.int64)

    def add(self, name: str, content: Bytes) -> int:
        """Reserve a buffer with these bytes; its address."""
        address = self.reserve(name, len(content))
        self._contents[-1] = content
        return address

    def reserve(self, name: str, size_bytes: int) -> int:
        """Reserve a buffer, to be filled once all are laid out; its address."""
        address = DEVICE_BASE + self._next
        self.places.append(Place(name, address, size_bytes))
        self._contents.append(None)
        self._next += -(-size_bytes // _GRANULE) * _GRANULE + _GRANULE
        return address

    def close(self) -> None:
        """Lay the buffers out; nothing can be added afterwards."""
        self.arena = np.zeros(max(self._next, _GRANULE), np.uint8)
        # For each granule, where the buffer that it belongs to ends; 0 where there is none.
        self.ends = np.zeros(len(self.arena) // _GRANULE + 1, np.int64)
        for place, content in zip(self.places, self._contents, strict=True):
            start = place.address - DEVICE_BASE
            end = start + place.size_bytes
            if content is not None:
                self.arena[start:end] = content
            self.ends[start // _GRANULE : -(-end // _GRANULE)] = end

    def put(self, address: int, content: bytes) -> None:
        """Write bytes to device memory that is laid out."""
        start = address - DEVICE_BASE
        self.arena[start : start + len(content)] = np.frombuffer(content, np.uint8)

    def content(self, number: int) -> Bytes:
        """The bytes of a buffer as they are now."""
        place = self.places[number]
        start = place.address - DEVICE_BASE
        return self.arena[start : start + place.size_bytes]

    def outside(self, offsets: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
        """Which accesses of ``size`` bytes at offsets of the arena lie in no buffer."""
        inside = (offsets >= 0) & (offsets < len(self.arena))
        granules = np.where(inside, offsets, 0) // _GRANULE
        return ~inside | (offsets + size > self.ends[granules])

    def nearest(self, address: int) -> Place | None:
        """The buffer that ends or begins closest to an address."""

        def distance(place: Place) -> int:
            return max(place.address - address, address - place.address - place.size_bytes + 1, 0)

        return min(self.places, key=distance, default=None)


def window_of(address: int) -> str:
    """The space that a generic address lies in."""
    if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_BYTES:
        return "shared"
    if LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW_BYTES:
        return "local"
    return "global"


def elements(memory: Bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Bytes as elements of a type, the last incomplete one left out."""
    return memory[: len(memory) // dtype.itemsize * dtype.itemsize].view(dtype)
