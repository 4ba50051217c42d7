"""Products of warpgroups on their way (``wgmma``): what their registers will hold, and when.

From its issue until its warp waits for its group, the registers of a product's result hold all
ones, which as floats are NaN: a wait that is missing shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.threads import WARP, Array

Words = NDArray[np.int64]
WARPS_OF_GROUP = 4
NONE = -1
ORDER_FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)
"""What sums up the order of products, as a signed number of 64 bits."""


@dataclass
class Pending:
    """Results for one list of registers: their bits by register, and for each warp the group.

    ``group`` is ``NONE`` where nothing is on its way.
    """

    bits: list[Array]
    group: Words


@dataclass
class Products:
    """The products of some warps; ``open_group`` is the group that a warp adds to.

    ``issued`` sums up which products a warp began, in order; warps of a group must agree.
    """

    warps: int
    open_group: Words = field(init=False)
    issued: Words = field(init=False)
    counts: dict[int, Words] = field(init=False, default_factory=dict[int, Words])
    pending: dict[tuple[str, ...], Pending] = field(
        init=False, default_factory=dict[tuple[str, ...], Pending]
    )

    def __post_init__(self) -> None:
        self.open_group = np.zeros(self.warps, np.int64)
        self.issued = np.zeros(self.warps, np.int64)

    def note(self, number: int, warps: NDArray[np.bool_]) -> None:
        """Warps begin the product of an instruction."""
        self.counts.setdefault(number, np.zeros(self.warps, np.int64))[warps] += 1
        self.issued[warps] = self.issued[warps] * ORDER_FACTOR + (number + 1)

    def held(self, names: tuple[str, ...], values: Sequence[Array]) -> list[Array]:
        """What registers hold or, where a product is on its way to them, will hold."""
        waiting = self.pending.get(names)
        if waiting is None:
            return list(values)
        on_the_way = np.repeat(waiting.group != NONE, WARP)
        return [
            np.where(on_the_way, bits, value)
            for bits, value in zip(waiting.bits, values, strict=True)
        ]

    def begin(
        self, names: tuple[str, ...], bits: Sequence[Array], warps: NDArray[np.bool_]
    ) -> None:
        """The product of the open group that warps began has these bits, one row a register."""
        waiting = self.pending.get(names)
        if waiting is None:
            group = np.full(self.warps, NONE, np.int64)
            waiting = self.pending[names] = Pending([np.zeros_like(each) for each in bits], group)
        lanes = np.repeat(warps, WARP)
        waiting.bits = [
            np.where(lanes, new, old) for new, old in zip(bits, waiting.bits, strict=True)
        ]
        waiting.group[warps] = self.open_group[warps]

    def commit(self, warps: NDArray[np.bool_]) -> None:
        """Close the open group of some warps."""
        self.open_group[warps] += 1

    def wait(
        self, warps: NDArray[np.bool_], left: int, put: Callable[[str, Array, Any], None]
    ) -> None:
        """Finish all closed groups but the ``left`` newest, of some warps.

        ``put`` takes a register's name, its bits, and the threads that get them.
        """
        for names, waiting in self.pending.items():
            done = warps & (waiting.group != NONE) & (waiting.group < self.open_group - left)
            if not done.any():
                continue
            lanes = np.repeat(done, WARP)
            for name, bits in zip(names, waiting.bits, strict=True):
                put(name, bits, lanes)
            waiting.group[done] = NONE

    def uneven(self, per_block: int) -> tuple[int, int, int] | None:
        """An instruction that one warp of a warpgroup began and another did not: both warps.

        ``per_block`` is the number of warps of a block; ``None`` where all agree.
        """
        for number in self.counts:
            counts = self.counts[number].reshape(-1, per_block)
            missing = -per_block % WARPS_OF_GROUP
            groups = np.pad(counts, ((0, 0), (0, missing))).reshape(-1, WARPS_OF_GROUP)
            apart = (groups != groups[:, :1]).any(axis=1)
            if apart.any():
                group = int(np.argmax(apart))
                block, place = divmod(group, (per_block + missing) // WARPS_OF_GROUP)
                first = block * per_block + place * WARPS_OF_GROUP
                row = groups[group]
                return number, first + int(np.argmax(row)), first + int(np.argmin(row))
        return self._out_of_order(per_block)

    def _out_of_order(self, per_block: int) -> tuple[int, int, int] | None:
        if per_block % WARPS_OF_GROUP or not self.counts:
            return None
        groups = self.issued.reshape(-1, WARPS_OF_GROUP)
        apart = groups != groups[:, :1]
        if not apart.any():
            return None
        group, warp = np.argwhere(apart)[0]
        first = int(group) * WARPS_OF_GROUP
        return next(iter(self.counts)), first, first + int(warp)
