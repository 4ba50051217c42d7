"""Random arguments for a kernel, the same for the same seed on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.signature import KernelSignature
from wia_compiler.runtime.arguments import scalar_dtype
from wia_compiler.runtime.binding import ABSENT, bind
from wia_compiler.runtime.specs import Spec

# Small enough that sums and products of many elements stay in range.
INTEGER_RANGE = (-4, 5)


def random_arguments(
    signature: KernelSignature, given: Mapping[str, Any], *, seed: int = 0
) -> list[Any]:
    """One value for each input that a call passes: specs become random arrays, numbers stay.

    Floats are drawn from the standard normal distribution, integers from -4 … 4 (0 … 4 where
    unsigned), bools are even odds. A scalar without value or default is 1.
    """
    generator = np.random.default_rng(seed)
    values = bind(signature, (), given, scalars_may_be_absent=True)
    arguments: list[Any] = []
    for parameter, value in zip(signature.passed, values, strict=True):
        if parameter.role == "scalar" and (value is ABSENT or isinstance(value, Spec)):
            default = parameter.default
            arguments.append(scalar_dtype(parameter).numpy.type(1) if default is None else default)
        elif isinstance(value, Spec):
            arguments.append(random_array(value, generator))
        else:
            arguments.append(value)
    return arguments


def random_array(spec: Spec, generator: np.random.Generator) -> NDArray[Any]:
    """An array of that shape and dtype, in C order."""
    if spec.dtype.is_float:
        return generator.standard_normal(spec.shape).astype(spec.dtype.numpy)
    if spec.dtype.is_integer:
        low, high = INTEGER_RANGE
        low = max(low, 0) if spec.dtype.kind == "uint" else low
        return generator.integers(low, high, spec.shape).astype(spec.dtype.numpy)
    return generator.integers(0, 2, spec.shape).astype(np.bool_)
