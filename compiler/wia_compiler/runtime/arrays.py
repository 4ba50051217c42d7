"""Whatever a caller holds, as a numpy array that a kernel can read, or an error."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.dtypes import DTYPES, DType, from_numpy
from wia_compiler.base.errors import ArgumentError

# Devices of the DLPack standard whose memory this process can read.
DLPACK_HOST_DEVICES = (1, 3)
DLPACK_DEVICE_NAMES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI"}


def as_array(value: object, where: str) -> tuple[NDArray[Any], DType]:
    """``value`` as a numpy array that a kernel can read in place, with its element type.

    Takes numpy arrays, and anything with ``__dlpack__`` or ``__array__``, and shares their memory.
    Only arrays with foreign byte order, unaligned addresses or strides that are no whole elements
    are copied. An array on a GPU of this machine stays there: it is then cupy's, which kernels for
    a GPU take. ``where`` names the parameter in messages (``matmul(A)``).
    """
    if not is_ndarray(value) and hasattr(value, "__dlpack_device__"):
        # cupy is looked for only where something may lie on a GPU.
        from wia_compiler.runtime.device_arrays import gpu_array, lies_on_gpu

        if lies_on_gpu(value):
            return gpu_array(value, where)
    array = to_numpy(value, where)
    dtype = element_type_of(array, where)
    return readable(array, dtype), dtype


def as_writable(value: object, where: str, spec: str) -> NDArray[Any]:
    """The numpy array whose memory is that of ``value``, for a kernel to write into.

    Raises ``ArgumentError`` for read-only memory, for objects that only give copies of themselves
    and for views in which one element stands for several. ``spec`` says what was expected.
    """
    if not is_ndarray(value) and not hasattr(value, "__dlpack__"):
        raise ArgumentError(
            f"{where}: {describe(value)} cannot be written in place, expected an array {spec}\n"
            f"  help: pass a numpy array"
        )
    array = to_numpy(value, where)
    if not array.flags.writeable:
        raise ArgumentError(
            f"{where}: the array is read-only, and the kernel writes it\n"
            f"  help: pass a copy: array.copy()"
        )
    repeats = [step == 0 for step, size in zip(array.strides, array.shape, strict=True) if size > 1]
    if array.size and any(repeats):
        raise ArgumentError(
            f"{where}: a broadcast view (one element stands for several) cannot be written\n"
            f"  help: pass a copy: array.copy()"
        )
    return array


def is_ndarray(value: object) -> TypeGuard[NDArray[Any]]:
    """Whether it is a numpy array (of any subclass)."""
    return isinstance(value, np.ndarray)


def is_numpy_scalar(value: object) -> TypeGuard[np.generic[Any]]:
    """Whether it is one element of a numpy array."""
    return isinstance(value, np.generic)


def readable(array: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """The array itself, or a C-order copy where a kernel cannot read it in place."""
    if array.dtype == dtype.numpy and is_readable(array):
        return array
    return array.astype(dtype.numpy, order="C")


def element_type_of(array: NDArray[Any], where: str) -> DType:
    """The element type of an array in either byte order, else ``ArgumentError``."""
    dtype = from_numpy(array.dtype.newbyteorder("="))
    if dtype is not None:
        return dtype
    allowed = ", ".join(DTYPES)
    if array.dtype.hasobject:
        raise ArgumentError(
            f"{where}: an array of Python objects, expected numbers ({allowed})\n"
            f"  help: give the elements one type: array.astype(np.float32)"
        )
    if array.dtype.names is not None:
        fields = ", ".join(array.dtype.names)
        raise ArgumentError(
            f"{where}: a structured array with the fields {fields}, expected one of {allowed}\n"
            f"  help: pass one field: array[{array.dtype.names[0]!r}]"
        )
    near = {"u": "i64", "c": "f32"}.get(array.dtype.kind, "f32")
    raise ArgumentError(
        f"{where}: an array of {array.dtype}, expected one of {allowed}\n"
        f"  help: convert it: array.astype(np.{DTYPES[near].numpy})"
    )


def is_readable(array: NDArray[Any]) -> bool:
    """Whether a kernel can read the array where it lies: aligned, strides in whole elements."""
    if not array.flags.aligned:
        return False
    return all(stride % array.itemsize == 0 for stride in array.strides)


def to_numpy(value: object, where: str) -> NDArray[Any]:
    """The numpy array that shares the memory of ``value``, of whatever element type."""
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(
            f"{where}: a masked array, whose mask a kernel would ignore\n"
            f"  help: say what masked elements are: array.filled(0)"
        )
    if is_ndarray(value) or is_numpy_scalar(value):
        return np.asarray(value)
    try:
        if hasattr(value, "__dlpack__"):
            return _from_dlpack(value, where)
        if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
            return np.asarray(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise ArgumentError(
            f"{where}: {type(value).__name__} cannot be read as an array: {error}\n"
            f"  help: convert it to a numpy array first"
        ) from error
    raise ArgumentError(
        f"{where}: {describe(value)}, expected an array (numpy, or anything with __dlpack__ or "
        f"__array__)\n  help: {_conversion(value)}"
    )


def _from_dlpack(value: Any, where: str) -> NDArray[Any]:
    device, number = value.__dlpack_device__()
    if int(device) not in DLPACK_HOST_DEVICES:
        name = DLPACK_DEVICE_NAMES.get(int(device), f"DLPack type {int(device)}")
        raise ArgumentError(
            f"{where}: the array lies on device {name}:{number}, expected host memory\n"
            f"  help: copy it to the host first (cupy: array.get(), torch: array.cpu())"
        )
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError):
        # numpy's DLPack reader knows no bfloat16 and refuses some read-only arrays.
        if not hasattr(value, "__array__"):
            raise
        return np.asarray(value)


def describe(value: object) -> str:
    """What came, in the words of a message: ``the float 2.5``, ``an array f32[3,4]``, ``None``."""
    if value is None:
        return "None"
    if is_ndarray(value):
        row = None if value.dtype.hasobject else from_numpy(value.dtype.newbyteorder("="))
        name = row.name if row is not None else str(value.dtype)
        return f"an array {name}[{','.join(map(str, value.shape))}]"
    if is_numpy_scalar(value):
        return repr(value)
    if isinstance(value, bool | int | float | str):
        text = repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:37]}…"
        return f"the {type(value).__name__} {text}"
    return f"a {type(value).__name__}"


def _conversion(value: object) -> str:
    if isinstance(value, list | tuple):
        return "convert it: np.asarray(values, dtype=np.float32)"
    if isinstance(value, bool | int | float):
        return f"pass np.float32({value!r}) for an array without axes"
    return "pass an array"
