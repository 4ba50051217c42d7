"""Arrays of the host function: memory seen under static sizes and strides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import ArrayAttr, IntAttr, MemRefType, StridedLayoutAttr
from xdsl.ir import Attribute, SSAValue

from wia_compiler.base.dtypes import DType
from wia_compiler.passes.nests.body import scalar_type


@dataclass(frozen=True)
class View:
    """Elements of the memref ``value``: sizes and strides (in elements) from its first element."""

    value: SSAValue
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType

    @property
    def num_elements(self) -> int:
        """Product of the sizes."""
        return math.prod(self.shape)

    @cached_property
    def type(self) -> MemRefType[Attribute]:
        """The memref type of the view."""
        return memref_type(self.shape, self.strides, self.dtype)

    def permuted(self, order: Sequence[int]) -> View:
        """The axes in another order."""
        shape = tuple(self.shape[axis] for axis in order)
        return view(self.value, shape, self.dtype, tuple(self.strides[axis] for axis in order))

    def broadcast(self, shape: Sequence[int]) -> View:
        """Stretched by numpy's rules: stretched axes have stride 0."""
        missing = len(shape) - len(self.shape)
        sizes = (1,) * missing + self.shape
        strides = (0,) * missing + self.strides
        stretched = zip(sizes, shape, strides, strict=True)
        return view(
            self.value,
            tuple(shape),
            self.dtype,
            tuple(stride if old == new else 0 for old, new, stride in stretched),
        )

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The same elements in row-major order under another shape, where strides can say so."""
        strides: list[int] = []
        for old, new in reshape_groups(self.shape, shape):
            long = [axis for axis in old if self.shape[axis] != 1]
            for outer, inner in itertools.pairwise(long):
                if self.strides[outer] != self.strides[inner] * self.shape[inner]:
                    return None
            unit = self.strides[long[-1]] if long else 1
            sizes = [shape[axis] for axis in new]
            strides += [unit * stride for stride in row_major(sizes)]
        return view(self.value, tuple(shape), self.dtype, tuple(strides))


def view(
    value: SSAValue, shape: Sequence[int], dtype: DType, strides: Sequence[int] | None = None
) -> View:
    """A view with the strides that do not matter (axes of size 1, empty arrays) made row-major."""
    plain = row_major(shape)
    if strides is None or 0 in shape:
        return View(value, tuple(shape), plain, dtype)
    kept = zip(shape, strides, plain, strict=True)
    return View(value, tuple(shape), tuple(p if n == 1 else s for n, s, p in kept), dtype)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of C order."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def memref_type(
    shape: Sequence[int], strides: Sequence[int], dtype: DType
) -> MemRefType[Attribute]:
    """``memref<4x8xf32>``, with a ``strided`` layout where it is not C order."""
    if tuple(strides) == row_major(shape):
        return MemRefType(scalar_type(dtype), list(shape))
    layout = StridedLayoutAttr(ArrayAttr([IntAttr(stride) for stride in strides]))
    return MemRefType(scalar_type(dtype), list(shape), layout)


def strides_of(type: MemRefType[Attribute]) -> tuple[int, ...]:
    """Strides in elements of a memref type with a static layout."""
    if isinstance(type.layout, StridedLayoutAttr):
        return tuple(s.data for s in type.layout.strides if isinstance(s, IntAttr))
    return row_major(type.get_shape())


def reshape_groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Runs of old axes and runs of new axes that hold the same elements, as small as can be.

    ``(6, 4) → (2, 3, 4)`` is ``[([0], [0, 1]), ([1], [2])]``.
    """
    if 0 in old or 0 in new:
        return [(list(range(len(old))), list(range(len(new))))]
    if math.prod(old) != math.prod(new):
        raise ValueError(f"shapes {tuple(old)} and {tuple(new)} hold different numbers of elements")
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left: list[int] = []
        right: list[int] = []
        a = b = 1
        while True:
            if a <= b and i < len(old):
                a *= old[i]
                left.append(i)
                i += 1
            elif j < len(new):
                b *= new[j]
                right.append(j)
                j += 1
            if a == b and (left or i == len(old)) and (right or j == len(new)):
                break
        groups.append((left, right))
    return groups
