"""Tensor maps for a real GPU: the CUDA driver encodes them, through ctypes.

The 128 bytes are opaque; ``cuTensorMapEncodeTiled`` of ``libcuda`` (CUDA 12 and newer) makes them.
Numbers are those of ``cuda.h``.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.backends.gpu.tensor_maps import TensorMapPlan
from wia_compiler.base.errors import TargetError
from wia_compiler.dialects.nvgpu_hopper_types import TENSOR_MAP_BYTES

Encode = Callable[..., int]
"""``cuTensorMapEncodeTiled``."""
MAP_ALIGNMENT = 64
_DATA_TYPES = {
    **{"u8": 0, "i8": 0, "i16": 1, "i32": 3, "i64": 5},
    **{"f16": 6, "f32": 7, "f64": 8, "bf16": 9},
}
"""``CUtensorMapDataType``; 8- and 16-bit integers are copied as they are, whatever their sign."""
_SWIZZLES = {"none": 0, "swizzle_32b": 1, "swizzle_64b": 2, "swizzle_128b": 3}
"""``CUtensorMapSwizzle``."""
_INTERLEAVE_NONE, _L2_PROMOTION_256B, _FILL_ZERO = 0, 3, 0
_STRUCT = np.dtype([("opaque", np.uint64, (TENSOR_MAP_BYTES // 8,))])


def encode_tensor_map(
    plan: TensorMapPlan, address: int, encode: Encode | None = None
) -> NDArray[Any]:
    """The tensor map of a buffer at a device address, as cupy passes a struct by value.

    ``encode`` is the driver's function unless it is given. ``TargetError`` where the driver has
    none or refuses.
    """
    encode = encode if encode is not None else _encode_of_driver()
    memory = np.zeros(TENSOR_MAP_BYTES + MAP_ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % MAP_ALIGNMENT
    content = memory[start : start + TENSOR_MAP_BYTES]
    rank = len(plan.shape)
    # The driver wants the innermost dimension first, and no stride for it.
    sizes = (ctypes.c_uint64 * rank)(*reversed(plan.shape))
    strides = (ctypes.c_uint64 * max(rank - 1, 1))(*reversed(plan.strides_bytes[:-1]))
    box = (ctypes.c_uint32 * rank)(*reversed(plan.box))
    every = (ctypes.c_uint32 * rank)(*[1] * rank)
    status = encode(
        ctypes.c_void_p(content.ctypes.data),
        ctypes.c_int(_DATA_TYPES[plan.dtype]),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(address),
        sizes,
        strides,
        box,
        every,
        ctypes.c_int(_INTERLEAVE_NONE),
        ctypes.c_int(_SWIZZLES[plan.swizzle]),
        ctypes.c_int(_L2_PROMOTION_256B),
        ctypes.c_int(_FILL_ZERO),
    )
    if status:
        raise TargetError(
            f"the CUDA driver refused a tensor map with status {status}: {plan.dtype}"
            f"{list(plan.shape)} at {address:#x}, strides of {list(plan.strides_bytes)} bytes, "
            f"boxes of {list(plan.box)}, {plan.swizzle}"
        )
    return content.view(_STRUCT).copy()


@functools.cache
def _encode_of_driver() -> Encode:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return ctypes.CDLL(name).cuTensorMapEncodeTiled
    except (OSError, AttributeError) as error:
        raise TargetError(
            f"kernels for sm_90a need cuTensorMapEncodeTiled of {name}, which comes with the "
            f"driver of CUDA 12 and newer: {error}"
        ) from error
