"""What each NVIDIA architecture has, as frozen rows that check themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass

WARP_SIZE = 32
MAX_THREADS_PER_BLOCK = 1024
MAX_REGISTERS_PER_THREAD = 255
REGISTERS_PER_SM = 65536
REGISTER_UNIT_PER_WARP = 256
SUB_PARTITIONS = 4
STATIC_SHARED_BYTES = 48 * 1024
MAX_GRID_X = 2**31 - 1
LAUNCH_SECONDS = 3e-6
_NAME = re.compile(r"sm_\d+a?")


@dataclass(frozen=True)
class Architecture:
    """One ``sm_XY``; ``sm_XYa`` has instructions that no other architecture runs.

    ``max_warps``, ``max_blocks`` and ``shared_kib`` are per SM, ``block_shared_kib`` is the most
    one block may ask for, ``shared_unit`` bytes the granularity in which shared memory is given out
    and ``reserved_shared`` bytes what the system takes of each block (facts checked against
    ``cuda_occupancy.h`` of CUDA 13.0). ``ptx_version`` is the oldest PTX that knows the
    architecture and its matrix instructions, as LLVM's feature name. ``bandwidth`` (bytes/s) and
    ``flops`` (f32 FLOP/s without tensor cores) are those of ``product``, from its data sheet.
    """

    name: str
    ptx_version: str
    max_warps: int
    max_blocks: int
    shared_kib: int
    block_shared_kib: int
    shared_unit: int
    reserved_shared: int
    product: str
    sm_count: int
    bandwidth: float
    flops: float

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"an architecture is named sm_XY or sm_XYa, not {self.name!r}")
        if not (0 < self.block_shared_kib <= self.shared_kib):
            raise ValueError(f"{self.name}: one block cannot ask for more than its SM has")
        if self.block_shared_kib * 1024 + self.reserved_shared > self.shared_kib * 1024:
            raise ValueError(
                f"{self.name}: shared memory of a block and its reserve exceed the SM's"
            )
        if self.max_warps * WARP_SIZE < MAX_THREADS_PER_BLOCK:
            raise ValueError(f"{self.name}: an SM holds at least one block of the largest size")
        if not 0.001 < self.bytes_per_flop < 1:
            raise ValueError(f"{self.name}: {self.bytes_per_flop} bytes per FLOP is not a GPU")

    @property
    def capability(self) -> int:
        """The compute capability in digits: 90 of ``sm_90`` and ``sm_90a``."""
        return int(self.name.removeprefix("sm_").removesuffix("a"))

    @property
    def is_specific(self) -> bool:
        """Whether code for it runs on GPUs of just this capability (``sm_90a``), on no newer one.

        Those of capability 9.0 multiply by ``wgmma``, copy tiles by tensor maps (TMA) and give
        registers from one warpgroup to another.
        """
        return self.name.endswith("a")

    def runs_on(self, capability: int) -> bool:
        """Whether a GPU of that compute capability (90 is 9.0) runs code for it."""
        return capability == self.capability if self.is_specific else capability >= self.capability

    @property
    def fp32_lanes(self) -> int:
        """Threads whose f32 multiply-adds one SM serves in a cycle (CUDA programming guide)."""
        return 64 if self.capability <= 80 else 128

    @property
    def bytes_per_flop(self) -> float:
        """Memory bandwidth over f32 rate."""
        return self.bandwidth / self.flops

    @property
    def launch_cost_bytes(self) -> int:
        """Traffic that fits into the time of one kernel launch (2–4 µs; 3 taken)."""
        return int(self.bandwidth * LAUNCH_SECONDS)


ARCHITECTURES: dict[str, Architecture] = {
    row.name: row
    for row in (
        Architecture("sm_75", "ptx65", 32, 16, 64, 64, 256, 0, "T4", 40, 320e9, 8.1e12),
        Architecture(
            "sm_80", "ptx70", 64, 32, 164, 163, 128, 1024, "A100 SXM 80 GB", 108, 2039e9, 19.5e12
        ),
        Architecture("sm_86", "ptx71", 48, 16, 100, 99, 128, 1024, "A10", 72, 600e9, 31.2e12),
        Architecture(
            "sm_89", "ptx78", 48, 24, 100, 99, 128, 1024, "RTX 4090", 128, 1008e9, 82.6e12
        ),
        Architecture("sm_90", "ptx78", 64, 32, 228, 227, 128, 1024, "H100 SXM", 132, 3350e9, 67e12),
        Architecture(
            "sm_90a", "ptx80", 64, 32, 228, 227, 128, 1024, "H100 SXM", 132, 3350e9, 67e12
        ),
        Architecture("sm_100", "ptx86", 64, 32, 228, 227, 128, 1024, "B200", 148, 8000e9, 75e12),
        Architecture(
            "sm_120", "ptx87", 48, 24, 100, 99, 128, 1024, "RTX 5090", 170, 1792e9, 104.8e12
        ),
    )
}
DEFAULT_ARCHITECTURE = "sm_90"
