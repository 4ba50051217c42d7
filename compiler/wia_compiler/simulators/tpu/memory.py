"""The machine's memories: HBM tensors and rings of tiles; bounds checked, poison until written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.tpu.meaning import Tile, convert
from wia_compiler.dialects.tpu.program import Buffer, Tensor, View, Window

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Registers = Mapping[str, int]


class MemoryFault(Exception):
    """An access that the machine would not survive; the simulator adds the line."""

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass
class HbmTensor:
    """One array in HBM; ``written`` marks its elements that hold something (``None``: all do)."""

    declaration: Tensor
    array: Array
    written: Array | None

    @staticmethod
    def allocate(declaration: Tensor, given: Array | None) -> HbmTensor:
        """The caller's array for an input or output, fresh memory for a temporary."""
        dtype = DTYPES[declaration.dtype].numpy
        array = np.empty(declaration.shape, dtype) if given is None else given
        written = None if declaration.role == "input" else np.zeros(declaration.shape, np.bool_)
        return HbmTensor(declaration, array, written)

    def view(self, view: View) -> HbmTensor:
        """The same memory under the view's shape; a view that leaves it is a fault."""
        first, last = _reach(view.shape, view.strides)
        own = [stride // self.array.itemsize for stride in self.array.strides]
        low, high = _reach(self.array.shape, own)
        if 0 not in view.shape and (first < low or last > high or self.array.size == 0):
            raise MemoryFault(
                f"out of bounds: {view.name} shows elements {first} to {last} of {view.tensor}, "
                f"which has {low} to {high}"
            )
        return HbmTensor(
            self.declaration,
            _strided(self.array, view),
            None if self.written is None else _strided(self.written, view),
        )

    def read(self, window: Window, registers: Registers, dtype: str) -> Tile:
        """The window's tile as rows × columns of ``dtype``; reading poison is a fault."""
        place = self.place(window, registers)
        if self.written is not None and not bool(np.all(self.written[place])):
            missing = int(np.count_nonzero(~self.written[place]))
            raise MemoryFault(
                f"reads {missing} elements of {window.tensor} that nothing has written",
                "store to them first",
            )
        return convert(as_tile(self.array[place], window), dtype)

    def write(self, window: Window, registers: Registers, tile: Tile) -> int:
        """Put a tile into the window, one row or column repeated to fill it; the bytes written."""
        place = self.place(window, registers)
        view = as_tile(self.array[place], window)
        fits = zip(tile.shape, view.shape, strict=True)
        if not all(size in (1, wanted) for size, wanted in fits):
            raise MemoryFault(
                f"stores a tile of {_by(tile.shape)} to a window of {_by(view.shape)}"
            )
        view[...] = convert(tile, self.declaration.dtype)
        assert self.written is not None
        self.written[place] = True
        return view.size * self.array.itemsize

    def tile_shape(self, window: Window, registers: Registers) -> tuple[int, int]:
        """Rows and columns of the window's tile."""
        rows, columns = as_tile(self.array[self.place(window, registers)], window).shape
        return rows, columns

    def place(self, window: Window, registers: Registers) -> tuple[Any, ...]:
        """The window as an index that gives a view; what lies outside an axis is a fault."""
        found: list[slice] = []
        for number, (axis, size) in enumerate(zip(window.axes, self.array.shape, strict=True)):
            start = axis.start.constant
            for name, factor in axis.start.terms:
                start += registers[name] * factor
            stop = start + (1 if axis.length is None else axis.length)
            if stop > size and axis.clip and start <= size:
                stop = size
            if stop > size:
                span = str(start) if axis.length is None else f"{start} to {stop - 1}"
                raise MemoryFault(
                    f"out of bounds: {window.tensor} has {size} elements on axis {number}, the "
                    f"window takes {span}",
                    "write clip after the length to stop at the axis's end",
                )
            found.append(slice(start, stop))
        return (*found, ...)


def _reach(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Positions of the elements that lie first and last in memory, from element 0, 0, …"""
    steps = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)


def _strided(array: Array, view: View) -> Array:
    strides = [stride * array.itemsize for stride in view.strides]
    return np.lib.stride_tricks.as_strided(array, view.shape, strides)


def as_tile(view: Array, window: Window) -> Array:
    """A view of a window's elements as rows × columns."""
    runs = [n for axis, n in zip(window.axes, view.shape, strict=True) if axis.length is not None]
    shape = (1, 1) if not runs else (1, runs[0]) if len(runs) == 1 else (runs[0], runs[-1])
    keep = tuple(slice(None) if axis.length is not None else 0 for axis in window.axes)
    tile = view[(*keep, ...)]  # the ellipsis keeps it a view where no run is left
    if len(runs) < 2:
        tile = tile[(None,) * (2 - len(runs))]
    assert tile.shape == shape
    return tile.T if window.transposed else tile


@dataclass
class Ring:
    """The slots of a buffer; what fills it takes the next one, readers see the last one filled."""

    declaration: Buffer
    slot: int = -1
    tile: Tile | None = None
    keys: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        name = self.declaration.name
        self.keys = tuple(f"{name}.{number}" for number in range(self.declaration.slots))

    @property
    def key(self) -> str:
        """The name of the slot filled last, for the clock."""
        return self.keys[self.slot]

    def read(self) -> Tile:
        """The tile filled last; an empty buffer is a fault."""
        if self.tile is None:
            raise MemoryFault(
                f"reads {self.declaration.name} before anything was written to it",
                "fill it first (dma_in, clear or a vector instruction)",
            )
        return self.tile

    def fill(self, tile: Tile) -> None:
        """Put a tile into the next slot."""
        rows, columns = tile.shape
        buffer = self.declaration
        if rows > buffer.rows or columns > buffer.columns:
            raise MemoryFault(
                f"out of bounds: a tile of {rows}x{columns} does not fit {buffer.name}, which is "
                f"{buffer.rows}x{buffer.columns}"
            )
        self.slot = (self.slot + 1) % buffer.slots
        self.tile = tile


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
