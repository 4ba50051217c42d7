"""What the copies of ``cp.async.bulk`` and ``cp.reduce.async.bulk`` do, for one thread each.

Both engines call this: a copy is issued with its addresses as they are in the registers, and
``Misuse`` says what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.bulk import BulkGroups
from wia_compiler.simulators.ptx.clusters import OFFSET_MASK, RANK_SHIFT
from wia_compiler.simulators.ptx.combiners import Combine
from wia_compiler.simulators.ptx.counting import SECTOR_BYTES
from wia_compiler.simulators.ptx.mbarrier import BARRIER_BYTES, Barriers, Misuse, Transfer
from wia_compiler.simulators.ptx.memory import (
    DEVICE_BASE,
    PARAM_WINDOW,
    SHARED_WINDOW,
    WINDOW_BYTES,
    DeviceMemory,
)
from wia_compiler.simulators.ptx.tensor_box import CHUNK_BYTES, Box, box_chunks
from wia_compiler.simulators.ptx.tensor_map import (
    MAP_ALIGNMENT,
    MAP_BYTES,
    TiledTensor,
    decoded_map,
)
from wia_compiler.simulators.ptx.traffic import Traffic
from wia_compiler.simulators.ptx.types import PtxType

Bytes = NDArray[np.uint8]
Chunks = NDArray[np.int64]
"""Numbers of 16 bytes in all shared memory."""
_POISON = np.uint64(0xFFFFFFFFFFFFFFFF)
"""What the bytes are that a copy is on its way to."""
_PERIOD = 1024
"""Bytes after which the widest swizzle repeats."""
TMA = "tma"
"""The space that bulk copies are counted under: no unit but the tensor memory accelerator's."""
TENSOR_ALIGNMENT = 128
"""Bytes that a box in shared memory is aligned to (PTX ISA, tensor copies)."""


class BulkChecks(Protocol):
    """What is told of bulk copies, where a launch is checked: threads of the machine's, chunks."""

    def bulk_read(self, number: int, thread: int, chunks: Chunks) -> None:
        """A copy out of shared memory begins."""
        ...

    def bulk_write(self, number: int, thread: int, chunks: Chunks) -> None:
        """A copy to shared memory begins."""
        ...

    def bulk_arrived(self, chunks: Chunks) -> None:
        """A copy to shared memory is done."""
        ...

    def bulk_global(
        self, number: int, thread: int, starts: NDArray[np.int64], size: int, *, writes: bool
    ) -> None:
        """A copy touches ``size`` bytes of device memory at each of some offsets."""
        ...

    def left_in_flight(self, number: int, thread: int, what: str, hint: str) -> None:
        """A kernel ends before something that it began."""
        ...


