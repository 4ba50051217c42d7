"""The PTX of two kernels, whole: read the difference before accepting it."""

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
