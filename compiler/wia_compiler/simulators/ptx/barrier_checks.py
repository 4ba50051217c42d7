"""Checks of barriers: that whole warps come to them, and all threads of a block."""

from __future__ import annotations

import numpy as np

from wia_compiler.simulators.ptx.checks import Checks
from wia_compiler.simulators.ptx.syntax import Instruction
from wia_compiler.simulators.ptx.threads import WARP, Mask, Threads


def check_whole_warps(
    checks: Checks, instruction: Instruction, number: int, came: Mask, alive: Mask
) -> None:
    """Threads that came to a barrier without others of their warp, where it is for whole warps.

    ``bar.sync`` is; ``barrier.sync`` without ``.aligned`` is not.
    """
    if instruction.opcode == "barrier" and "aligned" not in instruction.modifiers:
        return
    rows, living = came.reshape(-1, WARP), alive.reshape(-1, WARP)
    parted = (rows.any(axis=1) & (living & ~rows).any(axis=1)).repeat(WARP)
    if parted.any():
        checks.partial_barrier(
            instruction,
            number,
            came & parted,
            "without other threads of its warp",
            f"{instruction.name} is for whole warps: let all threads execute it, "
            "or use barrier.sync",
        )


def left_out(threads: Threads, free: Mask, alive: Mask) -> Mask:
    """Of threads whose barrier opens, those whose block has threads that ended without it."""
    ended = threads.block_of[threads.exists & ~alive]
    return free & np.isin(threads.block_of, ended)


def tell_left_out(checks: Checks, instruction: Instruction, number: int, short: Mask) -> None:
    """Note a barrier that threads never reach."""
    checks.partial_barrier(
        instruction,
        number,
        short,
        "that other threads of its block never reach: they have ended",
        "let all threads of the block come to it before any of them ends",
    )
