"""What a launch may ask of each architecture (CUDA C++ Programming Guide, compute capabilities)."""

from __future__ import annotations

MAX_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
STATIC_SHARED_BYTES = 48 * 1024
_SHARED_KIB = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99}
"""Shared memory that one block may have, by compute capability."""


def max_shared_bytes(target: str) -> int:
    """Of ``sm_90`` and its like; the smallest of all for an architecture that is not listed."""
    number = int("".join(each for each in target if each.isdigit()) or 0)
    return _SHARED_KIB.get(number, min(_SHARED_KIB.values())) * 1024
