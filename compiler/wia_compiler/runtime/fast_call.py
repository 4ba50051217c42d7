"""The short way into a kernel that was called with the same kinds of arguments before.

A call spends its time in Python on finding out what it was given. Here the arguments' types,
dtypes, shapes and strides are one dictionary key, and what they lead to is prepared. Looked at
again is only what may differ between calls with equal keys: alignment, values of scalars and
whether ``out=`` can be written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from wia_compiler.passes.target import ArraySpec
from wia_compiler.runtime.arguments import scalar_dtype
from wia_compiler.runtime.build import Build
from wia_compiler.runtime.scalars import scalar_array

Array = NDArray[Any]

# PyArrayObject is PyObject_HEAD (two words) followed by the pointer to the data, in every numpy
# since 1.0; reading it takes 0.1 µs where ``array.ctypes.data`` takes 1 to 3.
DATA_POINTER_OFFSET = 2 * ctypes.sizeof(ctypes.c_void_p)


@runtime_checkable
class NativeExecutable(Protocol):
    """An executable that is one C function ``void kernel(void **buffers)`` in this process."""

    @property
    def address(self) -> int:
        """Where the function is; its buffers are the inputs, then the outputs."""
        ...


class FastCall:
    """One build, ready for positional arguments of one kind (see ``kind_of``).

    Calling it gives the result, or ``None`` where these arguments need the long way after all.
    """

    __slots__ = ("_allocations", "_convert", "_extents", "_function", "_masks", "_pack")

    def __init__(self, build: Build, executable: NativeExecutable, count: int):
        specs = (*build.inputs, *build.outputs)
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(executable.address)
        self._pack: Callable[..., Any] = ctypes.c_size_t * len(specs)
        self._allocations = [(spec.spec.shape, spec.spec.dtype.numpy) for spec in build.outputs]
        self._masks = [spec.spec.dtype.numpy.alignment - 1 for spec in specs]
        self._extents = [_extent_bytes(spec) for spec in specs]
        self._convert = _converter(build, count)

    def __call__(self, arguments: Sequence[Any], out: Array | None) -> Any:
        """The result of the call, or ``None``."""
        inputs: Sequence[Array] = arguments if self._convert is None else self._convert(arguments)
        if out is None:
            outputs = [np.empty(shape, dtype) for shape, dtype in self._allocations]
        else:
            outputs = [out]
        address_at, offset = ctypes.c_size_t.from_address, DATA_POINTER_OFFSET
        pointers = [address_at(id(array) + offset).value for array in (*inputs, *outputs)]
        for pointer, mask in zip(pointers, self._masks, strict=True):
            if pointer & mask:
                return None
        if out is not None and not (out.flags.writeable and self._last_is_apart(pointers)):
            return None
        self._function(self._pack(*pointers))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _last_is_apart(self, pointers: Sequence[int]) -> bool:
        """Whether the last buffer (``out=``) shares no byte with the others."""
        start = pointers[-1]
        end = start + self._extents[-1][1]
        for pointer, (low, high) in zip(pointers[:-1], self._extents[:-1], strict=True):
            if pointer + low < end and start < pointer + high:
                return False
        return True


def kind_of(arguments: Sequence[Any], out: object) -> tuple[Any, ...]:
    """The dictionary key of a call: equal where one ``FastCall`` can serve both."""
    ndarray = np.ndarray
    kinds = [(a.dtype, a.shape, a.strides) if type(a) is ndarray else type(a) for a in arguments]
    if out is not None:
        kinds.append(kind_of((out,), None))
    return tuple(kinds)


def fast_call(
    build: Build, arguments: Sequence[Any], used: Sequence[Array], out: object, written: Array
) -> FastCall | None:
    """The short way for calls like this one, ``None`` where there is none.

    ``used`` are the arrays that the kernel read and ``written`` its first output: only calls that
    took every array as it came can be shortened.
    """
    inputs = build.signature.inputs
    if any(parameter.role == "inout" for parameter in inputs):
        return None
    if out is not None and (out is not written or len(build.outputs) != 1):
        return None
    for parameter, argument, array in zip(inputs, arguments, used, strict=False):
        if parameter.role != "scalar" and (argument is not array or type(array) is not np.ndarray):
            return None
    executable = build.executable
    if not isinstance(executable, NativeExecutable) or not _reads_data_pointers():
        return None
    return FastCall(build, executable, len(arguments))


def _converter(build: Build, count: int) -> Callable[[Sequence[Any]], list[Array]] | None:
    """Turns ``count`` positional arguments into arrays; ``None`` where they are arrays all."""
    inputs = build.signature.inputs
    scalars = [
        (index, scalar_dtype(parameter), f"{build.kernel}({parameter.name})")
        for index, parameter in enumerate(inputs[:count])
        if parameter.role == "scalar"
    ]
    defaults = [
        scalar_array(parameter.default, scalar_dtype(parameter), parameter.name)
        for parameter in inputs[count:]
    ]
    if not scalars and not defaults:
        return None

    def convert(arguments: Sequence[Any]) -> list[Array]:
        arrays: list[Array] = [*arguments, *defaults]
        for index, dtype, where in scalars:
            arrays[index] = scalar_array(arrays[index], dtype, where)
        return arrays

    return convert


def _extent_bytes(spec: ArraySpec) -> tuple[int, int]:
    """The first byte of an array and the one after its last, counted from its first element."""
    size = spec.spec.dtype.size_bytes
    if spec.strides is None:
        return 0, spec.spec.size_bytes
    steps = [(n - 1) * stride for n, stride in zip(spec.spec.shape, spec.strides, strict=True)]
    return size * sum(min(step, 0) for step in steps), size * (1 + sum(max(s, 0) for s in steps))


def _reads_data_pointers() -> bool:
    """Whether this Python and numpy lay arrays out as ``DATA_POINTER_OFFSET`` says."""
    probe = np.arange(3)
    found = ctypes.c_size_t.from_address(id(probe) + DATA_POINTER_OFFSET).value
    return found == probe.__array_interface__["data"][0]
