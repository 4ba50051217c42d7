"""What a schedule decided about one nest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wia_compiler.backends.gpu.architecture import REGISTERS_PER_SM
from wia_compiler.base.schedule import Directive

BLOCK_THREADS = 256
"""8 warps: two for each of an SM's four schedulers; several such blocks fit in its registers."""


@dataclass(frozen=True)
class Choice:
    """Threads of a block, why this mapping, and the numbers it came from.

    ``registers`` is how many a thread may have before ptxas trades spills for more blocks an SM;
    ``None`` leaves that to it. ``directives`` say the same as a schedule of the language does;
    ``None`` where it has no words for it.
    """

    threads: int
    reason: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict[str, float | int | str])
    registers: int | None = None
    directives: tuple[Directive, ...] | None = None

    @property
    def min_blocks(self) -> int | None:
        """Blocks that fit into an SM's registers with so many a thread."""
        if self.registers is None:
            return None
        return max(1, REGISTERS_PER_SM // (self.threads * self.registers))


def power_of_two_at_least(value: int) -> int:
    """The smallest power of two that is not below ``value``."""
    return 1 << max(value - 1, 0).bit_length()
