"""Generated PTX, run on the simulator, agrees with the references: the library and every op."""

import math

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
import wia_kernels
from op_tool import TOOL
from unit.gpu_programs import compile_text
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.target import GpuTarget
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.wia.declarations import DECLARATIONS
from wia_compiler.simulators.ptx import run

RNG = np.random.default_rng(17)
TARGET = GpuTarget(ARCHITECTURES["sm_80"], with_sass=False).with_simulator(run)
TOLERANCES = {"f64": 1e-12, "f32": 3e-5, "f16": 4e-3, "bf16": 3e-2}
LARGEST = 100_000
"""Elements of the inputs beyond which a case is left to faster machines."""

CASES = [
    (name, shapes, dtype)
    for name in wia_kernels.names()
    for shapes in wia_kernels.get(name).shapes
    for dtype in ("f32", "f16", "i32")
    if dtype in wia_kernels.get(name).dtypes
    and sum(math.prod(shape) for shape in shapes) <= LARGEST
]


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    numpy_dtype = DTYPES[dtype].numpy
    if dtype == "i32":
        return RNG.integers(-100, 100, shape).astype(numpy_dtype)
    return RNG.standard_normal(shape).astype(numpy_dtype)


def on_simulator(text: str, arrays: list[np.ndarray]) -> tuple[list[np.ndarray], dict]:
    compiled = compile_text(text, arrays, TARGET)
    outputs = [np.full(each.spec.shape, 7, each.spec.dtype.numpy) for each in compiled.outputs]
    counters = TARGET.load(compiled.artifact)(arrays, outputs)
    return outputs, dict(counters)


@pytest.mark.parametrize(
    "name,shapes,dtype", CASES, ids=[f"{n}-{d}-{i}" for i, (n, _, d) in enumerate(CASES)]
)
def test_the_library(name, shapes, dtype):
    definition = wia_kernels.get(name)
    arrays = [values(shape, dtype) for shape in shapes]
    ((found, *_), counters) = on_simulator(definition.text, arrays)
    wide = [each.astype("f8") if each.dtype.kind not in "iu" else each for each in arrays]
    with np.errstate(all="ignore"):
        expected = np.asarray(definition.reference(*wide))
    assert found.shape == expected.shape
    if dtype in TOLERANCES:
        tolerance = TOLERANCES[dtype]
        np.testing.assert_allclose(found.astype("f8"), expected, tolerance, tolerance)
    else:
        np.testing.assert_array_equal(found, expected.astype(found.dtype))
    assert counters.get("shared_memory_bank_conflicts", 0) == 0


@pytest.mark.parametrize("name", [n for n, row in DECLARATIONS.items() if row.example is not None])
def test_every_op(name):
    """Each op's worked example, as on the reference."""
    example = DECLARATIONS[name].example
    text = TOOL.kernel_text(example)
    arrays = [TOOL.array_of(value) for _, value in example.inputs]
    (found, *_), _ = on_simulator(text, arrays)
    expected = wia.reference(wia.compile(text).example, *arrays)
    assert found.dtype == expected.dtype
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
    else:
        np.testing.assert_array_equal(found, expected)


ELEMENTWISE = "kernel k(input A: tensor, input B: tensor, output Y: tensor) {{ Y = {}; }}"


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2, ::3],
        lambda x: x[::-1, ::-1],
        lambda x: x.T,
        lambda x: np.broadcast_to(x[:1], x.shape),
        lambda x: x[5:6],
        lambda x: x[:0],
    ],
    ids=["strided", "negative", "transposed", "broadcast", "one row", "empty"],
)
def test_views(view):
    a = view(RNG.standard_normal((34, 51)).astype(np.float32))
    b = view(RNG.standard_normal((34, 51)).astype(np.float32))
    ((found,), _) = on_simulator(ELEMENTWISE.format("max(A * 2.0 - B, B)"), [a, b])
    np.testing.assert_array_equal(found, np.maximum(a * np.float32(2) - b, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_special_values(dtype):
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 65504.0]
    with np.errstate(all="ignore"):
        a = np.repeat(np.array(special), len(special)).astype(dtype)
        b = np.tile(np.array(special), len(special)).astype(dtype)
        ((found,), _) = on_simulator(ELEMENTWISE.format("max(A + B, min(A, B))"), [a, b])
        expected = np.maximum(a + b, np.minimum(a, b))
    np.testing.assert_array_equal(found.astype("f8"), expected.astype("f8"))


def test_coalesced_kernels_move_no_more_than_they_must():
    a, b = (RNG.standard_normal(50_000).astype(np.float32) for _ in range(2))
    (_, counters) = on_simulator(ELEMENTWISE.format("A + B"), [a, b])
    assert counters["derived__memory_l2_theoretical_sectors_global_excessive"] == 0
    assert counters["derived__memory_l2_theoretical_sectors_global"] == 3 * 50_000 * 4 // 32
    assert counters["flops"] == 50_000
