"""Leaves that know or look up places, running folds and windows as GPU code, on the simulator."""

import numpy as np
import pytest
import wia_compiler as wia

ARRAY = np.random.default_rng(0).standard_normal((7, 45)).astype(np.float32)
IMAGE = np.random.default_rng(1).standard_normal((2, 3, 11, 13)).astype(np.float32)
ROWS = np.array([3, 0, 6, 2, 2])
PLACES = np.random.default_rng(2).integers(0, 7, (7, 45))

CASES = {
    "x[::2, 1:]": (ARRAY,),
    "flip(x, [0, 1])": (ARRAY,),
    "pad(x, [1, 2, 3, 0], value=2)": (ARRAY,),
    "concat([x, x * 2], dim=1)": (ARRAY,),
    "iota(like=x, dim=0, dtype=f32) + x": (ARRAY,),
    "argmax(x, dim=1)": (ARRAY,),
    "argmin(x, dim=0)": (ARRAY,),
    "cumsum(x, dim=0)": (ARRAY,),
    "cumsum(x, dim=1)": (ARRAY,),
    "cumprod(x, dim=0)": (ARRAY[0],),
    "max_pool2d(x, 3, stride=2, padding=1)": (IMAGE,),
    "avg_pool2d(x, 5, stride=1, padding=2)": (IMAGE,),
    "index_select(x, 0, i)": (ARRAY, ROWS),
    "gather(x, 0, i)": (ARRAY, PLACES),
    "attention(x, x, x, causal=true)": (ARRAY,),
}


@pytest.mark.parametrize("case", CASES)
def test_case(case):
    arrays = CASES[case]
    inputs = ", ".join(f"input {name}: tensor" for name in "xi"[: len(arrays)])
    text = f"kernel k({inputs}, output y: tensor) {{ y = {case}; }}"
    (kernel,) = wia.compile(text).values()
    found = kernel.build(*arrays, target="gpu:sm_90")(*arrays)
    np.testing.assert_allclose(found, wia.reference(kernel, *arrays), rtol=1e-5, atol=1e-6)


def test_a_gpu_does_not_report_an_index_out_of_range_and_reads_zero():
    inputs = "input x: tensor, input i: tensor"
    text = f"kernel k({inputs}, output y: tensor) {{ y = index_select(x, 0, i); }}"
    (kernel,) = wia.compile(text).values()
    rows = np.array([1, 7, -1, 2])
    found = kernel.build(ARRAY, rows, target="gpu:sm_90")(ARRAY, rows)
    np.testing.assert_array_equal(found[[1, 2]], 0)
    np.testing.assert_array_equal(found[[0, 3]], ARRAY[[1, 2]])
