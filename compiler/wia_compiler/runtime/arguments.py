"""The arguments of one call as arrays with their specs, checked against what is declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from wia_compiler.base.dtypes import DType
from wia_compiler.base.errors import ArgumentError
from wia_compiler.base.signature import KernelSignature, ParameterDeclaration
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.passes.target import ArraySpec
from wia_compiler.runtime.arrays import as_array, as_writable, describe, element_type_of, readable
from wia_compiler.runtime.binding import ABSENT, bind, check_declared
from wia_compiler.runtime.bound_values import bound_arrays
from wia_compiler.runtime.scalars import scalar_array
from wia_compiler.runtime.specs import Spec, spec_of_array


@dataclass(frozen=True)
class Arguments:
    """``arrays`` and ``specs`` for ``signature.inputs`` in order.

    ``inouts`` maps inout parameters to the caller's own arrays, which get the results.
    """

    arrays: tuple[NDArray[Any], ...]
    specs: tuple[Spec, ...]
    inouts: Mapping[str, NDArray[Any]]


def read_arguments(
    signature: KernelSignature,
    positional: Sequence[Any],
    keywords: Mapping[str, Any],
    bindings: Mapping[str, Any] | None = None,
) -> Arguments:
    """Everything a call needs; ``ArgumentError`` names the parameter that is wrong.

    ``bindings`` holds the arrays of bound parameters, which the call itself does not pass.
    """
    arrays: list[NDArray[Any]] = []
    specs: list[Spec] = []
    inouts: dict[str, NDArray[Any]] = {}
    values = [*bind(signature, positional, keywords), *bound_arrays(signature, bindings or {})]
    for parameter, value in zip(signature.inputs, values, strict=True):
        where = f"{signature.name}({parameter.name})"
        if parameter.role == "scalar":
            dtype = scalar_dtype(parameter)
            array = scalar_array(value, dtype, where)
        elif isinstance(value, Spec):
            raise ArgumentError(
                f"{where}: {value!r} has no elements to compute with\n  help: pass an array"
            )
        elif parameter.role == "inout":
            inouts[parameter.name] = as_writable(value, where, str(parameter.type))
            dtype = element_type_of(inouts[parameter.name], where)
            array = readable(inouts[parameter.name], dtype)
        else:
            array, dtype = as_array(value, where)
        arrays.append(array)
        specs.append(spec_of_array(array, dtype))
    check_declared(signature, specs)
    return Arguments(tuple(arrays), tuple(specs), inouts)


def read_specs(
    signature: KernelSignature,
    positional: Sequence[Any],
    keywords: Mapping[str, Any],
    bindings: Mapping[str, Any] | None = None,
) -> tuple[Spec, ...]:
    """The specs of arrays or of ``wia.spec`` for a build; scalars may be left out.

    ``bindings`` holds the arrays (or specs) of bound parameters.
    """
    specs: list[Spec] = []
    values = bind(signature, positional, keywords, scalars_may_be_absent=True)
    values += bound_arrays(signature, bindings or {})
    for parameter, value in zip(signature.inputs, values, strict=True):
        where = f"{signature.name}({parameter.name})"
        if parameter.role == "scalar":
            dtype = scalar_dtype(parameter)
            if value is not ABSENT and not isinstance(value, Spec):
                scalar_array(value, dtype, where)
            specs.append(value if isinstance(value, Spec) else Spec((), dtype))
        elif isinstance(value, Spec):
            specs.append(value)
        elif isinstance(value, bool | int | float):
            raise ArgumentError(
                f"{where}: got {describe(value)}, expected an array or a spec\n"
                f'  help: describe it: wia.spec((1024, 512), "f32")'
            )
        else:
            specs.append(spec_of_array(*as_array(value, where)))
    check_declared(signature, specs)
    return tuple(specs)


def known_arrays(
    signature: KernelSignature,
    positional: Sequence[Any],
    keywords: Mapping[str, Any],
    bindings: Mapping[str, Any] | None = None,
) -> list[NDArray[Any] | None]:
    """Those inputs that have elements, for arguments that ``read_specs`` takes: ``None`` for specs.

    A scalar that is left out has its default, where it has one.
    """
    found: list[NDArray[Any] | None] = []
    values = bind(signature, positional, keywords, scalars_may_be_absent=True)
    values += bound_arrays(signature, bindings or {})
    for parameter, value in zip(signature.inputs, values, strict=True):
        where = f"{signature.name}({parameter.name})"
        given = parameter.default if value is ABSENT else value
        if given is None or isinstance(given, Spec):
            found.append(None)
        elif parameter.role == "scalar":
            found.append(scalar_array(given, scalar_dtype(parameter), where))
        else:
            found.append(as_array(given, where)[0])
    return found


def array_specs(signature: KernelSignature, specs: Sequence[Spec]) -> tuple[ArraySpec, ...]:
    """The specs as the compiler takes them."""
    return tuple(
        ArraySpec(parameter.name, TensorSpec(spec.shape, spec.dtype, parameter.name), spec.strides)
        for parameter, spec in zip(signature.inputs, specs, strict=True)
    )


def scalar_dtype(parameter: ParameterDeclaration) -> DType:
    """The dtype of a scalar parameter, which its declaration always names."""
    dtype = parameter.type.dtype
    assert dtype is not None, f"scalar parameter {parameter.name} without a dtype"
    return dtype
