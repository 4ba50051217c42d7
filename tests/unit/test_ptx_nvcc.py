"""PTX that another compiler made runs: tests/data/cuda/kernels.cu, compiled by nvcc 13.5.

nvcc -ptx -arch=sm_80 -O3 kernels.cu -o kernels.ptx
"""

from pathlib import Path

import numpy as np
import pytest
from wia_compiler.simulators.ptx import run

TEXT = (Path(__file__).parents[1] / "data" / "cuda" / "kernels.ptx").read_text("utf-8")
RNG = np.random.default_rng(31)


@pytest.mark.parametrize("size", [0, 1, 3, 17, 127, 1000, 20_000])
@pytest.mark.parametrize("block", [32, 96, 256])
def test_a_reduction_through_shuffles_shared_memory_and_atomics(size, block):
    x = RNG.standard_normal(max(size, 1)).astype(np.float32)
    y = np.zeros(1, np.float32)
    run(TEXT, "reduce", 3, block, [x, y, size])
    np.testing.assert_allclose(y[0], x[:size].astype("f8").sum(), atol=1e-3)


@pytest.mark.parametrize("size", [0, 1, 17, 5000])
def test_a_histogram_with_atomics(size):
    x = RNG.integers(0, 256, max(size, 1)).astype(np.uint8)
    bins = np.zeros(256, np.int32)
    done = run(TEXT, "histogram", 4, 256, [x, bins, size])
    np.testing.assert_array_equal(bins, np.bincount(x[:size], minlength=256))
    requests = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
    found = {name: done.counters.get(requests.format(name), 0) for name in ("atom", "red")}
    assert sum(found.values()) == 4 * 8


@pytest.mark.parametrize("size", [1, 3, 17, 127, 128])
def test_a_scan_in_dynamic_shared_memory(size):
    x, y = RNG.integers(-100, 100, size).astype(np.int32), np.zeros(size, np.int32)
    run(TEXT, "scan", 1, 128, [x, y, size], shared_bytes=512)
    np.testing.assert_array_equal(y, np.cumsum(x))


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (40, 33)])
@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_a_stencil_with_functions_of_the_cuda_library(shape, scale):
    """Large arguments of ``sin`` go through the library's table in constant and local memory."""
    x, y = (RNG.standard_normal(shape) * scale).astype(np.float32), np.zeros(shape, np.float32)
    grid = (-(-shape[1] // 16), -(-shape[0] // 8))
    run(TEXT, "stencil", grid, (16, 8), [x, y, *shape])
    s = x.copy()
    s[1:] = s[1:] + x[:-1]
    s[:-1] = s[:-1] + x[1:]
    s[:, 1:] = s[:, 1:] + x[:, :-1]
    s[:, :-1] = s[:, :-1] + x[:, 1:]
    with np.errstate(over="ignore"):
        wide = s.astype("f8")
        expected = np.exp(np.float32(-s * np.float32(0.2)).astype("f8")) + np.sin(wide) / (
            1 + wide * wide
        )
        np.testing.assert_allclose(y, expected.astype(np.float32), rtol=2e-6, atol=1e-6)
