"""What one access of a warp costs: sectors of global memory, wavefronts of shared memory.

The rules are NVIDIA's, as the Nsight Compute documentation describes its counters: a request to
global memory moves every sector of 32 bytes that a thread of the warp touches; shared memory has
32 banks of 4 bytes, threads that read one word share it, and a warp of wider accesses takes them in
phases of 32 words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.threads import Array, Mask

SECTOR_BYTES = 32
BANKS = 32
WORD_BYTES = 4
_NOWHERE = np.iinfo(np.int64).max


def distinct_per_row(values: NDArray[np.int64], valid: Mask) -> NDArray[np.int64]:
    """How many different valid values each row holds."""
    ordered = np.sort(np.where(valid, values, _NOWHERE), axis=1)
    changes = (ordered[:, 1:] != ordered[:, :-1]) & (ordered[:, 1:] != _NOWHERE)
    return changes.sum(axis=1) + (ordered[:, 0] != _NOWHERE)


def sectors(addresses: Array, active: Mask) -> NDArray[np.int64]:
    """Sectors that each warp's access touches; accesses are aligned, so each lies in one.

    ``addresses`` and ``active`` have one row a warp.
    """
    return distinct_per_row(addresses.astype(np.int64) // SECTOR_BYTES, active)


def ideal_sectors(active: Mask, size_bytes: int) -> NDArray[np.int64]:
    """Sectors that would do, were the bytes of each warp's access next to one another."""
    return -(-active.sum(axis=1) * size_bytes // SECTOR_BYTES)


def wavefronts(
    addresses: Array, active: Mask, size_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Passes over the banks that each warp's access to shared memory takes, and the least possible.

    A thread's access of ``size_bytes`` up to 4 is one word; 8 bytes are taken in two phases of 16
    threads, 16 bytes in four phases of 8. A phase takes as many passes as the most wanted bank has
    different words; the difference of the two results are bank conflicts.
    """
    words_each = max(1, size_bytes // WORD_BYTES)
    phases, warps = words_each, len(addresses)
    first = addresses.astype(np.int64) // WORD_BYTES
    words = first[:, :, None] + np.arange(words_each)
    shape = (warps * phases, BANKS)
    words = words.reshape(shape)
    valid = np.repeat(active[:, :, None], words_each, axis=2).reshape(shape)
    ordered = np.sort(np.where(valid, words, _NOWHERE), axis=1)
    new = np.ones(shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    new &= ordered != _NOWHERE
    rows = np.broadcast_to(np.arange(shape[0])[:, None], shape)[new]
    banks = ordered[new] % BANKS
    wanted = np.bincount(rows * BANKS + banks, minlength=shape[0] * BANKS)
    passes = wanted.reshape(shape).max(axis=1)
    taken = passes.reshape(warps, phases).sum(axis=1)
    least = (passes > 0).reshape(warps, phases).sum(axis=1)
    return taken, least
