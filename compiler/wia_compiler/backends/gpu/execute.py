"""Running PTX on a GPU of this machine through cupy."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from wia_compiler.backends.gpu.architecture import ARCHITECTURES, STATIC_SHARED_BYTES
from wia_compiler.backends.gpu.driver import encode_tensor_map
from wia_compiler.backends.gpu.launch import LaunchPlan
from wia_compiler.backends.gpu.lower import BUFFER_ALIGNMENT
from wia_compiler.backends.gpu.timing import GpuSamples, sample_launches
from wia_compiler.base.errors import TargetError
from wia_compiler.passes.status_record import raise_failure
from wia_compiler.passes.target import Artifact

INSTALL_CUPY = "pip install cupy-cuda13x"
KEPT_TENSOR_MAPS = 64
"""Tensor maps that an executable keeps: arrays that stay where they are need theirs once."""
Array = Any
"""A numpy or cupy array: cupy is optional, so its types are not known here."""


def gpu_is_here() -> bool:
    """Whether cupy is installed and sees a GPU of this machine."""
    if importlib.util.find_spec("cupy") is None:
        return False
    cupy: Any = importlib.import_module("cupy")
    try:
        return int(cupy.cuda.runtime.getDeviceCount()) > 0
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


def load_on_gpu(artifact: Artifact) -> GpuExecutable:
    """Load an artifact's code on the current device; ``TargetError`` where that cannot be."""
    if importlib.util.find_spec("cupy") is None:
        raise TargetError(
            f"running {artifact.kernel} for {artifact.target} needs a GPU of this machine and "
            f"cupy, which is not installed: {INSTALL_CUPY}; PTX, SASS and resources need neither"
        )
    cupy: Any = importlib.import_module("cupy")
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise TargetError(f"running {artifact.kernel} needs a GPU: {error}") from error
    if count == 0:
        raise TargetError(f"running {artifact.kernel} needs a GPU; cupy sees none here")
    _check_architecture(cupy, artifact)
    return GpuExecutable(cupy, artifact)


def _check_architecture(cupy: Any, artifact: Artifact) -> None:
    wanted = ARCHITECTURES[artifact.target.partition(":")[2]]
    have = str(cupy.cuda.Device().compute_capability)
    if wanted.runs_on(int(have)):
        return
    if wanted.is_specific and int(have) > wanted.capability:
        raise TargetError(
            f"{artifact.kernel} was built for {wanted.name}, whose instructions no other GPU has, "
            f"and this one is sm_{have}: build it with target gpu:sm_{wanted.capability}"
        )
    raise TargetError(
        f"{artifact.kernel} was built for {wanted.name}, this GPU is sm_{have}: "
        f"build it with target gpu:sm_{have} or an older one"
    )


def code_for(artifact: Artifact, capability: int) -> str:
    """The file to load: the cubin where this GPU runs it as it is, else the PTX.

    A cubin runs on GPUs of its major version whose minor one is not below its own; the driver
    compiles PTX for the others when it is loaded.
    """
    built = ARCHITECTURES[artifact.target.partition(":")[2]].capability
    same = built // 10 == capability // 10 and built % 10 <= capability % 10
    return "kernel.cubin" if same and "kernel.cubin" in artifact.files else "kernel.ptx"


@dataclass(frozen=True)
class Placed:
    """Arrays on the device: addresses of all buffers, the buffers, those of the outputs.

    ``kept`` are copies of inputs that nobody else holds.
    """

    pointers: Sequence[int]
    held: Sequence[Array]
    results: Sequence[Array]
    kept: Sequence[Array]


