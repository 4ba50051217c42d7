"""The element types of the language: one row each, with the numpy dtype that holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np

Kind = Literal["float", "int", "uint", "bool"]


@dataclass(frozen=True)
class DType:
    """An element type: ``name`` as the language spells it, ``bits`` of its value, its numpy dtype.

    ``accumulator`` is the name of the type in which sums, means and products of many elements
    are carried (numerics contract: f16 and bf16 accumulate in f32).
    """

    name: str
    kind: Kind
    bits: int
    numpy: np.dtype[Any]
    accumulator: str

    @property
    def size_bytes(self) -> int:
        """Bytes that one element takes in memory (a bool takes one)."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """Whether it is f64, f32, f16 or bf16."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer (bool is not)."""
        return self.kind in ("int", "uint")

    def __str__(self) -> str:
        return self.name


F64 = DType("f64", "float", 64, np.dtype(np.float64), "f64")
F32 = DType("f32", "float", 32, np.dtype(np.float32), "f32")
F16 = DType("f16", "float", 16, np.dtype(np.float16), "f32")
BF16 = DType("bf16", "float", 16, np.dtype(ml_dtypes.bfloat16), "f32")
I64 = DType("i64", "int", 64, np.dtype(np.int64), "i64")
I32 = DType("i32", "int", 32, np.dtype(np.int32), "i32")
I16 = DType("i16", "int", 16, np.dtype(np.int16), "i16")
I8 = DType("i8", "int", 8, np.dtype(np.int8), "i8")
U8 = DType("u8", "uint", 8, np.dtype(np.uint8), "u8")
BOOL = DType("bool", "bool", 1, np.dtype(np.bool_), "bool")

DTYPES: dict[str, DType] = {d.name: d for d in (F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL)}


def from_numpy(dtype: Any) -> DType | None:
    """The row whose numpy dtype equals ``dtype`` (native byte order), or ``None``."""
    wanted = np.dtype(dtype)
    for row in DTYPES.values():
        if row.numpy == wanted:
            return row
    return None
