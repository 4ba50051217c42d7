"""Memory and threads of a launch in progress, and what its accesses amount to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.errors import Diagnostic
from wia_compiler.base.source import Source
from wia_compiler.simulators.ptx.bulk_copies import BulkUnit
from wia_compiler.simulators.ptx.checks import Checks
from wia_compiler.simulators.ptx.cluster_barrier import ClusterBarrier
from wia_compiler.simulators.ptx.clusters import OFFSET_MASK, RANK_SHIFT
from wia_compiler.simulators.ptx.copies import Copies
from wia_compiler.simulators.ptx.counting import ideal_sectors, sectors, wavefronts
from wia_compiler.simulators.ptx.faults import PtxFault
from wia_compiler.simulators.ptx.jitter import Jitter
from wia_compiler.simulators.ptx.mbarrier import Barriers
from wia_compiler.simulators.ptx.memory import (
    DEVICE_BASE,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_WINDOW,
    WINDOW_BYTES,
    DeviceMemory,
    elements,
)
from wia_compiler.simulators.ptx.product_checks import ProductChecks
from wia_compiler.simulators.ptx.products import Products
from wia_compiler.simulators.ptx.syntax import Instruction
from wia_compiler.simulators.ptx.threads import WARP, Array, Threads
from wia_compiler.simulators.ptx.traffic import Traffic

Offsets = NDArray[np.int64]
_WINDOWS = (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW), ("param", PARAM_WINDOW))


@dataclass
class Machine:
    """One chunk of a launch: ``threads`` of some blocks with their memories.

    ``shared`` has a row of bytes for each block, ``local`` one for each thread; ``limits`` says how
    many of a row's bytes there are, by space. ``traffic`` is by (instruction number, space).
    ``checks`` are told every access, where a launch has them. ``bulk`` is what copies in bulk,
    ``barriers`` the mbarriers that it works for.
    """

    source: Source
    threads: Threads
    device: DeviceMemory
    parameters: NDArray[np.uint8]
    shared: NDArray[np.uint8]
    local: NDArray[np.uint8]
    copies: Copies
    bulk: BulkUnit
    cluster: ClusterBarrier
    cluster_blocks: int = 1
    counts_memory: bool = True
    traffic: dict[tuple[int, str], Traffic] = field(default_factory=dict[tuple[int, str], Traffic])
    checks: Checks | None = None
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    product_checks: ProductChecks | None = None
    jitter: Jitter | None = None
    products: Products = field(init=False)

    def __post_init__(self) -> None:
        self.products = Products(self.threads.count // WARP)

    @property
    def barriers(self) -> Barriers:
        """The mbarriers in shared memory."""
        return self.bulk.barriers

    @property
    def changes(self) -> int:
        """A number that goes up whenever threads that wait should look again."""
        return self.bulk.barriers.changes + self.cluster.changes

    def fault(self, instruction: Instruction, message: str, hint: str | None = None) -> NoReturn:
        """End the launch with an error at an instruction."""
        raise PtxFault(Diagnostic(message, instruction.span, hint, self.source))

    def thread_name(self, number: int) -> str:
        """A thread as messages say it."""
        specials = self.threads.specials
        thread = tuple(int(specials[f"%tid.{axis}"][number]) for axis in "xyz")
        return f"thread {thread} of block {self.block_name(number)}"

    def block_name(self, number: int) -> str:
        """The block of a thread as messages say it."""
        specials = self.threads.specials
        return str(tuple(int(specials[f"%ctaid.{axis}"][number]) for axis in "xyz"))

    def spaces(
        self, space: str, addresses: Array, lanes: Offsets
    ) -> list[tuple[str, Offsets, Offsets]]:
        """Accesses taken apart by space: (space, lanes, offsets in that memory).

        A generic address lies in the window of shared memory, of local memory or of parameters,
        else in device memory.
        """
        if space == "generic":
            found: list[tuple[str, Offsets, Offsets]] = []
            windows = addresses // np.uint64(WINDOW_BYTES)
            rest = np.ones(len(addresses), bool)
            for name, start in _WINDOWS:
                inside = windows == start // WINDOW_BYTES
                if inside.any():
                    offsets = (addresses[inside] - np.uint64(start)).astype(np.int64)
                    found.append((name, lanes[inside], offsets))
                    rest &= ~inside
            if rest.any():
                found += self.spaces("global", addresses[rest], lanes[rest])
            return found
        offsets = addresses.astype(np.int64)
        if space in ("global", "const"):
            return [("global", lanes, offsets - DEVICE_BASE)]
        return [(space, lanes, offsets)]

    def places(
        self, instruction: Instruction, number: int, space: str, lanes: Offsets, offsets: Offsets,
        size: int, inside: int | None = None,
    ) -> tuple[NDArray[np.uint8], Offsets]:  # fmt: skip
        """The bytes of a memory and where in them each access lies; faults where it lies nowhere.

        ``size`` is that of a whole access; it must be aligned to it. The first ``inside`` bytes of
        it (all, if left out) must lie in a buffer.
        """
        memory, where = self.located(instruction, space, lanes, offsets, size, inside)
        if self.counts_memory and space in ("global", "shared", "local"):
            self._count(number, space, lanes, offsets, size)
        # Where a copy begins is checked with the number of bytes that it reads.
        if self.checks is not None and (instruction.opcode != "cp" or space == "shared"):
            self.checks.access(instruction, number, space, lanes, offsets, size)
        return memory, where

    def located(
        self, instruction: Instruction, space: str, lanes: Offsets, offsets: Offsets, size: int,
        inside: int | None = None,
    ) -> tuple[NDArray[np.uint8], Offsets]:  # fmt: skip
        """The same, without counting it and without telling the checks."""
        threads = self.threads
        whose = None
        if space == "shared" and self.cluster_blocks > 1 and reaches_cluster(instruction):
            whose, offsets = self.owners(threads.block_of[lanes], offsets)
            self.check_owners(instruction, lanes, whose)
        crooked = offsets % size != 0
        if crooked.any():
            at = int(np.argmax(crooked))
            self._misplaced(instruction, space, lanes[at], offsets[at], size, "is not aligned to")
        memory, start = self._memory(space, threads, lanes)
        if space == "global":
            wrong = self.device.outside(offsets, size if inside is None else inside)
        else:
            wrong = (offsets < 0) | (offsets + size > self._limit(space, memory))
        if wrong.any():
            at = int(np.argmax(wrong))
            self._misplaced(instruction, space, lanes[at], offsets[at], size, "is out of range for")
        if whose is not None:
            start = whose * self.shared.shape[-1]
        return memory.reshape(-1), start + offsets

    def owners(self, blocks: Offsets, offsets: Offsets) -> tuple[Offsets, Offsets]:
        """Whose shared memory addresses of blocks are in, and where in it; -1 for no block."""
        code = offsets >> RANK_SHIFT
        first = blocks // self.cluster_blocks * self.cluster_blocks
        named = np.where(code <= self.cluster_blocks, first + code - 1, -1)
        return np.where(code == 0, blocks, named), offsets & OFFSET_MASK

    def check_owners(self, instruction: Instruction, lanes: Offsets, whose: Offsets) -> None:
        """Refuse addresses of blocks that the cluster does not have."""
        if (whose < 0).any():
            name = self.thread_name(int(lanes[np.argmax(whose < 0)]))
            self.fault(instruction, f"an address of no block of the cluster, in {name}")

    def shared_chunks(
        self, instruction: Instruction, number: int, warps: Offsets, addresses: Offsets
    ) -> NDArray[np.uint32]:
        """16 bytes at each of a row of addresses in shared memory, for each of some warps.

        ``wgmma`` reads them past the counters of loads; faults where one is out of range.
        """
        size, limit = 16, self._limit("shared", self.shared)
        wrong = (addresses < 0) | (addresses + size > limit)
        if wrong.any():
            row, at = np.argwhere(wrong)[0]
            first = int(warps[row]) * WARP
            self._misplaced(
                instruction, "shared", first, int(addresses[row, at]), size, "is out of range for"
            )
        # The checks need a thread for each chunk: the lanes of the warp in turn.
        first = np.repeat(warps * WARP, addresses.shape[1])
        lanes = first + np.arange(len(first)) % WARP
        if self.checks is not None:
            self.checks.access(instruction, number, "shared", lanes, addresses.reshape(-1), size)
        starts = self.threads.block_of[warps * WARP] * self.shared.shape[-1]
        places = (starts[:, None] + addresses) // size
        chunks = self.shared.reshape(-1, size).view(np.uint32)
        found: NDArray[np.uint32] = chunks[places]
        if self.product_checks is not None:
            self.product_checks.reads(self, number, warps, places, found)
        return found

    def _limit(self, space: str, memory: NDArray[np.uint8]) -> int:
        return self.limits.get(space, memory.shape[-1])

    def _memory(
        self, space: str, threads: Threads, lanes: Offsets
    ) -> tuple[NDArray[np.uint8], Offsets | int]:
        match space:
            case "shared":
                return self.shared, threads.block_of[lanes] * self.shared.shape[-1]
            case "local" | "frame":
                return self.local, lanes * self.local.shape[-1]
            case "param":
                return self.parameters, 0
            case _:
                return self.device.arena, 0

    def _misplaced(
        self, instruction: Instruction, space: str, lane: int, offset: int, size: int, what: str
    ) -> NoReturn:
        address = int(offset)
        hint = None
        if space == "global":
            address += DEVICE_BASE
            near = self.device.nearest(address)
            if near is not None:
                hint = (
                    f"the nearest buffer is {near.name}: {near.size_bytes} bytes from "
                    f"{near.address:#x}; this is byte {address - near.address} of it"
                )
        elif space == "shared":
            hint = f"a block has {self._limit(space, self.shared)} bytes of shared memory"
        self.fault(
            instruction,
            f"{space} address {address:#x} {what} {size} bytes, in {self.thread_name(int(lane))}",
            hint,
        )

    def _count(self, number: int, space: str, lanes: Offsets, offsets: Offsets, size: int) -> None:
        traffic = self.traffic.setdefault((number, space), Traffic(size_bytes=size))
        count = self.threads.count
        active = np.zeros(count, bool)
        active[lanes] = True
        where = np.zeros(count, np.int64)
        where[lanes] = offsets & OFFSET_MASK if space == "shared" else offsets
        rows, places = active.reshape(-1, WARP), where.reshape(-1, WARP)
        asked = rows.any(axis=1)
        if not asked.all():
            rows, places = rows[asked], places[asked]
        traffic.requests += len(rows)
        if space == "shared":
            taken, least = wavefronts(places, rows, size)
            traffic.wavefronts += int(taken.sum())
            traffic.ideal_wavefronts += int(least.sum())
        else:
            traffic.sectors += int(sectors(places, rows).sum())
            traffic.ideal_sectors += int(ideal_sectors(rows, size).sum())


def reaches_cluster(instruction: Instruction) -> bool:
    """Whether an instruction may touch the shared memory of other blocks."""
    words = instruction.modifiers
    return "shared::cluster" in words or not {"shared", "shared::cta"} & set(words)


Step = Callable[[Machine], None]


def loaded(memory: NDArray[np.uint8], places: Offsets, dtype: np.dtype[Any]) -> Array:
    """Elements at byte positions, which are multiples of their size."""
    return elements(memory, dtype)[places // dtype.itemsize]


def stored(memory: NDArray[np.uint8], places: Offsets, values: Array, dtype: np.dtype[Any]) -> None:
    """Put elements at byte positions, which are multiples of their size."""
    elements(memory, dtype)[places // dtype.itemsize] = values