class GpuExecutable:
    """Launches an artifact's kernels in order; a branch waits for its condition and reads it back.

    numpy arrays are copied to the device and outputs back; cupy arrays are used where they lie.
    Buffers begin at a multiple of 16 bytes, as the kernels assume: one that does not is copied.
    A kernel that checks indices is waited for: ``OutOfRangeError`` tells of the first that was
    outside of its array, after outputs are written.
    """

    def __init__(self, cupy: Any, artifact: Artifact):
        self._cupy = cupy
        self._plan = LaunchPlan.from_metadata(artifact.metadata)
        self._checks = artifact.metadata.get("checks", ())
        # RawModule reads its file again for each device it is used on, so the folder stays.
        folder = tempfile.mkdtemp(prefix="wia-gpu-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        name = code_for(artifact, int(str(cupy.cuda.Device().compute_capability)))
        path = Path(folder) / name
        path.write_bytes(artifact.files[name])
        self._module = cupy.RawModule(path=str(path))
        self._function = functools.cache(self._load_function)
        self._tensor_map = functools.lru_cache(KEPT_TENSOR_MAPS)(encode_tensor_map)

    def __call__(
        self, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> Mapping[str, int | float]:
        """Run on arrays of the specs it was built for; outputs are written in place.

        Launches go to cupy's current stream.
        """
        placed = self.place(inputs, outputs)
        self.launch(placed)
        for array, result in zip(outputs, placed.results, strict=True):
            self._give_back(array, result)
        if self._plan.status is not None:
            status = self._cupy.asnumpy(placed.held[self._plan.status])
            raise_failure(status, self._checks)
        return {}

    def device_timing(
        self, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> Callable[[float], GpuSamples]:
        """What times runs on these arrays for so many seconds, by the device's own clock.

        Arrays are on the device before the first run and outputs are not brought back: a sample is
        the launches alone.
        """
        placed = self.place(inputs, outputs)
        return lambda budget: sample_launches(
            self._cupy, lambda: self.launch(placed), budget_s=budget
        )

    def new_array(self, shape: Sequence[int], dtype: Any) -> Array:
        """An array on the device, for an output beside inputs that lie there."""
        return self._cupy.empty(tuple(shape), dtype)

    def place(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Placed:
        """Bring the inputs to the device, and allocate outputs and workspaces there."""
        cupy = self._cupy
        kept: list[Any] = []
        pointers = [self._input(array, kept) for array in inputs]
        results = [self._output(array) for array in outputs]
        pointers += [result.data.ptr for result in results]
        held = [*inputs, *results]
        for size in self._plan.workspace_bytes:
            allocate = cupy.zeros if len(held) == self._plan.status else cupy.empty
            held.append(allocate(max(size, 1), cupy.uint8))
            pointers.append(held[-1].data.ptr)
        return Placed(pointers, held, results, kept)

    def launch(self, placed: Placed) -> None:
        """The launches of one run; a branch waits for its condition."""
        pointers, held = placed.pointers, placed.held
        for launch in self._plan.in_order(lambda number: self._is_true(held[number])):
            function = self._function(launch.entry, launch.dynamic_shared_bytes)
            arguments = (
                *(np.uint64(pointers[number]) for number in launch.buffers),
                *(self._tensor_map(each, pointers[each.buffer]) for each in launch.tensor_maps),
            )
            function(
                (launch.blocks,),
                (launch.threads,),
                arguments,
                shared_mem=launch.dynamic_shared_bytes,
            )

    def _load_function(self, entry: str, dynamic_shared_bytes: int) -> Any:
        """An entry that may be launched with so much shared memory; once, not for each launch."""
        function = self._module.get_function(entry)
        if dynamic_shared_bytes > STATIC_SHARED_BYTES:
            function.max_dynamic_shared_size_bytes = dynamic_shared_bytes
        return function

    def _is_true(self, array: Array) -> bool:
        """The one bool of an array, on the host or on the device, after the launches before it."""
        cupy = self._cupy
        host = cupy.asnumpy(array) if isinstance(array, cupy.ndarray) else array
        return bool(np.asarray(host).reshape(-1)[:1].view(np.uint8)[0])

    def _input(self, array: Array, kept: list[Any]) -> int:
        """The device address of an input's element [0, 0, …], its strides as they are."""
        cupy = self._cupy
        if isinstance(array, cupy.ndarray):
            if array.data.ptr % BUFFER_ALIGNMENT == 0 or not array.flags.c_contiguous:
                return int(array.data.ptr)
            kept.append(array.copy())
            return int(kept[-1].data.ptr)
        low, high = byte_range(array)
        bytes_ = host_bytes(array, low, high)
        kept.append(cupy.asarray(bytes_))
        return int(kept[-1].data.ptr) - low

    def _output(self, array: Array) -> Any:
        """A device array for an output: itself, or one that is copied back after the launches."""
        cupy = self._cupy
        if isinstance(array, cupy.ndarray):
            if array.flags.c_contiguous and array.data.ptr % BUFFER_ALIGNMENT == 0:
                return array
            return cupy.ascontiguousarray(array).copy()
        return cupy.empty(max(array.nbytes, 1), cupy.uint8)

    def _give_back(self, array: Array, result: Any) -> None:
        if result is array:
            return
        if isinstance(array, self._cupy.ndarray):
            array[...] = result
            return
        # The transfer waits for the launches before it.
        data = self._cupy.asnumpy(result)[: array.nbytes]
        array[...] = data.view(array.dtype).reshape(array.shape)


def byte_range(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Where an array's bytes begin and end, relative to its element [0, 0, …]."""
    if prod(array.shape) == 0:
        return 0, 0
    reach = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    low = sum(each for each in reach if each < 0)
    return low, sum(each for each in reach if each > 0) + array.itemsize


def host_bytes(array: np.ndarray[Any, Any], low: int, high: int) -> np.ndarray[Any, Any]:
    """The memory that an array's elements lie in, from ``low`` to ``high``, as bytes."""
    if high == low:
        return np.zeros(1, np.uint8)
    if low == 0 and array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)
    # With every stride turned positive, the first element has the lowest address.
    axes = tuple(slice(None, None, -1 if stride < 0 else 1) for stride in array.strides)
    first = array[axes][tuple(slice(0, 1) for _ in array.shape)]
    lowest = np.lib.stride_tricks.as_strided(first, (1,), (array.itemsize,)).view(np.uint8)
    return np.lib.stride_tricks.as_strided(lowest, (high - low,), (1,), writeable=False)
