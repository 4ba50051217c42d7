"""The library's kernels on the CPU beside the references they carry."""

from __future__ import annotations

import numpy as np
import pytest
import wia_compiler as wia
import wia_kernels
from wia_compiler.base.dtypes import DTYPES

CASES = [
    pytest.param(name, shapes, dtype, id=f"{name}-{shapes}-{dtype}")
    for name in wia_kernels.names()
    for number, shapes in enumerate(wia_kernels.get(name).shapes)
    for dtype in wia_kernels.get(name).dtypes
    if (dtype == "f32" and number > 1) or (dtype in ("f64", "f16", "bf16") and number == 1)
]
BOUNDS = {"f64": 1e-12, "f32": 1e-4, "f16": 2e-2, "bf16": 1e-1}


@pytest.mark.parametrize(("name", "shapes", "dtype"), CASES)
def test_kernel_gives_what_its_reference_says(
    name: str, shapes: tuple[tuple[int, ...], ...], dtype: str
) -> None:
    definition = wia_kernels.get(name)
    random = np.random.default_rng(7)
    arrays = [
        random.standard_normal(shape).astype(DTYPES[dtype].numpy) if shape else np.float32(0.75)
        for shape in shapes
    ]
    if all(shape == () for shape in shapes):
        arrays = [np.asarray(0.75, DTYPES[dtype].numpy) for _ in shapes]
    found = np.asarray(wia.compile(definition.text)[name](*arrays))
    expected = np.asarray(definition.reference(*(np.asarray(a, np.float64) for a in arrays)))
    assert found.shape == expected.shape
    bound = BOUNDS[dtype]
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=bound, atol=bound)
