"""Which accesses of a launch are in order, whatever the order that they happened to run in.

Two accesses are in order if one thread makes both, if their block came to a barrier in between, if
``bar.warp.sync`` named both threads in between, if the first thread arrived at an mbarrier or a
barrier with a count in between and the second waited for it, or if the first thread published what
it did (a fence, then an atomic operation) and the second has looked since (an atomic operation).
The last is not asked for each address, which may keep two accesses for ordered that are not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.shadow import STRONG, WRITES, Flags, Integers, Slot
from wia_compiler.simulators.ptx.threads import WARP, Mask, Threads


class Order:
    """Barriers and fences of ``blocks`` blocks of ``per_block`` threads; ``time`` counts steps."""

    def __init__(self, blocks: int, per_block: int, *, wide: bool = False):
        self.per_block = per_block
        # Of how many lanes each thread knows what they did: those of its warp, or of its block.
        self._columns = per_block if wide else WARP
        self.time = 1
        self._blocks = blocks
        self._barrier_time = np.zeros(blocks, np.int64)
        # By thread, or by block, of the launch; made when the first fence is met.
        self._fenced = self._published = self._looked = np.zeros(0, np.int64)
        self._block_published = np.zeros(0, np.int64)

    def begin(self, threads: Threads, first_block: int) -> None:
        """Go on to other blocks."""
        self._threads = threads
        self._first_block = first_block
        # For each thread and lane of its warp (or block), until when it knows what that lane did.
        self._seen = np.zeros((threads.count, self._columns), np.int64)
        self._has_seen = False
        self._told: dict[object, Integers] = {}
        self._known: dict[object, Integers] = {}

    def named(self, lanes: Integers) -> Integers:
        """Threads of the chunk as threads of the launch."""
        return lanes + self._first_block * self.per_block

    def since(self, threads: Integers) -> Integers:
        """When the blocks of threads came to their last barriers."""
        return self._barrier_time[threads // self.per_block]

    def barrier(self, free: Mask) -> None:
        """All threads of some blocks came to a barrier."""
        self.time += 1
        blocks = self._first_block + np.unique(self._threads.block_of[free])
        self._barrier_time[blocks] = self.time
        if len(self._looked):
            rows = self._looked.reshape(self._blocks, -1)
            rows[blocks] = rows[blocks].max(axis=1, keepdims=True)

    def warp_barrier(self, members: NDArray[np.uint32]) -> None:
        """Threads that take part waited for the lanes of their member masks."""
        self.time += 1
        self._has_seen = True
        mask = self._threads.mask
        bits = (members[:, None] >> np.arange(WARP, dtype=np.uint32)) & 1 != 0
        bits &= mask.reshape(-1, WARP).repeat(WARP, axis=0) & mask[:, None]
        warps = np.flatnonzero(mask.reshape(-1, WARP).any(axis=1))
        rows = self._seen.reshape(-1, WARP, self._columns)[warps]
        joined = bits.reshape(-1, WARP, WARP)[warps]
        before = rows.copy()
        # What a member knew of a lane, all members know now.
        for lane in range(WARP):
            known = np.where(joined[:, :, lane, None], before[:, None, lane], 0)
            np.maximum(rows, known, out=rows)
        for at, warp in enumerate(warps):
            first = warp * WARP % self._columns
            own = rows[at, :, first : first + WARP]
            own[joined[at]] = self.time
        self._seen.reshape(-1, WARP, self._columns)[warps] = rows

    def tell(self, key: object, threads: Integers) -> None:
        """Threads of the chunk arrive at a barrier: what they know is for those that wait."""
        self.time += 1
        self._has_seen = True
        told = self._told.setdefault(key, np.zeros(self._columns, np.int64))
        np.maximum(told, self._seen[threads].max(axis=0), out=told)
        told[threads % self._columns] = self.time

    def complete(self, key: object, threads: Sequence[int] = ()) -> None:
        """A barrier opens; ``threads`` are those whose copies came with it."""
        self.time += 1
        self._has_seen = True
        told = self._told.pop(key, np.zeros(self._columns, np.int64))
        told[[each % self._columns for each in threads]] = self.time
        self._known[key] = told

    def learn(self, key: object, threads: Integers) -> None:
        """Threads that have waited for a barrier know what those knew that arrived at it."""
        known = self._known.get(key)
        if known is not None:
            self._seen[threads] = np.maximum(self._seen[threads], known)

    def fence(self, mask: Mask) -> None:
        """What threads did until now can be published."""
        if not len(self._fenced):
            total = self._blocks * self.per_block
            self._fenced, self._published, self._looked = np.zeros((3, total), np.int64)
            self._block_published = np.zeros(self._blocks, np.int64)
        self.time += 1
        self._fenced[self.named(np.flatnonzero(mask))] = self.time

    def publish(self, threads: Integers) -> None:
        """Threads make an atomic access: what they fenced is out, what is out they may see."""
        if not len(self._fenced):
            return
        fenced = self._fenced[threads]
        self._published[threads] = np.maximum(self._published[threads], fenced)
        until = np.where(fenced > 0, np.minimum(self.since(threads), fenced), 0)
        np.maximum.at(self._block_published, threads // self.per_block, until)
        self._looked[threads] = self.time

    def clashes(self, slot: Slot, threads: Integers, since: Integers, kind: int) -> Flags:
        """Which earlier accesses an access of threads, of a kind, is not in order with."""
        clash = (slot.thread != 0) & (slot.thread != threads + 1)
        elsewhere = (slot.thread - 1) // self.per_block != threads // self.per_block
        clash &= elsewhere | (slot.time >= since)
        if not kind & WRITES:
            clash &= slot.has(WRITES)
        if kind & STRONG:
            clash &= ~slot.has(STRONG)
        if self._has_seen and clash.any():
            near = (slot.thread - 1) // self._columns == threads // self._columns
            mine = threads - self._first_block * self.per_block
            other = (slot.thread - 1) % self._columns
            clash &= ~(near & (self._seen[mine, other] > slot.time))
        if len(self._fenced) and clash.any():
            other = np.maximum(slot.thread - 1, 0)
            told = (slot.time < self._published[other]) | (
                slot.time < self._block_published[other // self.per_block]
            )
            clash &= ~(told & (self._looked[threads] > slot.time))
        return clash
