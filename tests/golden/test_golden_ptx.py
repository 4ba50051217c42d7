"""The PTX of a few kernels, whole: read the difference before accepting it."""

import numpy as np
import pytest
import wia_kernels
from unit.gpu_programs import build

CASES = {
    "vector_add": ((1000,), (1000,)),
    "matmul_bias_relu": ((128, 512), (512, 64), (64,)),
}


@pytest.mark.parametrize("name", list(CASES))
def test_ptx(name, golden):
    arrays = [np.zeros(shape, np.float32) for shape in CASES[name]]
    compiled = build(wia_kernels.get(name).text, arrays, "sm_90")
    golden(f"ptx/{name}.sm_90.ptx", compiled.artifact.assembly["ptx"])


def test_ptx_of_a_merged_launch(golden):
    """Rows of 64 threads beside 256 points: the dispatch, the threads left out, two barriers."""
    text = """kernel two(input a: tensor, input b: tensor, output s: tensor, output r: tensor) {
    s = softmax(a);
    r = relu(b);
}"""
    arrays = [np.zeros((3, 127), np.float32), np.zeros((300,), np.float32)]
    golden("ptx/merged_launch.sm_90.ptx", build(text, arrays, "sm_90").artifact.assembly["ptx"])
