"""PTX's fundamental types: width, kind, and the numpy types of their bits and of their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np

Kind = Literal["predicate", "bits", "unsigned", "signed", "float"]


@dataclass(frozen=True)
class PtxType:
    """``f32``: 32 bits, held as ``uint32``, computed with as ``float32``.

    ``lanes`` is how many values a packed type (``f16x2``) holds; ``value`` is the type of one.
    """

    name: str
    bits: int
    kind: Kind
    value: np.dtype[Any]
    lanes: int = 1

    @property
    def size_bytes(self) -> int:
        """Bytes in memory; a predicate has none and counts as one."""
        return max(1, self.bits // 8)

    @property
    def holder(self) -> np.dtype[Any]:
        """The type that a register of this width is kept in."""
        return HOLDERS[self.bits]


HOLDERS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}


def _integers() -> list[PtxType]:
    found: list[PtxType] = []
    for bits in (8, 16, 32, 64):
        unsigned, signed = np.dtype(f"uint{bits}"), np.dtype(f"int{bits}")
        found.append(PtxType(f"b{bits}", bits, "bits", unsigned))
        found.append(PtxType(f"u{bits}", bits, "unsigned", unsigned))
        found.append(PtxType(f"s{bits}", bits, "signed", signed))
    return found


TYPES: dict[str, PtxType] = {
    each.name: each
    for each in (
        PtxType("pred", 1, "predicate", np.dtype(np.bool_)),
        *_integers(),
        PtxType("f16", 16, "float", np.dtype(np.float16)),
        PtxType("bf16", 16, "float", np.dtype(ml_dtypes.bfloat16)),
        PtxType("f32", 32, "float", np.dtype(np.float32)),
        PtxType("tf32", 32, "float", np.dtype(np.float32)),
        PtxType("f32x2", 64, "float", np.dtype(np.float32), lanes=2),
        PtxType("f64", 64, "float", np.dtype(np.float64)),
        PtxType("u16x2", 32, "unsigned", np.dtype(np.uint16), lanes=2),
        PtxType("s16x2", 32, "signed", np.dtype(np.int16), lanes=2),
        PtxType("f16x2", 32, "float", np.dtype(np.float16), lanes=2),
        PtxType("bf16x2", 32, "float", np.dtype(ml_dtypes.bfloat16), lanes=2),
    )
}
