"""Copies on their way: which group of which thread each belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Offsets = NDArray[np.int64]


@dataclass
class PendingCopy:
    """One execution of ``cp.async``: for each thread where its bytes go, the bytes, its group."""

    lanes: Offsets
    places: Offsets
    content: NDArray[np.uint8]
    groups: Offsets
    number: int = 0


class Copies:
    """The copies of some threads; ``open_group`` is the group that a thread adds to.

    ``arrived`` is told the places of copies that are done.
    """

    def __init__(self, count: int, arrived: Callable[[Offsets], None] | None = None):
        self._arrived = arrived
        self.open_group = np.zeros(count, np.int64)
        self._pending: list[PendingCopy] = []
        self._begun = 0

    def add(self, copy: PendingCopy) -> None:
        """A copy that was begun."""
        copy.number = self._begun
        self._begun += 1
        self._pending.append(copy)

    def mark(self) -> int:
        """A number for ``finish``: all copies that were begun until now."""
        return self._begun

    def commit(self, mask: NDArray[np.bool_]) -> None:
        """Close the open group of the threads in a mask."""
        self.open_group[mask] += 1

    def wait(self, mask: NDArray[np.bool_], left: int, memory: NDArray[np.uint8]) -> None:
        """Finish the copies of all closed groups but the ``left`` newest, of threads in a mask."""
        self._land(
            lambda copy: mask[copy.lanes] & (copy.groups < self.open_group[copy.lanes] - left),
            memory,
        )

    def finish(self, thread: int, until: int, memory: NDArray[np.uint8]) -> None:
        """Finish the copies of a thread that were begun before a mark."""
        self._land(lambda copy: (copy.lanes == thread) & (copy.number < until), memory)

    def _land(
        self,
        which: Callable[[PendingCopy], NDArray[np.bool_]],
        memory: NDArray[np.uint8],
    ) -> None:
        waiting: list[PendingCopy] = []
        for copy in self._pending:
            done = which(copy)
            memory[copy.places[done]] = copy.content[done]
            if self._arrived is not None and done.any():
                self._arrived(copy.places[done])
            if not done.all():
                rest = ~done
                waiting.append(
                    PendingCopy(
                        copy.lanes[rest],
                        copy.places[rest],
                        copy.content[rest],
                        copy.groups[rest],
                        copy.number,
                    )
                )
        self._pending = waiting
