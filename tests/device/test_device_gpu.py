"""The library's kernels on a real GPU, against their references."""

import ml_dtypes
import numpy as np
import pytest
import wia_kernels
from unit.gpu_programs import spec_of
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.target import GpuTarget
from wia_compiler.base.source import Source
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program
from wia_compiler.passes.pipeline import compile_kernel

DTYPES = {
    "f64": (np.float64, 1e-10),
    "f32": (np.float32, 1e-4),
    "f16": (np.float16, 1e-2),
    "bf16": (ml_dtypes.bfloat16, 5e-2),
    "i64": (np.int64, 0),
    "i32": (np.int32, 0),
    "i16": (np.int16, 0),
    "i8": (np.int8, 0),
    "u8": (np.uint8, 0),
}


def device_target():
    """The newest target that this machine's GPU runs; a skip that says why where there is none."""
    cupy = pytest.importorskip("cupy", reason="cupy is not installed: pip install cupy-cuda13x")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"no GPU: {error}")
    if count == 0:
        pytest.skip("no GPU: cupy sees no device")
    have = int(cupy.cuda.Device().compute_capability)
    runs = [row for row in ARCHITECTURES.values() if row.runs_on(have)]
    return GpuTarget(runs[-1], with_sass=False)


def executable(text, arrays, target):
    """A program's last kernel, loaded for these arrays, and new outputs for it."""
    imported = import_program(parse(Source(text)))
    name = list(imported.kernels)[-1]
    parameters = imported.kernels[name].inputs
    specs = [spec_of(p.name, array) for p, array in zip(parameters, arrays, strict=True)]
    compiled = compile_kernel(imported, name, specs, target)
    outputs = [np.zeros(each.spec.shape, each.spec.dtype.numpy) for each in compiled.outputs]
    return target.load(compiled.artifact), outputs


def arguments(shapes, dtype):
    rng = np.random.default_rng(5)
    kind, tolerance = DTYPES[dtype]
    if tolerance:
        return [rng.standard_normal(shape).astype(kind) for shape in shapes]
    return [rng.integers(-9, 9, shape).astype(kind) for shape in shapes]


def check(kernel, arrays, dtype, found):
    bound = DTYPES[dtype][1]
    wide = [array.astype(np.float64) if bound else array for array in arrays]
    expected = np.asarray(kernel.reference(*wide))
    if not bound:
        np.testing.assert_array_equal(found, expected.astype(found.dtype))
        return
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=bound, atol=bound * scale)


@pytest.mark.parametrize("name", wia_kernels.names())
def test_kernel(name):
    target, kernel = device_target(), wia_kernels.get(name)
    for dtype in kernel.dtypes:
        for shapes in kernel.shapes:
            arrays = arguments(shapes, dtype)
            run, outputs = executable(kernel.text, arrays, target)
            run(arrays, outputs)
            check(kernel, arrays, dtype, outputs[0])


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(
    "expression", ["A @ B", "A @ transpose(B)", "transpose(A) @ B", "relu(A @ B + bias)"]
)
@pytest.mark.parametrize("sizes", [(128, 256, 128), (200, 136, 328), (1500, 1000, 776)])
def test_products_on_tensor_cores(expression, dtype, sizes):
    """Aligned and ragged; the last one has more tiles than SMs have blocks at a time."""
    target = device_target()
    m, n, k = sizes
    kind, bound = DTYPES[dtype]
    rng = np.random.default_rng(7)
    shapes = {"A": (k, m) if "transpose(A)" in expression else (m, k)}
    shapes |= {"B": (n, k) if "transpose(B)" in expression else (k, n), "bias": (n,)}
    names = [name for name in shapes if name in expression.replace("transpose", "")]
    arrays = {name: rng.standard_normal(shapes[name]).astype(kind) for name in names}
    inputs = ", ".join(f"input {name}: tensor" for name in names)
    text = f"kernel mm({inputs}, output C: tensor) {{ C = {expression}; }}"
    run, outputs = executable(text, list(arrays.values()), target)
    run(list(arrays.values()), outputs)
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    left = wide["A"].T if "transpose(A)" in expression else wide["A"]
    right = wide["B"].T if "transpose(B)" in expression else wide["B"]
    expected = left @ right
    if "relu" in expression:
        expected = np.maximum(expected + wide["bias"], 0)
    found = outputs[0].astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=bound, atol=bound * np.abs(expected).max())


def test_arrays_on_the_device_stay_there():
    target, kernel = device_target(), wia_kernels.get("vector_add")
    import cupy

    a, b = arguments(((1000,), (1000,)), "f32")
    run, _ = executable(kernel.text, [a, b], target)
    out = cupy.zeros(1000, cupy.float32)
    run([cupy.asarray(a), cupy.asarray(b)], [out])
    np.testing.assert_array_equal(cupy.asnumpy(out), a + b)


def test_device_arrays_that_begin_anywhere():
    """A slice that begins at 4 bytes: kernels read 16 bytes at a time."""
    target, kernel = device_target(), wia_kernels.get("vector_add")
    import cupy

    size = 1 << 20
    a, b = arguments(((size,), (size,)), "f32")
    run, _ = executable(kernel.text, [a, b], target)
    shifted = cupy.zeros(size + 1, cupy.float32)[1:]
    shifted[...] = cupy.asarray(a)
    out = cupy.zeros(size + 1, cupy.float32)[1:]
    run([shifted, cupy.asarray(b)], [out])
    np.testing.assert_array_equal(cupy.asnumpy(out), a + b)


@pytest.mark.parametrize(
    "view",
    [lambda x: x[::2], lambda x: x[:, ::-1], lambda x: x.T, lambda x: x[::-1, 3:40]],
)
def test_strided_inputs(view):
    target, kernel = device_target(), wia_kernels.get("vector_add")
    a = view(arguments(((128, 128),), "f32")[0])
    b = np.ascontiguousarray(a[::-1])
    run, outputs = executable(kernel.text, [a, b], target)
    run([a, b], outputs)
    np.testing.assert_array_equal(outputs[0], a + b)
