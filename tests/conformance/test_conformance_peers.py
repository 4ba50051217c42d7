"""Every case that PyTorch was asked, compiled for the CPU, beside the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import wia_compiler as wia
from peer_cases import CASES, Case
from wia_compiler.base.dtypes import DTYPES

BOUNDS = {"f32": 1e-5, "f16": 2e-3, "bf16": 2e-2, "f64": 1e-13}


def literal(value: Any) -> str:
    """An attribute as the language writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(literal(item) for item in value)}]"
    return repr(value)


def text_of(case: Case) -> str:
    """A kernel that makes the call of a case; its inputs are named as the op's parameters."""
    parameters = ", ".join(f"input {name}_: tensor" for name in case.inputs)
    operands = [f"{name}={name}_" for name in case.inputs]
    attributes = [f"{name}={literal(value)}" for name, value in case.attributes.items()]
    return f"kernel k({parameters}) {{ return {case.op}({', '.join([*operands, *attributes])}); }}"


@pytest.mark.parametrize(
    ("number", "case"), list(enumerate(CASES)), ids=[f"{n}-{c.op}" for n, c in enumerate(CASES)]
)
def test_cpu_gives_what_the_op_means(number: int, case: Case) -> None:
    dtype = list(BOUNDS)[number % 4] if number % 2 else "f32"
    arrays = [
        each.astype(DTYPES[dtype].numpy) if each.dtype == np.float32 else each
        for each in case.arrays().values()
    ]
    kernel = wia.compile(text_of(case))["k"]
    expected, found = np.asarray(wia.reference(kernel, *arrays)), np.asarray(kernel(*arrays))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    wide = [each.astype(np.float64) for each in (found, expected)]
    np.testing.assert_allclose(*wide, rtol=BOUNDS[dtype], atol=BOUNDS[dtype])
