"""How long launches would take one by one, and as one: what merging them brings, by a model."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from wia_compiler.backends.gpu.architecture import (
    LAUNCH_SECONDS,
    SUB_PARTITIONS,
    WARP_SIZE,
    Architecture,
)
from wia_compiler.backends.gpu.launch_costs import STEP_CYCLES, Spent
from wia_compiler.backends.gpu.occupancy import Occupancy, occupancy
from wia_compiler.passes.fusing.costs import THRESHOLD

LEAST_SHARE = 0.02
"""Of the time that launches take apart: what saves less is not worth the larger kernel."""
_DEALT_WAVES = 16
"""Up to so many waves blocks are dealt out one after the other; then only how they fill counts."""
_PRODUCTS = {False: 256, True: 512}
"""Multiply-adds of f16 a cycle of an SM's quarter: before sm_90, and since (data sheets)."""


@dataclass(frozen=True)
class Part:
    """A launch as the model sees it.

    ``spent`` is what a thread spends, ``size_bytes`` those of all its arrays, ``static`` and
    ``dynamic`` shared bytes of a block.
    """

    name: str
    blocks: int
    threads: int
    registers: int
    static: int
    dynamic: int
    spent: Spent
    size_bytes: int

    def warp_cycles(self, architecture: Architecture) -> float:
        """Cycles of a warp that has its SM to itself."""
        steps = max(self.spent.instructions * STEP_CYCLES, self._products(architecture))
        return steps + self.spent.waits

    def block_cycles(self, architecture: Architecture) -> float:
        """Cycles of a block that has its SM to itself."""
        own = self.spent
        warps = -(-self.threads // WARP_SIZE) / SUB_PARTITIONS
        steps = own.instructions * max(STEP_CYCLES, warps)
        return max(steps, self._products(architecture) * max(1.0, warps)) + own.waits

    def busy_cycles(self, architecture: Architecture) -> float:
        """Cycles that a block keeps a quarter of its SM issuing, or its matrix unit busy."""
        warps = -(-self.threads // WARP_SIZE) / SUB_PARTITIONS
        return max(self.spent.instructions, self._products(architecture)) * warps

    def _products(self, architecture: Architecture) -> float:
        return self.spent.products / _PRODUCTS[architecture.capability >= 90]


@dataclass(frozen=True)
class Merging:
    """What the model says of launches that are joined: seconds apart and together, less launching.

    ``apart`` are the times of the launches and ``blocks`` theirs, ``held`` the blocks of the joint
    one on an SM, and ``alone`` those of each.
    """

    parts: tuple[Part, ...]
    blocks: tuple[int, ...]
    apart: tuple[float, ...]
    together: float
    held: Occupancy
    alone: tuple[Occupancy, ...]

    @property
    def benefit(self) -> float:
        """Seconds that are saved: a launch, and where SMs are idle no more."""
        return LAUNCH_SECONDS + max(0.0, sum(self.apart) - self.together)

    @property
    def cost(self) -> float:
        """Seconds that the work takes longer: where fewer blocks fit on an SM."""
        return max(0.0, self.together - sum(self.apart))

    @property
    def gain(self) -> float:
        """Seconds that the joint launch is earlier done."""
        return self.benefit - self.cost

    @property
    def share(self) -> float:
        """What is saved of the time that the launches take apart."""
        before = sum(self.apart) + LAUNCH_SECONDS * len(self.apart)
        return self.gain / before

    @property
    def pays(self) -> bool:
        """Whether ``benefit > 1.5 × cost``, as for any fusion, and the share can be told."""
        return self.benefit > THRESHOLD * self.cost and self.share >= LEAST_SHARE


def merging_of(
    architecture: Architecture, groups: Sequence[Sequence[Part]], joint: Part
) -> Merging:
    """Two launches or more, each of one part or of several merged before, as one.

    ``joint`` has the threads, registers and shared memory of the launch of all of them.
    """
    every = tuple(part for group in groups for part in group)
    apart = tuple(launch_seconds(architecture, group, widest(group)) for group in groups)
    alone = tuple(held_on(architecture, widest(group)) for group in groups)
    together = launch_seconds(architecture, every, joint)
    blocks = tuple(sum(part.blocks for part in group) for group in groups)
    return Merging(every, blocks, apart, together, held_on(architecture, joint), alone)


def widest(parts: Sequence[Part]) -> Part:
    """What a block of a launch of several takes: of everything the most that one of them needs."""
    return Part(
        " | ".join(part.name for part in parts),
        sum(part.blocks for part in parts),
        max(part.threads for part in parts),
        max(part.registers for part in parts),
        max(part.static for part in parts),
        max(part.dynamic for part in parts),
        max((part.spent for part in parts), key=lambda each: each.instructions),
        sum(part.size_bytes for part in parts),
    )


def held_on(architecture: Architecture, part: Part) -> Occupancy:
    """Blocks of a launch on an SM."""
    shared = part.static + part.dynamic
    return occupancy(architecture, part.threads, registers=part.registers, shared_bytes=shared)


def launch_seconds(architecture: Architecture, parts: Sequence[Part], block: Part) -> float:
    """Time of one launch without launching: of memory, of issuing, and of blocks in their turn.

    ``block`` says what each block takes of an SM, whichever part it is.
    """
    held = held_on(architecture, block).ctas_per_sm
    if held == 0:
        return float("inf")
    slots = held * architecture.sm_count
    clock = clock_hz(architecture)
    memory = sum(part.size_bytes for part in parts) / architecture.bandwidth
    busy = sum(part.blocks * part.busy_cycles(architecture) for part in parts)
    issue = busy / architecture.sm_count / clock
    turns = [(part.block_cycles(architecture), part.blocks) for part in parts]
    return max(memory, issue, dealt_cycles(turns, slots) / clock)


def dealt_cycles(turns: Sequence[tuple[float, int]], slots: int) -> float:
    """Cycles until all blocks are done that are dealt out in order, a slot's next when it is free.

    ``turns`` are the cycles and the number of blocks of each sort.
    """
    total = sum(cycles * count for cycles, count in turns)
    if sum(count for _, count in turns) > _DEALT_WAVES * slots:
        return total / slots + max(cycles for cycles, _ in turns) / 2
    free: list[tuple[float, int]] = [(0.0, slots)]
    last = 0.0
    for cycles, count in turns:
        while count:
            at, many = heapq.heappop(free)
            taken = min(many, count)
            if taken < many:
                heapq.heappush(free, (at, many - taken))
            heapq.heappush(free, (at + cycles, taken))
            last = max(last, at + cycles)
            count -= taken
    return last


def clock_hz(architecture: Architecture) -> float:
    """The clock of the data sheet's rate: two operations of each f32 lane a cycle."""
    return architecture.flops / (2 * architecture.sm_count * architecture.fp32_lanes)
