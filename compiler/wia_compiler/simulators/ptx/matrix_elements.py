"""Elements of matrices: their types, and the numbers that registers hold of them."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.threads import Array
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm
from wia_compiler.simulators.ptx.values.rounding import canonical

ELEMENTS: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
"""Types of factors that numpy has; ``s4``, ``u4`` and ``b1`` it has not."""
BITS = {name: 8 * dtype.itemsize for name, dtype in ELEMENTS.items()} | {"s4": 4, "u4": 4, "b1": 1}
SUMS = {"f32", "f16", "s32", "f64"}
_TF32_BITS = np.uint32(0xFFFFE000)
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)\Z")


def sizes_of(form: Form) -> tuple[int, int, int]:
    """Rows, columns and summed elements of a product."""
    for word in form.instruction.modifiers:
        found = _SHAPE.match(word)
        if found is not None:
            m, n, k = map(int, found.groups())
            return m, n, k
    raise UnknownForm(f"{form.instruction.name}: no shape")


def numbers(held: Array, name: str) -> NDArray[np.float64]:
    """Elements of a type as f64, from unsigned integers that hold them, lowest first.

    The last axis of ``held`` becomes as much longer as an integer holds elements.
    """
    held = np.ascontiguousarray(held)
    match name:
        case "tf32":
            # The lower 13 bits of the mantissa are not looked at.
            return (held & _TF32_BITS).view(np.float32).astype(np.float64)
        case "s4" | "u4":
            bytes_ = held.view(np.uint8)
            nibbles = np.stack([bytes_ & 15, bytes_ >> 4], axis=-1)
            nibbles = nibbles.reshape(*held.shape[:-1], -1).astype(np.float64)
            return np.where(nibbles > 7, nibbles - 16, nibbles) if name == "s4" else nibbles
        case "b1":
            return np.unpackbits(held.view(np.uint8), axis=-1, bitorder="little").astype("f8")
        case _:
            return held.view(ELEMENTS[name]).astype(np.float64)


def rounded_sums(form: Form, total: NDArray[np.float64], dtype: np.dtype[Any]) -> Array:
    """Exact sums as a type: floats rounded once, integers wrapped or limited (``.satfinite``)."""
    if dtype.kind != "i":
        return canonical(total.astype(dtype))
    if "satfinite" in form.flags:
        limits = np.iinfo(dtype)
        total = np.clip(total, limits.min, limits.max)
    return total.astype(np.int64).astype(dtype)
