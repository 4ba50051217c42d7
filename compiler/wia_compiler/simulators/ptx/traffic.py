"""What a memory instruction amounts to, summed over a launch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Traffic:
    """What one memory instruction did in a launch, summed over warps.

    Bulk copies count requests and sectors alone: a copy of a thread is a request.
    """

    requests: int = 0
    sectors: int = 0
    ideal_sectors: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    size_bytes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        """What two runs of the instruction did."""
        return Traffic(
            self.requests + other.requests,
            self.sectors + other.sectors,
            self.ideal_sectors + other.ideal_sectors,
            self.wavefronts + other.wavefronts,
            self.ideal_wavefronts + other.ideal_wavefronts,
            self.size_bytes,
        )