@dataclass
class BulkUnit:
    """The unit that copies, for some blocks whose shared memory lies in rows of one array.

    ``shared_bytes`` is how much of a row a block has. ``traffic`` is by instruction number,
    in a space of its own; ``checks`` are told of every copy.
    """

    device: DeviceMemory
    parameters: Bytes
    shared: Bytes
    row_bytes: int
    shared_bytes: int
    counts_memory: bool
    barriers: Barriers
    groups: BulkGroups = field(default_factory=BulkGroups)
    traffic: dict[tuple[int, str], Traffic] = field(default_factory=dict[tuple[int, str], Traffic])
    checks: BulkChecks | None = None
    cluster_blocks: int = 1

    def __post_init__(self) -> None:
        self._pairs = self.shared.view(np.uint64).reshape(-1, 2)

    def place(self, row: int, address: int, size: int, alignment: int, what: str) -> int:
        """The byte of all shared memory that an address of a block's, or a generic one, is."""
        if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_BYTES:
            address -= SHARED_WINDOW
        code = address >> RANK_SHIFT
        if 0 < code <= self.cluster_blocks and self.cluster_blocks > 1:
            row = row // self.cluster_blocks * self.cluster_blocks + code - 1
            address &= OFFSET_MASK
        if address % alignment:
            raise Misuse(f"{what}: shared address {address:#x} is not aligned to {alignment} bytes")
        if address + size > self.shared_bytes:
            raise Misuse(
                f"{what}: shared address {address:#x} is out of range for {size} bytes",
                f"a block has {self.shared_bytes} bytes of shared memory",
            )
        return row * self.row_bytes + address

    def span(self, address: int, size: int, what: str) -> int:
        """The byte of device memory where a copy of whole 16 bytes begins."""
        if size % CHUNK_BYTES:
            raise Misuse(f"a bulk copy of {size} bytes, expected a multiple of {CHUNK_BYTES}")
        if address % CHUNK_BYTES:
            raise Misuse(
                f"{what}: global address {address:#x} is not aligned to {CHUNK_BYTES} bytes"
            )
        offset = address - DEVICE_BASE
        if size and self.device.outside(np.array([offset]), size)[0]:
            near = self.device.nearest(address)
            raise Misuse(
                f"{what}: global address {address:#x} is out of range for {size} bytes",
                None
                if near is None
                else f"the nearest buffer is {near.name}: {near.size_bytes} bytes from "
                f"{near.address:#x}; this is byte {address - near.address} of it",
            )
        return offset

    def tensor(self, address: int) -> TiledTensor:
        """The tensor map at an address of device memory, of a parameter or of a constant."""
        if PARAM_WINDOW <= address < PARAM_WINDOW + WINDOW_BYTES:
            memory, start = self.parameters, address - PARAM_WINDOW
        else:
            memory, start = self.device.arena, address - DEVICE_BASE
        content = memory[start : start + MAP_BYTES] if start >= 0 else memory[:0]
        found = decoded_map(content.tobytes()) if len(content) == MAP_BYTES else None
        if found is None:
            raise Misuse(
                f"there is no tensor map at address {address:#x}",
                "pass a wia.ptx.TensorMap for a .param .align 64 .b8 [128], and its address",
            )
        if start % MAP_ALIGNMENT:
            raise Misuse(f"the tensor map at {address:#x} is not aligned to {MAP_ALIGNMENT} bytes")
        return found

    def box(self, tensor: TiledTensor, coordinates: Sequence[int]) -> Box:
        """A box of a tensor."""
        if len(coordinates) != len(tensor.sizes):
            raise Misuse(
                f"{len(coordinates)} coordinates for a tensor map of {len(tensor.sizes)} axes"
            )
        return Box(tensor, coordinates, self.device.arena, DEVICE_BASE)

    def load(
        self, number: int, row: int, thread: int, target: int, source: int, size: int, bar: int
    ) -> Chunks:
        """``cp.async.bulk`` from device to shared memory; which 16 bytes of that it writes."""
        start = self.span(source, size, "the source")
        chunks = self._run(row, target, size, "the destination")
        barrier = self.barrier(row, bar)
        self._count(number, size, _sectors(start, size) if self.counts_memory else 0)
        self._read_global(number, thread, [start], size)
        content = self.device.arena[start : start + size].copy()
        self._arrive_later(barrier, number, thread, chunks, content)
        return chunks

    def move(
        self, number: int, row: int, thread: int, target: int, source: int, size: int, bar: int
    ) -> Chunks:
        """``cp.async.bulk`` within shared memory; which 16 bytes of it are written."""
        chunks = self._run(row, target, size, "the destination")
        given = self._run(row, source, size, "the source")
        if self.checks is not None:
            self.checks.bulk_read(number, thread, given)
        barrier = self.barrier(row, bar)
        self._arrive_later(barrier, number, thread, chunks, self._read(given))
        return chunks

    def load_box(
        self, number: int, row: int, thread: int, target: int, map: int,
        coordinates: Sequence[int], bar: int,
    ) -> Chunks:  # fmt: skip
        """``cp.async.bulk.tensor`` to shared memory; which 16 bytes of that it writes."""
        tensor = self.tensor(map)
        chunks = self._box_chunks(row, target, tensor, "the destination")
        barrier = self.barrier(row, bar)
        box = self.box(tensor, coordinates)
        self._count(number, box.inside.nbytes, box.sectors() if self.counts_memory else 0)
        self._touch_box(number, thread, box, writes=False)
        self._arrive_later(barrier, number, thread, chunks, box.loaded())
        return chunks

    def store(
        self, number: int, row: int, thread: int, target: int, source: int, size: int,
        combine: Combine | None, type: PtxType | None,
    ) -> Chunks:  # fmt: skip
        """``cp.async.bulk`` and ``cp.reduce.async.bulk`` to device memory; what they read."""
        start = self.span(target, size, "the destination")
        chunks = self._run(row, source, size, "the source")
        self._count(number, size, _sectors(start, size) if self.counts_memory else 0)
        to = self.device.arena[start : start + size]

        def write(content: Bytes) -> None:
            if combine is None or type is None:
                to[...] = content
            else:
                old, value = to.view(type.value), content.view(type.value)
                old[...] = combine(old, value, value)

        if self.checks is not None:
            self.checks.bulk_read(number, thread, chunks)
            self.checks.bulk_global(number, thread, np.array([start]), size, writes=True)
        self.groups.begin(thread, number, lambda: self._read(chunks), write)
        return chunks

    def store_box(
        self, number: int, row: int, thread: int, map: int, coordinates: Sequence[int],
        source: int, combine: Combine | None,
    ) -> Chunks:  # fmt: skip
        """``cp.async.bulk.tensor`` to device memory; which 16 bytes of shared memory it reads."""
        tensor = self.tensor(map)
        chunks = self._box_chunks(row, source, tensor, "the source")
        box = self.box(tensor, coordinates)
        self._count(number, box.inside.nbytes, box.sectors() if self.counts_memory else 0)

        def write(content: Bytes) -> None:
            given = box.elements_of(content)
            box.inside[...] = given if combine is None else combine(box.inside, given, given)

        if self.checks is not None:
            self.checks.bulk_read(number, thread, chunks)
        self._touch_box(number, thread, box, writes=True)
        self.groups.begin(thread, number, lambda: self._read(chunks), write)
        return chunks

    def _read_global(self, number: int, thread: int, starts: Sequence[int], size: int) -> None:
        if self.checks is not None:
            self.checks.bulk_global(number, thread, np.array(starts), size, writes=False)

    def _touch_box(self, number: int, thread: int, box: Box, *, writes: bool) -> None:
        """Tell the checks of the rows of a box in device memory."""
        if self.checks is not None and not box.is_empty:
            starts, size = box.rows()
            self.checks.bulk_global(number, thread, starts, size, writes=writes)

    def end(self) -> None:
        """The blocks end: what goes out is done, what comes in is lost."""
        unread = self.groups.finish()
        if self.checks is None:
            return
        for each in unread:
            self.checks.left_in_flight(
                each.number,
                each.thread,
                "the shared memory that its bulk copy goes out of is read",
                "put cp.async.bulk.commit_group and cp.async.bulk.wait_group.read 0 at the end",
            )
        for _, transfer in self.barriers.in_flight():
            if transfer.size_bytes:
                self.checks.left_in_flight(
                    transfer.number,
                    transfer.thread,
                    "its bulk copy to shared memory is done",
                    "wait for the phase of its mbarrier",
                )

    def prefetch_box(self, map: int, coordinates: Sequence[int]) -> None:
        """``cp.async.bulk.prefetch.tensor``: nothing but its checks."""
        self.box(self.tensor(map), coordinates)

    def barrier(self, row: int, address: int) -> int:
        """The place of a barrier that is initialised."""
        place = self.place(row, address, BARRIER_BYTES, BARRIER_BYTES, "the mbarrier")
        self.barriers.word(place)
        return place

    def _run(self, row: int, address: int, size: int, what: str) -> Chunks:
        """Bytes that follow one another."""
        if size % CHUNK_BYTES:
            raise Misuse(f"a bulk copy of {size} bytes, expected a multiple of {CHUNK_BYTES}")
        place = self.place(row, address, size, CHUNK_BYTES, what)
        return np.arange(place // CHUNK_BYTES, (place + size) // CHUNK_BYTES)

    def _box_chunks(self, row: int, address: int, tensor: TiledTensor, what: str) -> Chunks:
        place = self.place(row, address, tensor.box_bytes, TENSOR_ALIGNMENT, what)
        start = place // self.row_bytes * self.row_bytes
        chunks = box_chunks(place - start, start, tensor)
        if tensor.swizzle and (place + tensor.box_bytes) % _PERIOD:
            last = int(chunks.max()) * CHUNK_BYTES + CHUNK_BYTES
            if last > start + self.shared_bytes:
                raise Misuse(
                    f"{what}: a swizzled box leaves the shared memory of its block",
                    f"align it to {_PERIOD} bytes",
                )
        return chunks

    def _read(self, chunks: Chunks) -> Bytes:
        return self._pairs[chunks].reshape(-1).view(np.uint8)

    def _arrive_later(
        self, barrier: int, number: int, thread: int, chunks: Chunks, content: Bytes
    ) -> None:
        checks = self.checks
        if checks is not None:
            checks.bulk_write(number, thread, chunks)
        pairs, given = self._pairs, content.view(np.uint64).reshape(-1, 2)
        pairs[chunks] = _POISON

        def land() -> None:
            pairs[chunks] = given
            if checks is not None:
                checks.bulk_arrived(chunks)

        self.barriers.begin(barrier, Transfer(len(content), 0, land, thread=thread, number=number))

    def _count(self, number: int, size: int, sectors: int) -> None:
        if not self.counts_memory:
            return
        traffic = self.traffic.setdefault((number, TMA), Traffic())
        traffic.requests += 1
        traffic.sectors += sectors
        traffic.ideal_sectors += -(-size // SECTOR_BYTES)


def _sectors(start: int, size: int) -> int:
    return (start + size - 1) // SECTOR_BYTES - start // SECTOR_BYTES + 1 if size else 0
