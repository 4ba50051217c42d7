"""Random arguments for a kernel, the same for the same seed on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wia_compiler.base.signature import KernelSignature
from wia_compiler.reference.random_arrays import random_array
from wia_compiler.runtime.arguments import scalar_dtype
from wia_compiler.runtime.binding import ABSENT, bind
from wia_compiler.runtime.specs import Spec


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
            arguments.append(random_array(value.shape, value.dtype, generator))
        else:
            arguments.append(value)
    return arguments
