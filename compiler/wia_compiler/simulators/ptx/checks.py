"""Checks of a launch: reads of what nothing wrote, races, copies that were not waited for.

Accesses of two threads to one byte, one of them a write and not both atomic, that nothing puts in
order (``Order``) are a race, whatever order the simulator happens to run them in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.check_texts import Texts
from wia_compiler.simulators.ptx.findings import Findings
from wia_compiler.simulators.ptx.graph import WMMA, waits_for_block
from wia_compiler.simulators.ptx.memory import DEVICE_BASE, DeviceMemory
from wia_compiler.simulators.ptx.operands import Scope
from wia_compiler.simulators.ptx.order import Order
from wia_compiler.simulators.ptx.product_checks import ProductChecks
from wia_compiler.simulators.ptx.shadow import (
    COPIES,
    STRONG,
    WRITES,
    Flags,
    Integers,
    Shadow,
    Slot,
    described,
    kind_of,
    number_of,
)
from wia_compiler.simulators.ptx.syntax import Immediate, Instruction
from wia_compiler.simulators.ptx.tensor_box import CHUNK_BYTES
from wia_compiler.simulators.ptx.threads import WARP, Mask, Size, Threads

_STRONG_WORDS = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
_READERS = frozenset({"ld", "ldu"})
_WRITERS = frozenset({"st", "stmatrix", "wmma.store"})
_ATOMICS = frozenset({"atom", "red"})


def piece_bytes_of(instructions: Sequence[Instruction]) -> int:
    """The smallest number of bytes that an instruction touches at once, at most 16."""
    smallest = 16
    for each in instructions:
        if each.opcode == "cp" and "bulk" in each.modifiers:
            continue
        if each.opcode == "cp":
            sizes = [o.value for o in each.operands if isinstance(o, Immediate)]
            smallest = min([smallest, *(int(size) for size in sizes if size in (4, 8))])
        elif each.opcode in {*_READERS, "st", *_ATOMICS, *WMMA}:
            bits = [int(w[1:]) for w in each.modifiers if w[0] in "bsuf" and w[1:].isdigit()]
            halves = 2 if any(w.startswith(("f16", "bf16")) for w in each.modifiers) else 16
            smallest = min([smallest, halves, *(max(1, bit // 8) for bit in bits)])
    return smallest


def _kind(instruction: Instruction, space: str) -> int:
    opcode = instruction.opcode
    if opcode in _ATOMICS:
        return WRITES | STRONG
    if opcode == "cp":
        return WRITES | COPIES if space == "shared" else 0
    kind = WRITES if opcode in _WRITERS else 0
    return kind if _STRONG_WORDS.isdisjoint(instruction.modifiers) else kind | STRONG


@dataclass(frozen=True)
class _Access:
    """One step of an instruction: for each piece of memory the thread and where it lies."""

    instruction: Instruction
    number: int
    space: str
    kind: int
    threads: Integers
    pieces: Integers
    offsets: Integers

    def at(self, index: int) -> tuple[int, int]:
        """A thread of it and the offset that this thread touches."""
        return int(self.threads[index]), int(self.offsets[index])


class Checks:
    """The checks of one launch; ``begin`` is called for each chunk of its blocks.

    ``written`` says of buffers whose content does not count which of their bytes are written: by
    the buffer's address; ``smallest_element`` is that of the tensor maps.
    """

    def __init__(
        self,
        findings: Findings,
        code: Sequence[Instruction],
        device: DeviceMemory,
        grid: Size,
        block: Size,
        written: Mapping[int, NDArray[np.bool_]],
        smallest_element: int = 16,
    ):
        per_block = -(-(block[0] * block[1] * block[2]) // WARP) * WARP
        wide = any(
            each.opcode == "mbarrier" or (waits_for_block(each) and len(each.operands) > 1)
            for each in code
        )
        self.order = Order(grid[0] * grid[1] * grid[2], per_block, wide=wide)
        self._findings = findings
        self._code = code
        self._texts = Texts(code, device, grid, block, per_block)
        self._piece = min(piece_bytes_of(code), smallest_element)
        self._written = written
        self._global = Shadow(1, len(device.arena), self._piece, written=True)
        for address, known in written.items():
            start = (address - DEVICE_BASE) // self._piece
            rest = np.ones(-len(known) % self._piece, bool)
            pieces = np.append(known, rest).reshape(-1, self._piece).all(axis=1)
            count = -(-known.size // self._piece)
            self._global.written[start : start + count] = pieces

    def begin(
        self, threads: Threads, first_block: int, shared_bytes: int, local_bytes: int
    ) -> None:
        """Go on to other blocks, whose shared and local memory nothing was written to."""
        self.order.begin(threads, first_block)
        self._threads = threads
        blocks = threads.count // self.order.per_block
        self._shared = Shadow(blocks, shared_bytes, self._piece, written=False)
        self._local = np.zeros((threads.count, -(-local_bytes // self._piece)), bool)

    def products(self, scope: Scope) -> ProductChecks:
        """Checks of the products of warpgroups, for the threads that begin."""
        return ProductChecks(self._findings, self._code, scope, self._threads.count // WARP)

    def finish(self) -> None:
        """Say of the buffers that began unwritten what is written now."""
        for address, known in self._written.items():
            start = (address - DEVICE_BASE) // self._piece
            count = -(-len(known) // self._piece)
            pieces = self._global.written[start : start + count]
            known[...] = np.repeat(pieces, self._piece)[: len(known)]

    def access(
        self, instruction: Instruction, number: int, space: str, lanes: Integers,
        offsets: Integers, size: int,
    ) -> None:  # fmt: skip
        """Threads touch ``size`` bytes of a memory each, at offsets of their own part of it."""
        if not len(lanes) or space not in ("shared", "global", "local"):
            return
        self.order.time += 1
        kind = _kind(instruction, space)
        if space == "local":
            self._touch_local(instruction, number, lanes, offsets, size, kind)
        else:
            self._touch(instruction, number, space, lanes, offsets, size, kind)

    def arrived(self, places: Integers) -> None:
        """Copies are done, to places of the shared memory of all blocks: a row of bytes each."""
        self.order.time += 1
        rows, offsets = np.divmod(places[:, 0], self._shared.row_bytes)
        pieces = self._shared.pieces(rows, offsets, places.shape[1])
        self._shared.arrive(pieces.reshape(-1), self.order.time)

    def bulk_read(self, number: int, thread: int, chunks: Integers) -> None:
        """A bulk copy reads 16 bytes of shared memory each."""
        self._bulk(number, "shared", thread, chunks * CHUNK_BYTES, CHUNK_BYTES, 0)

    def bulk_write(self, number: int, thread: int, chunks: Integers) -> None:
        """A bulk copy to 16 bytes of shared memory each begins."""
        self._bulk(number, "shared", thread, chunks * CHUNK_BYTES, CHUNK_BYTES, WRITES | COPIES)

    def bulk_arrived(self, chunks: Integers) -> None:
        """A bulk copy to shared memory is done."""
        self.arrived(chunks[:, None] * CHUNK_BYTES + np.arange(CHUNK_BYTES))

    def bulk_global(
        self, number: int, thread: int, starts: Integers, size: int, *, writes: bool
    ) -> None:
        """A bulk copy reads or writes rows of device memory."""
        self._bulk(number, "global", thread, starts, size, WRITES if writes else 0)

    def _bulk(
        self, number: int, space: str, thread: int, places: Integers, size: int, kind: int
    ) -> None:
        self.order.time += 1
        lanes = np.full(len(places), thread)
        offsets = places % self._shared.row_bytes if space == "shared" else places
        self._touch(self._code[number], number, space, lanes, offsets, size, kind)

    def left_in_flight(self, number: int, thread: int, what: str, hint: str) -> None:
        """A copy that the kernel ends before."""
        name = self._texts.thread(int(self.order.named(np.array([thread]))[0]))
        self._findings.add("cp.async", self._code[number], (number, number), lambda: (
            f"{name} ends before {what}", hint
        ))  # fmt: skip

    def partial_barrier(
        self, instruction: Instruction, number: int, mask: Mask, what: str, hint: str
    ) -> None:
        """A barrier that only the threads of a mask come to; ``what`` says which do not."""
        thread = int(self.order.named(np.flatnonzero(mask)[:1])[0])
        self._findings.add("barrier", instruction, (number, number), lambda: (
            f"{self._texts.thread(thread)} comes to a barrier {what}", hint
        ))  # fmt: skip

    def _touch(
        self, instruction: Instruction, number: int, space: str, lanes: Integers,
        offsets: Integers, size: int, kind: int,
    ) -> None:  # fmt: skip
        shadow = self._shared if space == "shared" else self._global
        rows = self._threads.block_of[lanes] if space == "shared" else 0
        table = shadow.pieces(rows, offsets, size)
        threads = self.order.named(lanes)
        if kind & STRONG:
            self.order.publish(threads)
        width = table.shape[1]
        starts: Integers = offsets[:, None] + np.arange(width, dtype=np.int64) * self._piece
        access = _Access(
            instruction, number, space, kind, np.repeat(threads, width), table.reshape(-1),
            starts.reshape(-1),
        )  # fmt: skip
        if shadow.has_pending:
            access = self._without_pending(shadow, access)
        if not kind & WRITES or instruction.opcode in _ATOMICS:
            self._check_written(shadow, access)
        since = self.order.since(access.threads)
        slots = [shadow.writer]
        if kind & WRITES or shadow.meets_atomics:
            slots += [shadow.last, shadow.other]
        for slot in slots:
            before = slot.at(access.pieces)
            clash = self.order.clashes(before, access.threads, since, kind)
            self._check_race(access, before, clash)
        self._note(shadow, access, since)

    def _note(self, shadow: Shadow, access: _Access, since: Integers) -> None:
        """Remember an access for those to come."""
        pieces, threads, kind = access.pieces, access.threads, access.kind
        time, what = self.order.time, described(access.number, kind)
        if kind & COPIES:
            shadow.has_pending = True
            shadow.pending.put(pieces, threads, time, what)
            return
        if kind & WRITES:
            shadow.written[pieces] = True
        if kind & WRITES and not kind & STRONG:
            shadow.writer.put(pieces, threads, time, what)
            # Of threads that write one piece in this step, one stayed.
            stayed = shadow.writer.at(pieces)
            self._check_race(access, stayed, stayed.thread != threads + 1)
            return
        shadow.meets_atomics |= bool(kind & WRITES)
        shadow.note_reads(pieces, threads, time, what, self.order.per_block, since)

    def _check_race(self, access: _Access, before: Slot, clash: Flags) -> None:
        if not clash.any():
            return
        at = int(np.argmax(clash))
        owner, what = int(before.thread[at]) - 1, int(before.what[at])
        number, other = number_of(what), kind_of(what)
        thread, offset = access.at(at)
        same_block = thread // self.order.per_block == owner // self.order.per_block
        self._findings.add(
            "cp.async" if other & COPIES and same_block else "race",
            access.instruction,
            (access.number, number),
            lambda: self._texts.race(
                access.space, thread, access.kind, offset, owner, number, other
            ),
        )

    def _check_written(self, shadow: Shadow, access: _Access) -> None:
        missing = ~shadow.written[access.pieces]
        if missing.any():
            thread, offset = access.at(int(np.argmax(missing)))
            self._findings.add(
                "uninitialised",
                access.instruction,
                (access.number, access.number),
                lambda: self._texts.unwritten(access.space, thread, offset),
            )

    def _without_pending(self, shadow: Shadow, access: _Access) -> _Access:
        """The access without the pieces that copies are on their way to; these are told."""
        held = shadow.pending.at(access.pieces)
        early = held.thread != 0
        if not early.any():
            return access
        at = int(np.argmax(early))
        thread, offset = access.at(at)
        owner, number = int(held.thread[at]) - 1, number_of(int(held.what[at]))
        self._findings.add(
            "cp.async",
            access.instruction,
            (access.number, number),
            lambda: self._texts.pending(thread, access.kind, offset, owner, number),
        )
        kept = ~early
        return replace(
            access, threads=access.threads[kept], pieces=access.pieces[kept],
            offsets=access.offsets[kept],
        )  # fmt: skip

    def _touch_local(
        self, instruction: Instruction, number: int, lanes: Integers, offsets: Integers,
        size: int, kind: int,
    ) -> None:  # fmt: skip
        columns = (offsets // self._piece)[:, None] + np.arange(size // self._piece)
        missing = ~self._local[lanes[:, None], columns]
        self._local[lanes[:, None], columns] = True
        reads = not kind & WRITES or instruction.opcode in _ATOMICS
        if reads and missing.any():
            at, piece = np.argwhere(missing)[0]
            thread = int(self.order.named(lanes)[at])
            offset = int(columns[at, piece]) * self._piece
            self._findings.add("uninitialised", instruction, (number, number),
                     lambda: self._texts.unwritten("local", thread, offset))  # fmt: skip
