"""One call of a built kernel: arrays in, outputs allocated or written in place, result out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.errors import ArgumentError
from wia_compiler.base.signature import KernelSignature
from wia_compiler.passes.target import ArraySpec, Executable
from wia_compiler.runtime.arrays import as_writable, describe, element_type_of, is_ndarray
from wia_compiler.runtime.native.plans import new_array

Array = NDArray[Any]


@dataclass(frozen=True)
class PreparedCall:
    """Arguments checked and outputs in place: what remains is to run.

    ``execute()`` may be repeated (it writes ``outputs`` and never the caller's arguments);
    ``finish()`` then brings inout parameters and ``out=`` arrays that could not be written
    directly up to date and gives the result.
    """

    executable: Executable
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    results: tuple[Array, ...]

    def execute(self) -> Mapping[str, int | float]:
        """Run once; returns the counters of this run (empty where nothing counts)."""
        return self.executable(self.inputs, self.outputs)

    def finish(self) -> Any:
        """The result of the last run: one array, or a tuple of them."""
        for result, output in zip(self.results, self.outputs, strict=True):
            if result is not output:
                np.copyto(result, output, casting="equiv")
        return self.results[0] if len(self.results) == 1 else self.results


def prepare_call(
    signature: KernelSignature,
    executable: Executable,
    inputs: Sequence[Array],
    outputs: Sequence[ArraySpec],
    *,
    inouts: Mapping[str, Array],
    out: object = None,
) -> PreparedCall:
    """Allocate what the kernel writes and check ``out=``.

    ``inputs`` lie as the kernel was built for; ``inouts`` maps inout parameters to the caller's
    arrays. An ``out=`` array is written directly where it is C-contiguous, aligned and apart from
    all inputs, else through a temporary.
    """
    given = _given_outputs(signature, outputs, out)
    _refuse_overlap(signature, {**inouts, **given})
    new: Callable[..., Any] = np.empty
    if not all(is_ndarray(array) for array in inputs):
        new = allocator_on_gpu(signature.name, executable)
    elif getattr(executable, "native", None) is not None:
        new = new_array
    buffers: list[Array] = []
    results: list[Array] = []
    for spec in outputs:
        own = given.get(spec.name)
        if own is not None and _is_direct(own, spec, inputs):
            buffer = own
        else:
            buffer = new(spec.spec.shape, spec.spec.dtype.numpy)
        buffers.append(buffer)
        results.append(inouts.get(spec.name, buffer if own is None else own))
    return PreparedCall(executable, tuple(inputs), tuple(buffers), tuple(results))


def allocator_on_gpu(kernel: str, executable: Executable) -> Callable[..., Any]:
    """What makes outputs beside inputs that lie on a GPU; ``ArgumentError`` where code does not."""
    new = getattr(executable, "new_array", None)
    if new is None:
        raise ArgumentError(
            f"{kernel}: an array lies on device CUDA, expected host memory for this target\n"
            "  help: build it for a gpu, or copy the array to the host first "
            "(cupy: array.get(), torch: array.cpu())"
        )
    return new


def _is_direct(destination: Array, spec: ArraySpec, inputs: Sequence[Array]) -> bool:
    flags = destination.flags
    if not (flags.c_contiguous and flags.aligned and destination.dtype == spec.spec.dtype.numpy):
        return False
    return not any(np.may_share_memory(destination, array) for array in inputs)


def _given_outputs(
    signature: KernelSignature, outputs: Sequence[ArraySpec], out: object
) -> dict[str, Array]:
    """The arrays of ``out=`` by output name, from one array, a tuple or a mapping."""
    if out is None:
        return {}
    inout_names = {p.name for p in signature.parameters if p.role == "inout"}
    specs = {spec.name: spec for spec in outputs if spec.name not in inout_names}
    given = _named(signature, tuple(specs), out)
    return {
        name: _checked(f"{signature.name}(out={name})", value, specs[name])
        for name, value in given.items()
        if value is not None
    }


def _refuse_overlap(signature: KernelSignature, written: Mapping[str, Array]) -> None:
    names = list(written)
    for index, name in enumerate(names):
        for other in names[:index]:
            if np.may_share_memory(written[name], written[other]):
                raise ArgumentError(
                    f"{signature.name}: the arrays for {other} and {name} overlap in memory, and "
                    f"the kernel writes both\n  help: give each of them memory of its own"
                )


def _named(signature: KernelSignature, names: tuple[str, ...], out: object) -> dict[str, Any]:
    if not names:
        raise ArgumentError(
            f"{signature.name}(out=): the kernel has no output parameter, only inout ones\n"
            f"  help: leave out= away; inout arguments are updated in place"
        )
    listed = ", ".join(names)
    if _is_mapping(out):
        for name in out:
            if name not in names:
                raise ArgumentError(
                    f"{signature.name}(out=): no output {name!r}, expected one of {listed}"
                )
        return dict(out)
    values: tuple[Any, ...] = tuple(out) if _is_sequence(out) else (out,)
    if len(values) != len(names):
        raise ArgumentError(
            f"{signature.name}(out=): got {len(values)} array{'s' if len(values) != 1 else ''}, "
            f"expected {len(names)} ({listed})\n"
            f"  help: give a tuple in that order, or a mapping such as {{{names[0]!r}: array}}"
        )
    return dict(zip(names, values, strict=True))


def _is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, tuple | list)


def _checked(where: str, value: object, spec: ArraySpec) -> Array:
    expected = f"{spec.spec.dtype}[{','.join(map(str, spec.spec.shape))}]"
    array = as_writable(value, where, expected)
    dtype = element_type_of(array, where)
    if array.shape != spec.spec.shape or dtype != spec.spec.dtype:
        raise ArgumentError(
            f"{where}: got {describe(array)}, expected {expected}\n"
            f"  help: pass np.empty({spec.spec.shape}, {spec.spec.dtype.numpy.name!r}), "
            f"or leave out= away"
        )
    return array
