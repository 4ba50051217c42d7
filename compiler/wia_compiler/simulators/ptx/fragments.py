"""Which lane of a warp holds which element of a small matrix, and in which of its registers.

With ``g = lane // 4`` and ``t = lane % 4``, and ``p`` elements in a register: of a left matrix a
lane holds row ``g`` and the ``p`` columns from ``p t`` on of every block of 8 × 4p, of a right one
the same of its transpose, of a sum row ``g`` and columns ``2 t`` and ``2 t + 1`` of every block of
8 × 8 (PTX ISA, "Matrix fragments for mma"). Blocks follow one another first along the rows of a
left matrix or a sum, along the summed axis of a right one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.threads import WARP

Places = NDArray[np.intp]
_LANE = np.arange(WARP)
_GROUP, _PLACE = _LANE // 4, _LANE % 4


@dataclass(frozen=True)
class Fragment:
    """A matrix in the registers of a warp: row and column of each (element, lane).

    ``packed`` elements after one another share a register, the first lowest. A matrix that the warp
    holds several of (``mma.m8n8k4`` of f16) has them below one another.
    """

    rows: Places
    columns: Places
    packed: int

    @property
    def registers(self) -> int:
        """How many registers of a lane it takes."""
        return len(self.rows) // self.packed


def left_fragment(rows: int, columns: int, packed: int) -> Fragment:
    """Of the first factor, ``columns`` being summed."""
    places = [
        (_GROUP + 8 * down, 4 * packed * block + packed * _PLACE + element)
        for block in range(columns // (4 * packed))
        for down in range(rows // 8)
        for element in range(packed)
    ]
    return _fragment(places, packed)


def right_fragment(rows: int, columns: int, packed: int) -> Fragment:
    """Of the second factor, ``rows`` being summed."""
    places = [
        (4 * packed * block + packed * _PLACE + element, _GROUP + 8 * across)
        for across in range(columns // 8)
        for block in range(rows // (4 * packed))
        for element in range(packed)
    ]
    return _fragment(places, packed)


def sum_fragment(rows: int, columns: int, packed: int) -> Fragment:
    """Of what is added to and of the result."""
    places = [
        (_GROUP + 8 * down, 8 * across + 2 * _PLACE + element)
        for across in range(columns // 8)
        for down in range(rows // 8)
        for element in range(2)
    ]
    return _fragment(places, packed)


def _fragment(places: list[tuple[Places, Places]], packed: int) -> Fragment:
    return Fragment(
        np.stack([row for row, _ in places]), np.stack([column for _, column in places]), packed
    )
