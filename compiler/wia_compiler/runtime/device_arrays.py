"""Arrays that lie on a GPU of this machine: taken where they lie, through DLPack.

A kernel for a GPU reads them without a copy, and its results stay there. Whatever speaks DLPack
will do (cupy, PyTorch, JAX); inside they are cupy's.
"""

from __future__ import annotations

import importlib
from typing import Any

from wia_compiler.backends.gpu.execute import gpu_is_here
from wia_compiler.base.dtypes import DType, from_numpy
from wia_compiler.base.errors import ArgumentError

CUDA = 2
"""GPUs of NVIDIA, in the DLPack standard."""


def lies_on_gpu(value: object) -> bool:
    """Whether it is an array on a GPU that this process can use."""
    device: Any = getattr(value, "__dlpack_device__", None)
    if device is None or isinstance(value, type):
        return False
    return int(device()[0]) == CUDA and gpu_is_here()


def gpu_array(value: Any, where: str) -> tuple[Any, DType]:
    """The cupy array that shares the memory of ``value``, with its element type.

    ``ArgumentError`` for element types that the language does not have or cupy cannot take.
    """
    cupy: Any = importlib.import_module("cupy")
    try:
        array = value if isinstance(value, cupy.ndarray) else cupy.from_dlpack(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise ArgumentError(
            f"{where}: {type(value).__name__} on a GPU cannot be read: {error}\n"
            f"  help: copy it to the host first (cupy: array.get(), torch: array.cpu())"
        ) from error
    dtype = from_numpy(array.dtype)
    if dtype is None:
        raise ArgumentError(f"{where}: an array of {array.dtype} on a GPU is no type of ours")
    return array, dtype
