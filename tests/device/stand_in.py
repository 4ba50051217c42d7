"""cupy without a GPU, for rehearsals: memory is the host's, kernels run on the PTX simulator.

It has what the runtime and the scripts of this folder call, with the arguments that cupy documents;
whatever else they asked for is an error. A launch takes a millisecond of its clock, whatever it is.
"""

from __future__ import annotations

import bisect
import ctypes
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
from wia_compiler.backends.gpu import driver, execute
from wia_compiler.simulators.ptx import TensorMap, run

CAPABILITY = "90"
L2_BYTES = 1 << 16
_BUDGET = 10**8
"""Warp instructions of a launch, at most."""
_now_ms = 0.0
_addresses: list[int] = []
_memory: dict[int, np.ndarray[Any, Any]] = {}
_maps: list[tuple[Any, ...]] = []
_SWIZZLES = {0: None, 1: "32B", 2: "64B", 3: "128B"}
_ELEMENTS = {0: np.uint8, 6: np.float16, 7: np.float32, 8: np.float64, 9: ml_dtypes.bfloat16}
_CUDA_TYPES = {0: np.float32, 2: np.float16, 14: ml_dtypes.bfloat16}


class Array:
    """A device array; slices share its memory."""

    def __init__(self, host: np.ndarray[Any, Any]):
        self.host = host
        self.data = SimpleNamespace(ptr=host.__array_interface__["data"][0])
        self.flags = host.flags
        self.nbytes, self.shape, self.dtype = host.nbytes, host.shape, host.dtype
        self.strides, self.itemsize = host.strides, host.itemsize

    def copy(self) -> Array:
        return _placed(self.host)

    def fill(self, value: Any) -> None:
        self.host.fill(value)

    def __getitem__(self, key: Any) -> Array:
        return Array(self.host[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.host[key] = value.host if isinstance(value, Array) else value


class Event:
    """A moment of the stream."""

    def __init__(self) -> None:
        self.at_ms = 0.0

    def record(self) -> None:
        self.at_ms = _now_ms

    def synchronize(self) -> None:
        pass


class RawModule:
    """A PTX file whose entries are run by the simulator."""

    def __init__(self, *, path: str):
        self._text = Path(path).read_text(encoding="utf-8")

    def get_function(self, name: str) -> RawKernel:
        return RawKernel(self._text, name)


class RawKernel:
    """One entry; arguments are addresses as 64-bit numbers, and tensor maps by value."""

    max_dynamic_shared_size_bytes = 48 << 10

    def __init__(self, text: str, name: str):
        self._text, self._name = text, name

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple[Any, ...],
        *,
        shared_mem: int = 0,
    ) -> None:
        global _now_ms
        assert shared_mem <= self.max_dynamic_shared_size_bytes, "more than was asked for"
        passed = [_map_of(a) if isinstance(a, np.ndarray) else _from(int(a)) for a in args]
        run(self._text, self._name, grid, block, passed, shared_bytes=shared_mem, budget=_BUDGET)
        _now_ms += 1.0


def _placed(host: np.ndarray[Any, Any]) -> Array:
    """A copy in memory of the device's own, which begins at a multiple of 256 bytes as cupy's."""
    raw = np.zeros(host.nbytes + 512, np.uint8)
    start = -raw.__array_interface__["data"][0] % 256
    memory = raw[start : start + host.nbytes + 256]
    address = memory.__array_interface__["data"][0]
    bisect.insort(_addresses, address)
    _memory[address] = memory
    made = memory[: host.nbytes].view(host.dtype).reshape(host.shape)
    made[...] = host
    return Array(made)


def _from(address: int) -> np.ndarray[Any, Any]:
    """The memory from an address on, to the end of what was allocated there."""
    first = _addresses[bisect.bisect_right(_addresses, address) - 1]
    return _memory[first][address - first :]


def _at(address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return _from(address)[:size].view(dtype).reshape(shape)


def _encode(memory: Any, kind: Any, rank: Any, address: Any, *lists: Any) -> int:
    """``cuTensorMapEncodeTiled``: the bytes of a map are its number here."""
    sizes, strides, box, every = ([*each] for each in lists[:4])
    assert len(sizes) == len(box) == rank.value and every == [1] * rank.value
    _maps.append((kind.value, address.value, sizes, strides, box, lists[5].value))
    ctypes.c_uint64.from_address(memory.value).value = len(_maps) - 1
    return 0


def _map_of(value: np.ndarray[Any, Any]) -> TensorMap:
    assert (value.size, value.nbytes) == (1, 128), "cupy passes arrays of one element by value"
    number = int(value.reshape(-1).view(np.uint64)[0])
    kind, address, sizes, strides, box, swizzle = _maps[number]
    element = np.dtype(_ELEMENTS[kind])
    shape, steps = sizes[::-1], [*strides[: len(sizes) - 1][::-1], element.itemsize]
    array = np.lib.stride_tricks.as_strided(_from(address).view(element), shape, steps)
    return TensorMap(array, box=box[::-1], strides=steps, swizzle=_SWIZZLES[swizzle])


def _gemm_ex(
    handle: Any, turns_a: int, turns_b: int, m: int, n: int, k: int, alpha: int, a: int,
    kind_a: int, lda: int, b: int, kind_b: int, ldb: int, beta: int, c: int, kind_c: int,
    ldc: int, compute: int, algorithm: int,
) -> None:  # fmt: skip
    """``cublasGemmEx`` of dense matrices that are not transposed: columns first."""
    global _now_ms
    assert (handle, turns_a, turns_b, compute, algorithm) == (1, 0, 0, 68, -1)
    assert (lda, ldb, ldc) == (m, k, m)
    one, zero = (ctypes.c_float.from_address(each).value for each in (alpha, beta))
    assert (one, zero) == (1.0, 0.0)
    left = _at(a, (k, m), _CUDA_TYPES[kind_a]).astype(np.float32)
    right = _at(b, (n, k), _CUDA_TYPES[kind_b]).astype(np.float32)
    _at(c, (n, m), _CUDA_TYPES[kind_c])[...] = (right @ left).astype(_CUDA_TYPES[kind_c])
    _now_ms += 1.0


def _copy(target: Array, source: Array) -> None:
    global _now_ms
    np.copyto(target.host, source.host)
    _now_ms += 1.0


def install() -> None:
    """Put it where ``import cupy`` finds it, and in the place of the driver's function."""
    made: Any = ModuleType("cupy")
    made.__spec__ = ModuleSpec("cupy", None)
    made.RawModule, made.ndarray = RawModule, Array
    for name in ("uint8", "uint16", "float32"):
        setattr(made, name, getattr(np, name))
    made.empty = lambda shape, dtype: _placed(np.full(shape, 0x5A).astype(dtype))
    made.zeros = lambda shape, dtype: _placed(np.zeros(shape, dtype))
    made.zeros_like = lambda array: _placed(np.zeros_like(array.host))
    made.asarray = lambda host: _placed(np.ascontiguousarray(host))
    made.ascontiguousarray = lambda array: _placed(np.ascontiguousarray(array.host))
    made.asnumpy = lambda array: array.host.copy()
    made.copyto = _copy
    fault = type("CUDARuntimeError", (RuntimeError,), {})
    made.cuda = SimpleNamespace(
        runtime=SimpleNamespace(
            getDeviceCount=lambda: 1,
            CUDARuntimeError=fault,
            getDeviceProperties=lambda number: {"name": b"a simulator"},
        ),
        Device=lambda: SimpleNamespace(
            compute_capability=CAPABILITY, attributes={"L2CacheSize": L2_BYTES}
        ),
        Event=Event,
        get_elapsed_time=lambda start, end: end.at_ms - start.at_ms,
        get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
        device=SimpleNamespace(get_cublas_handle=lambda: 1),
        cublas=SimpleNamespace(
            CUBLAS_POINTER_MODE_HOST=0, setPointerMode=lambda handle, mode: None, gemmEx=_gemm_ex
        ),
    )
    sys.modules["cupy"] = made
    driver._encode_of_driver = lambda: _encode
    execute.code_for = lambda artifact, capability: "kernel.ptx"  # a simulator reads no cubin
