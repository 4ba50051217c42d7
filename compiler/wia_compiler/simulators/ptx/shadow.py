"""Who touched each piece of a memory last, and whether anything was ever written there.

Pieces are as large as the smallest access of the entry: every access is a power of two and aligned
to its size, so that it touches whole pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.threads import WARP

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

WRITES, STRONG, COPIES = 1, 2, 4
"""What an access is: it writes; it is atomic or of a kind that may meet others; a ``cp.async``."""
_KIND_BITS = 3


@dataclass
class Slot:
    """For each piece one access: its thread + 1 (0 for none), when, its instruction and kind."""

    thread: Integers
    time: NDArray[np.int32]
    what: NDArray[np.int32]

    @staticmethod
    def of(count: int) -> Slot:
        """Nothing touched; pages that are never touched take no memory."""
        return Slot(np.zeros(count, np.int64), np.zeros(count, np.int32), np.zeros(count, np.int32))

    def put(self, pieces: Integers, threads: Integers, time: int, what: int) -> None:
        """Note an access; of several threads that touch one piece, the last stays."""
        self.thread[pieces] = threads + 1
        self.time[pieces] = time
        self.what[pieces] = what

    def at(self, pieces: Integers) -> Slot:
        """The accesses to some pieces."""
        return Slot(self.thread[pieces], self.time[pieces], self.what[pieces])

    def has(self, kind: int) -> Flags:
        """Which accesses are of a kind."""
        return (self.what & kind) != 0


def described(number: int, kind: int) -> int:
    """An instruction and what its access is, as a slot keeps them."""
    return number << _KIND_BITS | kind


def number_of(what: int) -> int:
    """The instruction of what ``described`` made."""
    return what >> _KIND_BITS


def kind_of(what: int) -> int:
    """The kind of access of what ``described`` made."""
    return what & ((1 << _KIND_BITS) - 1)


class Shadow:
    """What is known of one memory: rows of ``row_bytes`` in pieces of ``piece_bytes``.

    ``writer`` is the last write. ``last`` is the last access that is no plain write, and ``other``
    one of another thread, as far away as there was (another block, another warp, another lane).
    """

    def __init__(self, rows: int, row_bytes: int, piece_bytes: int, written: bool):
        self.row_bytes = row_bytes
        self.piece_bytes = piece_bytes
        self.row_pieces = -(-row_bytes // piece_bytes)
        self.count = rows * self.row_pieces
        self.written = np.full(self.count, written, bool)
        self.writer = Slot.of(self.count)
        self.last = Slot.of(self.count)
        self.other = Slot.of(self.count)
        self.pending = Slot.of(self.count)
        self.meets_atomics = False
        self.has_pending = False

    def pieces(self, rows: Integers | int, offsets: Integers, size: int) -> NDArray[np.int64]:
        """The pieces of accesses, one row an access; those beyond a row's end are its last."""
        first = offsets // self.piece_bytes
        each = np.arange(-(-size // self.piece_bytes))
        within = np.minimum(first[:, None] + each, self.row_pieces - 1)
        return within + np.asarray(rows * self.row_pieces).reshape(-1, 1)

    def arrive(self, pieces: Integers, time: int) -> None:
        """Copies are done: writes of the threads that asked for them."""
        self.writer.thread[pieces] = self.pending.thread[pieces]
        self.writer.what[pieces] = self.pending.what[pieces]
        self.writer.time[pieces] = time
        self.pending.thread[pieces] = 0
        self.written[pieces] = True

    def note_reads(
        self, pieces: Integers, threads: Integers, time: int, what: int, block: int, since: Integers
    ) -> None:
        """Keep the last of the threads that touch a piece, and the farthest of the others.

        ``block`` is the number of threads of a block; what its own block did before ``since`` (of
        each access) no longer counts.
        """
        before, far = self.last.at(pieces), self.other.at(pieces)
        self.last.thread[pieces[::-1]] = threads[::-1] + 1
        first = self.last.thread[pieces]
        self.last.put(pieces, threads, time, what)
        now = self.last.thread[pieces]
        here = Slot(first, np.full(len(pieces), time, np.int32), np.full(len(pieces), what, "i4"))
        best, rank = here, _distance(here, now, block, since)
        for candidate in (before, far):
            reach = _distance(candidate, now, block, since)
            better = reach > rank
            if better.any():
                best = Slot(
                    np.where(better, candidate.thread, best.thread),
                    np.where(better, candidate.time, best.time),
                    np.where(better, candidate.what, best.what),
                )
                rank = np.maximum(rank, reach)
        self.other.thread[pieces] = np.where(rank > 0, best.thread, 0)
        self.other.time[pieces] = best.time
        self.other.what[pieces] = best.what


def _distance(slot: Slot, now: Integers, block: int, since: Integers) -> NDArray[np.int64]:
    """0 for the same thread, nobody and what is over, 1 for another lane, 2 warp, 3 block."""
    far = (slot.thread - 1) // block != (now - 1) // block
    warp = (slot.thread - 1) // WARP != (now - 1) // WARP
    counts = (slot.thread != 0) & (slot.thread != now) & (far | (slot.time >= since))
    return np.where(counts, 1 + warp.astype(np.int64) + far, 0)
