"""Loops over elements on a GPU's code, and ones that never end on the CPU."""

import signal
from typing import Any

import loop_kernels as kernels
import numpy as np
import pytest
import wia_compiler as wia
from loop_running import kernel_of

GPU = {
    "vector add": (kernels.VECTOR_ADD, [(100,), (100,)]),
    "matmul": (kernels.MATMUL, [(9, 5), (5, 7)]),
    "tiled matmul": (kernels.TILED, [(9, 5), (5, 11)]),
    "local tensors": (kernels.LOCAL, [(6, 5), (5, 7)]),
    "sum": (kernels.SUM, [(50,)]),
    "stencil": (kernels.STENCIL, [(5, 7)]),
    "calls": (kernels.CALLS, [(5, 4)]),
}


@pytest.mark.parametrize(("text", "shapes"), GPU.values(), ids=GPU)
def test_a_gpu_runs_them_too(text: str, shapes: list[tuple[int, ...]]) -> None:
    """The PTX of the kernel, on a GPU or its simulator, gives the reference's bits."""
    arrays = [kernels.floats(*shape) for shape in shapes]
    kernel = kernel_of(text)
    np.testing.assert_array_equal(kernel.to("gpu:sm_90")(*arrays), wia.reference(kernel, *arrays))


def test_a_tpu_runs_loops_that_fold_nothing() -> None:
    """Independent loops become leaves, which a TPU spells as those of tensor ops."""
    kernel = kernel_of(kernels.VECTOR_ADD)
    arrays = kernels.floats(100), kernels.floats(100)
    np.testing.assert_array_equal(kernel.to("tpu:spec")(*arrays), arrays[0] + arrays[1])


def test_a_tpu_says_that_it_cannot_add_in_order() -> None:
    with pytest.raises(wia.TargetError, match="point by point"):
        kernel_of(kernels.SUM).build(wia.spec((4,), "f32"), target="tpu:spec")


def test_a_loop_that_never_ends_can_be_interrupted() -> None:
    kernel = kernel_of("""
    kernel k(input A: tensor<N, f32>, output C: tensor<N, i64>) {
        for i in 0..N {
            let n: i64 = 0;
            while (A[i] > 0.0) { n += 1; }
            C[i] = n;
        }
    }""")
    zeros = np.zeros(3, np.float32)
    assert kernel(zeros).tolist() == [0, 0, 0]

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            kernel(np.ones(3, np.float32))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert kernel(zeros).tolist() == [0, 0, 0]
