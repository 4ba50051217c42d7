"""From the arguments of a call to one value for each parameter, checked against its declaration."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wia_compiler.base.errors import ArgumentError
from wia_compiler.base.signature import KernelSignature, ParameterDeclaration
from wia_compiler.runtime.specs import Spec


@dataclass(frozen=True)
class Absent:
    """Stands for a scalar that a build does not need: its value is not part of the code."""


ABSENT: Final = Absent()


def bind(
    signature: KernelSignature,
    positional: Sequence[Any],
    keywords: Mapping[str, Any],
    *,
    scalars_may_be_absent: bool = False,
) -> list[Any]:
    """One value for each of ``signature.passed``, in order; defaults are filled in.

    Raises ``ArgumentError`` for missing, extra, doubled and unknown arguments.
    """
    inputs = signature.passed
    if len(positional) > len(inputs):
        raise ArgumentError(_too_many(signature, len(positional)))
    values = dict(zip((parameter.name for parameter in inputs), positional, strict=False))
    names = {parameter.name for parameter in inputs}
    for name, value in keywords.items():
        if name not in names:
            raise ArgumentError(_unknown(signature, name))
        if name in values:
            raise ArgumentError(
                f"{signature.name}({name}): given twice, by position and as {name}=\n"
                f"  help: leave one of them out"
            )
        values[name] = value
    missing = [
        parameter.name
        for parameter in inputs
        if parameter.name not in values
        and parameter.default is None
        and not (scalars_may_be_absent and parameter.role == "scalar")
    ]
    if missing:
        raise ArgumentError(
            f"{signature.name}: {_listed(missing)} {'is' if len(missing) == 1 else 'are'} missing, "
            f"got {_counted(len(values), 'argument')}\n  help: call it as {call_text(signature)}"
        )
    return [
        values.get(parameter.name, ABSENT if parameter.default is None else parameter.default)
        for parameter in inputs
    ]


def in_order(
    names: Sequence[str], positional: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """The same arguments by position alone, for parameters of these names.

    ``None`` where that cannot be said (a name that does not exist or is given twice, a gap).
    """
    rest = names[len(positional) : len(positional) + len(keywords)]
    if len(rest) < len(keywords) or not all([name in keywords for name in rest]):
        return None
    return (*positional, *[keywords[name] for name in rest])


def check_declared(signature: KernelSignature, specs: Sequence[Spec]) -> None:
    """Compare dtypes, ranks and sizes with what the kernel's text declares.

    ``specs`` are those of ``signature.inputs`` in order. Sizes that share a name must agree; the
    message names both arguments. Raises ``ArgumentError``.
    """
    sizes: dict[str, tuple[int, str]] = {}
    for parameter, spec in zip(signature.inputs, specs, strict=True):
        where = f"{signature.name}({parameter.name})"
        declared = parameter.type
        if declared.dtype is not None and spec.dtype != declared.dtype:
            raise ArgumentError(
                f"{where}: got {spec}, expected {declared.dtype} as declared: "
                f"{parameter.name}: {declared}\n  help: convert it: {_cast_text(parameter)}"
            )
        if declared.dims is None:
            continue
        if len(declared.dims) != len(spec.shape):
            raise ArgumentError(
                f"{where}: got {spec} with {_counted(len(spec.shape), 'axis')}, expected "
                f"{len(declared.dims)} as declared: {parameter.name}: {declared}\n"
                f"  help: reshape the argument, or declare the parameter as tensor"
            )
        for axis, (dim, size) in enumerate(zip(declared.dims, spec.shape, strict=True)):
            wanted, why = _wanted(dim, sizes)
            if wanted is not None and size != wanted:
                raise ArgumentError(
                    f"{where}: axis {axis} has size {size}, expected {wanted} {why}\n"
                    f"  help: {parameter.name} is declared as {declared} and got {spec}"
                )
            if isinstance(dim, str) and dim not in sizes:
                sizes[dim] = (size, f"({dim} is axis {axis} of {parameter.name})")


def call_text(signature: KernelSignature) -> str:
    """``matmul(A, B, alpha=1.0)``: how the kernel is called."""
    return f"{signature.name}({', '.join(_parameter_text(p) for p in signature.passed)})"


def python_signature(signature: KernelSignature) -> inspect.Signature:
    """How Python's tools show the call: inputs with their defaults, then ``out=None``.

    Names that Python reserves and defaults before the end cannot be shown: then just ``*arrays``.
    """
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    try:
        parameters = [
            inspect.Parameter(
                parameter.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=inspect.Parameter.empty if parameter.default is None else parameter.default,
                annotation=str(parameter.type),
            )
            for parameter in signature.passed
        ]
        return inspect.Signature([*parameters, out])
    except ValueError:
        return inspect.Signature(
            [inspect.Parameter("arrays", inspect.Parameter.VAR_POSITIONAL), out]
        )


def _parameter_text(parameter: ParameterDeclaration) -> str:
    if parameter.default is None:
        return parameter.name
    return f"{parameter.name}={parameter.default!r}"


def _wanted(dim: int | str | None, sizes: Mapping[str, tuple[int, str]]) -> tuple[int | None, str]:
    if isinstance(dim, int):
        return dim, "as declared"
    if dim is not None and dim in sizes:
        return sizes[dim]
    return None, ""


def _cast_text(parameter: ParameterDeclaration) -> str:
    dtype = parameter.type.dtype
    numpy_name = "np.float32" if dtype is None else f"np.{dtype.numpy}"
    if dtype is not None and dtype.name == "bf16":
        numpy_name = "ml_dtypes.bfloat16"
    return f"{parameter.name}.astype({numpy_name})"


def _too_many(signature: KernelSignature, count: int) -> str:
    inputs = signature.passed
    message = (
        f"{signature.name}: got {_counted(count, 'argument')}, expected {len(inputs)} "
        f"({', '.join(p.name for p in inputs)})"
    )
    if any(parameter.role == "output" for parameter in signature.parameters):
        outputs = ", ".join(p.name for p in signature.parameters if p.role == "output")
        return f"{message}\n  help: outputs ({outputs}) are returned; fill your own array with out="
    return f"{message}\n  help: call it as {call_text(signature)}"


def _unknown(signature: KernelSignature, name: str) -> str:
    names = [parameter.name for parameter in signature.passed]
    if any(p.name == name and p.role == "output" for p in signature.parameters):
        return (
            f"{signature.name}({name}): {name} is an output, not an argument\n"
            f"  help: it is returned; to fill an array of yours pass out={name}"
        )
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}=?" if near else f"call it as {call_text(signature)}"
    known = ", ".join(names)
    return f"{signature.name}: no parameter {name!r}, expected one of {known}\n  help: {hint}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _counted(count: int, noun: str) -> str:
    plural = "axes" if noun == "axis" else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"
