"""The threads that run together: their registers, and which of them take part in a step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.types import PtxType

WARP = 32
Array = NDArray[Any]
Mask = NDArray[np.bool_]
Size = tuple[int, int, int]


class Threads:
    """Some blocks of a launch by their numbers, thread by thread; each is filled up to whole warps.

    Registers are arrays with one element a thread, kept as unsigned integers of their width (bool
    for predicates). Arrays are never changed in place, so that registers may share one.
    """

    def __init__(self, numbers: Array, grid: Size, block: Size):
        block_count = len(numbers)
        self.threads_per_block = block[0] * block[1] * block[2]
        self.warps_per_block = -(-self.threads_per_block // WARP)
        padded = self.warps_per_block * WARP
        self.count = block_count * padded
        within = np.tile(np.arange(padded, dtype=np.uint32), block_count)
        self.block_of = np.repeat(np.arange(block_count), padded)
        blocks = numbers.astype(np.uint32)[self.block_of]
        self.exists: Mask = within < self.threads_per_block
        self.lane = within % WARP
        self.registers: dict[str, Array] = {}
        self.mask: Mask = self.exists
        self.is_full = False
        self.specials = _specials(within, blocks, grid, block)

    def read(self, name: str) -> Array:
        """What a register holds; 0 where nothing was written yet."""
        value = self.registers.get(name)
        if value is not None:
            return value
        special = self.specials.get(name)
        return special if special is not None else np.zeros((), np.uint64)

    def write(self, name: str, value: Array, type: PtxType) -> None:
        """Give a register a new value in the threads that take part."""
        if value.shape != (self.count,):
            value = np.broadcast_to(value, (self.count,))
        if not self.is_full:
            old = self.registers.get(name)
            value = np.where(self.mask, value, old if old is not None else type.holder.type(0))
        self.registers[name] = value

    def warps(self, values: Array) -> Array:
        """Values of the threads as one row a warp."""
        return values.reshape(-1, WARP)


def _specials(within: Array, blocks: Array, grid: Size, block: Size) -> dict[str, Array]:
    lane = within % np.uint32(WARP)
    one = np.uint32(1)
    found = {
        "%laneid": lane,
        "%warpid": within // np.uint32(WARP),
        "%nwarpid": np.full((), -(-block[0] * block[1] * block[2] // WARP), np.uint32),
        "%smid": np.zeros((), np.uint32),
        "%nsmid": np.ones((), np.uint32),
        "%gridid": np.zeros((), np.uint64),
        "%lanemask_eq": one << lane,
        "%lanemask_lt": (one << lane) - one,
        "%lanemask_le": (one << lane) | ((one << lane) - one),
        "%lanemask_gt": ~((one << lane) | ((one << lane) - one)),
        "%lanemask_ge": ~((one << lane) - one),
        "%total_smem_size": np.zeros((), np.uint32),
        "%clock": np.zeros((), np.uint32),
        "%clock64": np.zeros((), np.uint64),
        "%globaltimer": np.zeros((), np.uint64),
        **{name: np.zeros((), np.uint32) for name in ("%globaltimer_lo", "%globaltimer_hi")},
        **{name: np.zeros((), np.uint32) for name in ("%clock_hi", "%dynamic_smem_size")},
        "WARP_SZ": np.full((), WARP, np.uint32),
    }
    for name, place, size in (("tid", within, block), ("ctaid", blocks, grid)):
        x, y = np.uint32(size[0]), np.uint32(size[1])
        places = (place % x, place // x % y, place // (x * y))
        for axis, value, extent in zip("xyz", places, size, strict=True):
            found[f"%{name}.{axis}"] = value
            found[f"%n{name}.{axis}"] = np.full((), extent, np.uint32)
    return found
