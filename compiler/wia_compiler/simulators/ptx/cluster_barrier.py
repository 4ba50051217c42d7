"""``barrier.cluster``: arrivals and waits of all threads of a cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.threads import Mask

_IDLE, _ARRIVED, _COMPLETE = 0, 1, 2


@dataclass
class ClusterBarrier:
    """For each thread whether it has arrived, and whether all others have since.

    ``changes`` goes up whenever a barrier completes.
    """

    state: NDArray[np.int8]
    cluster_of: NDArray[np.int64]
    changes: int = 0

    @staticmethod
    def of(block_of: NDArray[np.int64], blocks: int) -> ClusterBarrier:
        """No thread of clusters of so many blocks has arrived."""
        return ClusterBarrier(np.zeros(len(block_of), np.int8), block_of // blocks)

    def arrive(self, mask: Mask) -> Mask:
        """Threads arrive; those that must not, as they have not waited since they did."""
        twice = mask & (self.state != _IDLE)
        self.state[mask] = _ARRIVED
        return twice

    def complete(self, alive: Mask) -> bool:
        """Complete the barriers at which all living threads have arrived."""
        count = int(self.cluster_of[-1]) + 1
        arrived = self.state == _ARRIVED
        living = np.bincount(self.cluster_of[alive], minlength=count)
        came = np.bincount(self.cluster_of[alive & arrived], minlength=count)
        done = arrived & ((came == living) & (came > 0))[self.cluster_of]
        self.state[done] = _COMPLETE
        self.changes += bool(done.any())
        return bool(done.any())

    def incomplete(self, mask: Mask) -> Mask:
        """Threads whose barrier is not complete."""
        return mask & (self.state == _ARRIVED)

    def wait(self, mask: Mask) -> Mask:
        """Threads go on; those that wait without having arrived."""
        early = mask & (self.state == _IDLE)
        self.state[mask] = _IDLE
        return early
