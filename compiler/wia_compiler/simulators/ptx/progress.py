"""Where the threads of a machine are, and what those that do not run wait for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.threads import WARP, Mask, Threads

DONE = np.iinfo(np.int32).max
"""The place of a thread that has ended, or that does not exist."""
NO_BARRIER = -1
MOST_STALLS = 64
"""How often all waits for a phase may end without it, before that is called a deadlock."""


@dataclass
class Progress:
    """For each thread: the rank of the block it is at, and why it does not run.

    ``gathering`` threads wait for lanes of their warp, ``asleep`` ones for the phase of an
    mbarrier; ``barrier`` is the number of the barrier of its block that a thread waits at. The wait
    of an ``expired`` thread may end although its phase has not come. Lanes of a warp of which some
    sleep wait for these where they are farther on, but for ``loose`` ones.
    """

    place: NDArray[np.int32]
    barrier: NDArray[np.int64]
    gathering: Mask
    asleep: Mask
    expired: Mask
    loose: Mask

    @staticmethod
    def of(threads: Threads, first_rank: int) -> Progress:
        """All threads at the beginning."""
        none = np.zeros(threads.count, bool)
        return Progress(
            np.where(threads.exists, np.int32(first_rank), np.int32(DONE)),
            np.full(threads.count, NO_BARRIER),
            none,
            none.copy(),
            none.copy(),
            none.copy(),
        )

    @property
    def alive(self) -> Mask:
        """Threads that have not ended."""
        return self.place != DONE

    @property
    def ready(self) -> Mask:
        """Threads that can run."""
        found = self._unblocked
        return found & ~self.held if self.asleep.any() else found

    @property
    def _unblocked(self) -> Mask:
        blocked = self.gathering | self.asleep | (self.barrier != NO_BARRIER)
        return self.alive & ~blocked

    @property
    def held(self) -> Mask:
        """Threads that only wait for lanes of their warp that sleep."""
        sleeping = np.where(self.asleep, self.place, np.int32(DONE)).reshape(-1, WARP)
        ahead = self.place.reshape(-1, WARP) > sleeping.min(axis=1)[:, None]
        return self._unblocked & ahead.reshape(-1) & ~self.loose

    def wake(self) -> None:
        """Let those look again that wait for other threads."""
        self.gathering[...] = False
        self.asleep[...] = False
        self.loose[...] = False

    def arrivals(self, came: Mask) -> NDArray[np.int64]:
        """Of each warp, the threads that count as come: those of a mask, and with the first of a
        warp's living lanes the lanes that have ended."""
        rows, alive = came.reshape(-1, WARP), self.alive.reshape(-1, WARP)
        first = np.take_along_axis(rows, alive.argmax(axis=1)[:, None], axis=1)[:, 0]
        return rows.sum(axis=1) + np.where(first, (~alive).sum(axis=1), 0)
