"""Clusters: blocks that run at once and see one another's shared memory.

An address of shared memory says whose it is: above the bits of an offset stands 0 for the block's
own, else the rank of a block of its cluster, plus one. ``mapa`` makes such addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.threads import Size

RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
"""More than the shared memory of any block."""
MOST_BLOCKS = 16
"""Blocks of a cluster at most (with the attribute for sizes that are not portable)."""


@dataclass(frozen=True)
class Clusters:
    """How the blocks of a grid fall into clusters of a size; 1 x 1 x 1 where nobody asked.

    Blocks run cluster by cluster, each in the order of the ranks, the first axis fastest.
    """

    grid: Size
    size: Size = (1, 1, 1)
    is_explicit: bool = False

    @property
    def blocks(self) -> int:
        """Blocks of one cluster."""
        return self.size[0] * self.size[1] * self.size[2]

    def order(self) -> NDArray[np.uint32]:
        """Numbers of blocks (x fastest) in the order in which they run."""
        total = self.grid[0] * self.grid[1] * self.grid[2]
        if self.blocks == 1:
            return np.arange(total, dtype=np.uint32)
        (x, y, z), (i, j, k) = self.grid, self.size
        numbers = np.arange(total, dtype=np.uint32)
        apart = numbers.reshape(z // k, k, y // j, j, x // i, i)
        return np.ascontiguousarray(apart.transpose(0, 2, 4, 1, 3, 5)).reshape(-1)

    def specials(self, places: tuple[Any, Any, Any]) -> dict[str, Any]:
        """The special registers of threads in blocks at some places of the grid."""
        found: dict[str, Any] = {}
        rank, factor = np.zeros((), np.uint32), 1
        for axis, place, size, extent in zip("xyz", places, self.size, self.grid, strict=True):
            within = place % np.uint32(size)
            found[f"%clusterid.{axis}"] = place // np.uint32(size)
            found[f"%nclusterid.{axis}"] = np.full((), extent // size, np.uint32)
            found[f"%cluster_ctaid.{axis}"] = within
            found[f"%cluster_nctaid.{axis}"] = np.full((), size, np.uint32)
            rank = rank + within * np.uint32(factor)
            factor *= size
        found["%cluster_ctarank"] = rank
        found["%cluster_nctarank"] = np.full((), self.blocks, np.uint32)
        found["%is_explicit_cluster"] = np.full((), self.is_explicit, np.bool_)
        return found
