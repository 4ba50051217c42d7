"""Attention on a GPU: one launch whose blocks share tiles, on the simulator, against f64."""

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_programs import compile_text
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.target import GpuTarget
from wia_compiler.simulators.ptx import run

DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
TOLERANCE = {"f64": 1e-13, "f32": 3e-6, "f16": 3e-3, "bf16": 2e-2}
"""Of the largest result; f16 and bf16 round weights and results to 11 and 8 bits."""
CONFLICTS = "shared_memory_bank_conflicts"


def kernel_text(given="", mask=False):
    """A kernel of one call; ``given`` are its attributes."""
    parameter, argument = ("input m: tensor, ", ", m") if mask else ("", "")
    return (
        f"kernel k(input q: tensor, input k: tensor, input v: tensor, {parameter}"
        f"output y: tensor) {{ y = attention(q, k, v{argument}{given}); }}"
    )


def operands(batch, queries, keys, width, values, dtype, heads=None):
    """Random queries, keys and values; ``heads`` is the batch of keys and values."""
    random = np.random.default_rng(queries + keys)
    shared = batch if heads is None else heads
    shapes = [(*batch, queries, width), (*shared, keys, width), (*shared, keys, values)]
    return [random.standard_normal(shape).astype(DTYPES[dtype]) for shape in shapes]


def on_simulator(text, arrays, architecture="sm_80", debug=False):
    """The result, the counters and what was compiled."""
    target = GpuTarget(ARCHITECTURES[architecture], with_sass=False).with_simulator(run)
    compiled = compile_text(text, arrays, target)
    outputs = [np.full(each.spec.shape, 7, each.spec.dtype.numpy) for each in compiled.outputs]
    counters = target.load(compiled.artifact)(arrays, outputs)
    return outputs[0], dict(counters), compiled


def reference(text, arrays):
    """The result in f64."""
    wide = [each if each.dtype == bool else each.astype(np.float64) for each in arrays]
    return wia.reference(wia.compile(text).k, *wide)


def check(arrays, dtype, given="", architecture="sm_80"):
    """One launch without a workspace, whose result is that of the reference."""
    text = kernel_text(given, len(arrays) > 3)
    found, counters, compiled = on_simulator(text, arrays, architecture)
    wanted = reference(text, arrays)
    largest = np.max(np.abs(wanted), initial=1.0, where=np.isfinite(wanted))
    np.testing.assert_allclose(
        found.astype(np.float64), wanted, rtol=0, atol=TOLERANCE[dtype] * largest
    )
    if wanted.size and arrays[1].size and dtype != "f64":
        assert len(compiled.artifact.metadata["launches"]) == 1
        assert compiled.artifact.metadata["workspace_bytes"] == []
    return counters, compiled


SIZES = [(1, 1, 1, 1), (3, 17, 1, 3), (17, 3, 33, 8), (127, 65, 40, 24), (64, 128, 32, 64)]
SIZES += [(0, 5, 4, 4), (5, 0, 4, 4)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_sums_of_threads(sizes, causal):
    check(operands((2,), *sizes, dtype="f32"), "f32", f", causal={str(causal).lower()}")


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_threads_wait_for_one_another(engine):
    """More than 48 KiB of tiles, several blocks of keys: checked for races, and on both engines."""
    arrays = operands((1,), 40, 100, 128, 128, "f32")

    def simulate(*args, **options):
        return run(*args, **{**options, "engine": engine, "debug": engine == "numpy"})

    target = GpuTarget(ARCHITECTURES["sm_80"], with_sass=False).with_simulator(simulate)
    compiled = compile_text(kernel_text(), arrays, target)
    outputs = [np.full((1, 40, 128), 7, np.float32)]
    target.load(compiled.artifact)(arrays, outputs)
    np.testing.assert_allclose(outputs[0], reference(kernel_text(), arrays), atol=3e-6)
    assert compiled.artifact.metadata["launches"][0]["dynamic_shared_bytes"] > 48 * 1024
