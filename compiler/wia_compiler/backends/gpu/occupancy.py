"""How many blocks of a kernel one SM holds, and which resource says so."""

from __future__ import annotations

from dataclasses import dataclass

from wia_compiler.backends.gpu.architecture import (
    REGISTER_UNIT_PER_WARP,
    REGISTERS_PER_SM,
    SUB_PARTITIONS,
    WARP_SIZE,
    Architecture,
)


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps one SM holds at a time; ``ratio`` of its warps; ``limiter`` what stops more.

    ``limits`` has the number of blocks that each resource alone would allow; registers and shared
    memory are absent where the kernel uses none.
    """

    ctas_per_sm: int
    warps_per_sm: int
    ratio: float
    limiter: str
    limits: dict[str, int]


def occupancy(
    architecture: Architecture, threads: int, *, registers: int, shared_bytes: int
) -> Occupancy:
    """Theoretical occupancy of a block of ``threads``.

    ``registers`` are per thread, ``shared_bytes`` static plus dynamic per block. Rule and constants
    are those of ``cuda_occupancy.h`` (CUDA 13.0): registers come per warp in units of 256 out of
    four sub-partitions, shared memory per block in the architecture's unit, its reserve included.
    ``limiter`` is the scarcest of blocks, warps, registers and shared memory (in that order where
    several tie).
    """
    if threads < 1:
        raise ValueError(f"a block has at least one thread, not {threads}")
    warps = -(-threads // WARP_SIZE)
    limits = {"blocks": architecture.max_blocks, "warps": architecture.max_warps // warps}
    if registers:
        per_warp = _round_up(registers * WARP_SIZE, REGISTER_UNIT_PER_WARP)
        fitting = SUB_PARTITIONS * ((REGISTERS_PER_SM // SUB_PARTITIONS) // per_warp)
        limits["registers"] = fitting // warps
    per_block = shared_bytes + architecture.reserved_shared
    if per_block:
        unit = _round_up(per_block, architecture.shared_unit)
        limits["shared memory"] = architecture.shared_kib * 1024 // unit
    blocks = min(limits.values())
    limiter = next(name for name, limit in limits.items() if limit == blocks)
    held = blocks * warps
    return Occupancy(blocks, held, held / architecture.max_warps, limiter, limits)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
