"""The library's kernels on a GPU: scheduled nests on numpy, kernels thread by thread."""

import ml_dtypes
import numpy as np
import pytest
import wia_kernels
from unit.gpu_programs import interpret, scheduled

DTYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u8": np.uint8,
}
TOLERANCE = {"f64": 1e-11, "f32": 2e-5, "f16": 4e-3, "bf16": 4e-2}
MAX_ELEMENTS = 20_000
"""Cases larger than this are left to the tests of what is emitted: here a thread costs time."""


def cases():
    for name in wia_kernels.names():
        kernel = wia_kernels.get(name)
        for shapes in kernel.shapes:
            if sum(int(np.prod(shape)) for shape in shapes) > MAX_ELEMENTS:
                continue
            for dtype in kernel.dtypes:
                yield pytest.param(name, shapes, dtype, id=f"{name}-{shapes}-{dtype}")


def arguments(shapes, dtype):
    rng = np.random.default_rng(3)
    if dtype in TOLERANCE:
        return [rng.standard_normal(shape).astype(DTYPES[dtype]) for shape in shapes]
    return [rng.integers(-9, 9, shape).astype(DTYPES[dtype]) for shape in shapes]


def check(kernel, arrays, dtype, found):
    wide = [array.astype(np.float64) if dtype in TOLERANCE else array for array in arrays]
    expected = np.asarray(kernel.reference(*wide))
    assert found.shape == expected.shape
    if dtype not in TOLERANCE:
        np.testing.assert_array_equal(found, expected.astype(found.dtype))
        return
    bound = TOLERANCE[dtype]
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=bound, atol=bound * scale)


@pytest.mark.parametrize("name,shapes,dtype", list(cases()))
def test_thread_by_thread(name, shapes, dtype):
    kernel, arrays = wia_kernels.get(name), arguments(shapes, dtype)
    (found,) = interpret(kernel.text, arrays)
    check(kernel, arrays, dtype, found)


@pytest.mark.parametrize("name,shapes,dtype", [c for c in cases() if c.values[2] == "f32"])
def test_the_schedule_alone(name, shapes, dtype):
    """Blocks, warps and shared tiles change no result: the nest on numpy before it is lowered."""
    kernel, arrays = wia_kernels.get(name), arguments(shapes, dtype)
    (found,) = scheduled(kernel.text, arrays)
    check(kernel, arrays, dtype, found)
