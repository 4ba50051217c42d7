"""The short way into a kernel that was called with the same kinds of arguments before.

A call spends its time in Python on finding out what it was given. Here the arguments' types,
dtypes, shapes and strides are one dictionary key, and what they lead to is prepared. Looked at
again is only what may differ between calls with equal keys: alignment, values of scalars and
whether ``out=`` can be written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.runtime.arguments import scalar_dtype
from wia_compiler.runtime.launch import PreparedCall
from wia_compiler.runtime.scalars import scalar_array

if TYPE_CHECKING:
    from wia_compiler.runtime.build import Build

Array = NDArray[Any]
# Kinds of arguments remembered at once; past this the memory starts anew.
MAX_KINDS = 1024


class FastCall:
    """One build, ready for positional arguments of one kind (see ``kind_of``).

    Calling it gives the result, or ``None`` where these arguments need the long way after all.
    """

    __slots__ = ("_allocations", "_convert", "_executable")

    def __init__(self, build: Build, count: int):
        self._executable = build.executable
        self._allocations = [(spec.spec.shape, spec.spec.dtype.numpy) for spec in build.outputs]
        self._convert = _converter(build, count)

    def __call__(
        self, arguments: tuple[Any, ...], out: Array | None, bound: tuple[Array, ...] = ()
    ) -> Any:
        """The result of the call, or ``None``; ``bound`` are arrays that no argument is."""
        inputs = arguments if self._convert is None else self._convert(arguments)
        if bound:
            inputs = (*inputs, *bound)
        for array in inputs:
            if not array.flags.aligned:
                return None
        if out is None:
            outputs = tuple([np.empty(shape, dtype) for shape, dtype in self._allocations])
        else:
            flags = out.flags
            if not (flags.aligned and flags.writeable) or _overlaps(out, inputs):
                return None
            outputs = (out,)
        self._executable(inputs, outputs)
        return outputs[0] if len(outputs) == 1 else outputs


def kind_of(arguments: Sequence[Any], out: object) -> tuple[Any, ...]:
    """The dictionary key of a call: equal where one ``FastCall`` can serve both."""
    ndarray = np.ndarray
    kinds: list[Any] = [
        (a.dtype, a.shape, a.strides) if type(a) is ndarray else type(a) for a in arguments
    ]
    if out is not None:
        kinds.append(("out", *kind_of((out,), None)))
    return tuple(kinds)


class FastCalls:
    """The kinds of calls that were made before, each with its short way."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], FastCall] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, kind: tuple[Any, ...]) -> FastCall | None:
        """The short way for calls of that kind, ``None`` where there is none yet."""
        return self._known.get(kind)

    def learn(
        self,
        kind: tuple[Any, ...],
        build: Build,
        arguments: Sequence[Any],
        out: object,
        call: PreparedCall,
        bound: Sequence[Any] = (),
    ) -> None:
        """Remember a call that was just prepared, where calls like it can be shortened."""
        if kind in self._known or not _can_be_shortened(build, arguments, out, call, bound):
            return
        if len(self._known) >= MAX_KINDS:
            self._known.clear()
        self._known[kind] = FastCall(build, len(arguments))


def _can_be_shortened(
    build: Build, arguments: Sequence[Any], out: object, call: PreparedCall, bound: Sequence[Any]
) -> bool:
    """Whether every array was taken as it came, so that equal kinds need no conversion."""
    inputs = build.signature.passed
    taken = call.inputs[len(inputs) :]
    if any(a is not b or type(b) is not np.ndarray for a, b in zip(bound, taken, strict=True)):
        return False
    if any(parameter.role == "inout" for parameter in inputs):
        return False
    if out is not None and (out is not call.outputs[0] or len(build.outputs) != 1):
        return False
    return all(
        parameter.role == "scalar" or (argument is array and type(array) is np.ndarray)
        for parameter, argument, array in zip(inputs, arguments, call.inputs, strict=False)
    )


def _converter(build: Build, count: int) -> Callable[[Sequence[Any]], tuple[Array, ...]] | None:
    """Turns ``count`` positional arguments into arrays; ``None`` where they are arrays all."""
    inputs = build.signature.passed
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

    def convert(arguments: Sequence[Any]) -> tuple[Array, ...]:
        arrays: list[Any] = [*arguments, *defaults]
        for index, dtype, where in scalars:
            arrays[index] = scalar_array(arrays[index], dtype, where)
        return tuple(arrays)

    return convert


def _overlaps(out: Array, inputs: Sequence[Array]) -> bool:
    return any([np.may_share_memory(out, array) for array in inputs])
