"""Tensor maps as data: which box of which array a kernel copies, for a driver or a simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.nvgpu_hopper import TensorMapCreateOp
from wia_compiler.dialects.nvgpu_hopper_types import TensorMapType
from wia_compiler.dialects.types import ELEMENT_TYPES
from wia_compiler.passes.llvm.types import size_bytes, strides_of

_SWIZZLES = {"swizzle_32b": "32B", "swizzle_64b": "64B", "swizzle_128b": "128B"}


@dataclass(frozen=True)
class TensorMapPlan:
    """The tensor map of one buffer of a launch plan.

    ``shape``, ``strides_bytes`` and ``box`` have an entry for each axis, the outermost first;
    ``dtype`` is a name of the language (``f16``), ``swizzle`` one of ``none``, ``swizzle_32b``,
    ``swizzle_64b`` and ``swizzle_128b``. Past the array, boxes have 0.
    """

    buffer: int
    dtype: str
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str

    def arguments(self, array: NDArray[Any]) -> Mapping[str, Any]:
        """What a simulator makes the map of, on the buffer's memory, which lies dense."""
        size = prod(self.shape) * self.element.itemsize
        memory = array.reshape(-1).view(np.uint8)[:size]
        return {
            "array": memory.view(self.element).reshape(self.shape),
            "box": self.box,
            "strides": self.strides_bytes,
            "swizzle": None if self.swizzle == "none" else _SWIZZLES[self.swizzle],
        }

    @property
    def element(self) -> np.dtype[Any]:
        """The type of the array's elements."""
        return np.dtype(DTYPES[self.dtype].numpy)

    @staticmethod
    def from_metadata(row: Mapping[str, Any]) -> TensorMapPlan:
        """Read what ``dataclasses.asdict`` and JSON made of one."""
        lists = {name: tuple(row[name]) for name in ("shape", "strides_bytes", "box")}
        return TensorMapPlan(
            buffer=row["buffer"], dtype=row["dtype"], swizzle=row["swizzle"], **lists
        )


def tensor_map_of(op: TensorMapCreateOp, buffer: int) -> TensorMapPlan:
    """What the host does for ``nvgpu.tma.create.descriptor`` on a buffer of the plan."""
    array = cast("MemRefType[Attribute]", op.tensor.type)
    size = size_bytes(array.element_type)
    map_type: TensorMapType = op.tensorMap.type
    names = {attribute: name for name, attribute in ELEMENT_TYPES.items()}
    return TensorMapPlan(
        buffer,
        names[array.element_type],
        tuple(array.get_shape()),
        tuple(stride * size for stride in strides_of(array)),
        map_type.box,
        map_type.swizzle.data,
    )
