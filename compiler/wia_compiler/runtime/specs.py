"""Shape, dtype and layout of one argument: what a build is specialised on."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.dtypes import DTYPES, DType, from_numpy
from wia_compiler.base.errors import ArgumentError

MAX_RANK = 32


@dataclass(frozen=True)
class Spec:
    """An array without its data: ``f32[1024,512]``.

    ``strides`` count elements; ``None`` is C order (also for arrays with at most one element,
    whose strides mean nothing).
    """

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...] | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        count = self.dtype.size_bytes
        for size in self.shape:
            count *= size
        return count

    def __str__(self) -> str:
        text = f"{self.dtype}[{','.join(map(str, self.shape))}]" if self.shape else str(self.dtype)
        return (
            text if self.strides is None else f"{text} strides({', '.join(map(str, self.strides))})"
        )

    def __repr__(self) -> str:
        return f"<wia.spec {self}>"


def spec(
    shape: int | Sequence[int], dtype: Any = "f32", *, strides: Sequence[int] | None = None
) -> Spec:
    """Describe an array that need not exist yet, for ``kernel.build``.

    ``shape`` is a sequence of sizes (or one size), ``dtype`` a name of the language (``"f32"``,
    ``"bf16"`` …) or a numpy dtype, ``strides`` the distance between neighbours along each axis in
    elements (default: C order). Raises ``ArgumentError`` for what the language does not have.

    >>> spec((1024, 512), "f32")
    <wia.spec f32[1024,512]>
    """
    sizes = _sizes("shape", shape)
    if any(size < 0 for size in sizes):
        raise ArgumentError(f"spec: shape {sizes} has a negative size; sizes count from 0")
    if len(sizes) > MAX_RANK:
        raise ArgumentError(f"spec: a shape of {len(sizes)} axes, expected at most {MAX_RANK}")
    row = dtype_named(dtype)
    if strides is None:
        return Spec(sizes, row)
    steps = _sizes("strides", strides)
    if len(steps) != len(sizes):
        raise ArgumentError(
            f"spec: {len(steps)} strides for a shape of {len(sizes)} axes; give one stride an axis"
        )
    return Spec(sizes, row, normal_strides(sizes, steps))


def dtype_named(dtype: Any) -> DType:
    """The element type that a name, numpy dtype or ``DType`` stands for, else ``ArgumentError``."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype]
    try:
        row = from_numpy(dtype) if dtype is not None else None
    except TypeError:
        row = None
    if row is not None:
        return row
    near = difflib.get_close_matches(str(dtype), DTYPES, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ArgumentError(f"no dtype {dtype!r}: expected one of {', '.join(DTYPES)}{hint}")


def spec_of_array(array: NDArray[Any], dtype: DType) -> Spec:
    """The spec of an array whose strides are whole elements (``arrays.as_array`` sees to that)."""
    if array.flags.c_contiguous:
        return Spec(array.shape, dtype)
    steps = tuple(stride // array.itemsize for stride in array.strides)
    return Spec(array.shape, dtype, normal_strides(array.shape, steps))


def normal_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides that decide where elements lie, so that equal layouts compare equal.

    The stride of an axis of size 1 is never used and becomes 0; C order becomes ``None``.
    """
    if 0 in shape:
        return None
    expected, is_c_order = 1, True
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            is_c_order = is_c_order and stride == expected
            expected *= size
    if is_c_order:
        return None
    return tuple(0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True))


def _sizes(what: str, value: int | Sequence[int]) -> tuple[int, ...]:
    items: Sequence[Any] = (value,) if isinstance(value, int | np.integer) else value
    try:
        sizes = tuple(items)
    except TypeError:
        raise ArgumentError(
            f"spec: {what} {value!r}, expected a sequence of whole numbers"
        ) from None
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int | np.integer):
            raise ArgumentError(f"spec: {what} holds {size!r}, expected whole numbers")
    return tuple(int(size) for size in sizes)
