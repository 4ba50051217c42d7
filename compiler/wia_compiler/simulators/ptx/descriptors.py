"""Matrices of shared memory that a 64-bit descriptor points to, as ``wgmma`` reads them.

A descriptor has, from its lowest bit on, the address of the matrix (14 bits from bit 0), the
leading (14 from 16) and the stride offset (14 from 32), all in units of 16 bytes, a base offset (3
from 49) and the swizzle (2 from 62) (PTX ISA, "Matrix descriptor format"). A matrix consists of
chunks of 16 bytes along its contiguous axis, eight of them below one another in a core matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]

CHUNK_BYTES = 16
SWIZZLE_BYTES = (0, 128, 64, 32)
"""Bytes over which chunks are exchanged, by the descriptor's code."""
UNUSED_BITS = ~(0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 7 << 49 | 3 << 62) & (1 << 64) - 1


@dataclass(frozen=True)
class Descriptors:
    """The fields of some descriptors, one a warp; offsets and addresses in bytes."""

    start: Words
    leading: Words
    stride: Words
    base_offset: Words
    swizzle_bytes: Words

    @staticmethod
    def of(words: NDArray[np.uint64]) -> Descriptors:
        """Take descriptors apart."""

        def field(first: int, bits: int) -> Words:
            return ((words >> np.uint64(first)) & np.uint64((1 << bits) - 1)).astype(np.int64)

        return Descriptors(
            field(0, 14) * CHUNK_BYTES,
            field(16, 14) * CHUNK_BYTES,
            field(32, 14) * CHUNK_BYTES,
            field(49, 3),
            np.array(SWIZZLE_BYTES)[field(62, 2)],
        )

    def chunk_addresses(self, rows: Words, chunks: Words, *, contiguous_summed: bool) -> Words:
        """Addresses in shared memory of chunks, one row of each a descriptor.

        ``chunks`` count along the contiguous axis, ``rows`` along the other one. Where that is the
        summed axis (K-major), core matrices follow one another by the stride offset down, by the
        leading offset across; where it is the other (MN-major) it depends on the swizzle which of
        the two offsets goes which way.
        """
        start, leading, stride = self.start[:, None], self.leading[:, None], self.stride[:, None]
        width = self.swizzle_bytes[:, None]
        plain = width == 0
        within = rows % 8 * np.where(plain, CHUNK_BYTES, width)
        if contiguous_summed:
            across = chunks * np.where(plain, leading, CHUNK_BYTES)
            address = start + within + rows // 8 * stride + across
        else:
            row_of_cores = np.maximum(width // CHUNK_BYTES, 1)
            across = chunks % row_of_cores * CHUNK_BYTES + chunks // row_of_cores * np.where(
                plain, stride, leading
            )
            address = start + within + rows // 8 * np.where(plain, leading, stride) + across
        phase = (address >> 7) - self.base_offset[:, None]
        return address ^ np.where(plain, 0, (phase << 4) & (width - CHUNK_BYTES))
