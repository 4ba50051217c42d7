"""The plan of a call that was just made, where calls like it can be made without Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.signature import ParameterDeclaration
from wia_compiler.passes.target import NativeCode
from wia_compiler.runtime.arguments import scalar_dtype
from wia_compiler.runtime.launch import PreparedCall
from wia_compiler.runtime.native.plans import (
    Argument,
    ArrayArgument,
    BoundArgument,
    ConstantArgument,
    Plan,
    ScalarArgument,
    fits_plans,
    takes_natively,
)

if TYPE_CHECKING:
    from wia_compiler.runtime.build import Build


def plan_of(
    build: Build,
    arguments: Sequence[Any],
    out: object,
    call: PreparedCall,
    bindings: Mapping[str, Any],
) -> Plan | None:
    """The plan for calls like ``call``, which was prepared from these arguments.

    ``None`` where an argument was converted or copied, or is of a kind that Python looks at: then
    equal calls need that again. ``bindings`` holds the arrays of bound parameters.
    """
    code: NativeCode | None = getattr(build.executable, "native", None)
    inputs = build.signature.inputs
    if code is None or not fits_plans(len(inputs), len(build.outputs)):
        return None
    taken: list[Argument] = []
    for number, parameter in enumerate(inputs):
        passed = arguments[number] if number < len(arguments) else None
        argument = _argument(parameter, passed, call.inputs[number], bindings)
        if argument is None:
            return None
        taken.append(argument)
    places = {p.name: number for number, p in enumerate(inputs) if p.role == "inout"}
    inouts = [places.get(spec.name, -1) for spec in build.outputs]
    form = _out_form(out, call, inouts)
    if form is None:
        return None
    return Plan(
        code,
        taken,
        build.outputs,
        positional=len(arguments),
        inouts=inouts,
        out_form=form,
        work=build.size_bytes + build.flops,
    )


def _argument(
    parameter: ParameterDeclaration, passed: Any, array: Any, bindings: Mapping[str, Any]
) -> Argument | None:
    if parameter.role == "scalar":
        if passed is None:
            return ConstantArgument(array)
        dtype = scalar_dtype(parameter)
        return ScalarArgument(dtype) if takes_natively(passed, dtype) else None
    if parameter.role == "bound":
        value = bindings.get(parameter.name)
        if type(bindings) is not dict or value is not array or not _is_plain(array):
            return None
        return BoundArgument(array, cast("dict[str, Any]", bindings), parameter.name)
    if not _is_plain(passed) or passed is not array:
        return None
    written = parameter.role == "inout"
    if written and not array.flags.c_contiguous:
        return None
    return ArrayArgument(array, written)


def _is_plain(value: object) -> TypeGuard[NDArray[Any]]:
    """Whether it is an array whose dtype is the one object that all arrays of that dtype share."""
    if type(value) is not np.ndarray:
        return False
    return value.dtype is np.dtype(value.dtype.type)


def _out_form(out: object, call: PreparedCall, inouts: Sequence[int]) -> int | None:
    """0 without ``out=``, 1 for one array, 2 for a tuple of all; ``None`` for anything else."""
    if out is None:
        return 0
    buffers = [b for b, inout in zip(call.outputs, inouts, strict=True) if inout < 0]
    if len(buffers) == 1 and out is buffers[0] and _is_plain(out):
        return 1
    if type(out) is tuple and len(buffers) > 1:
        items = cast("tuple[Any, ...]", out)
        if all(a is b and _is_plain(a) for a, b in zip(items, buffers, strict=True)):
            return 2
    return None
