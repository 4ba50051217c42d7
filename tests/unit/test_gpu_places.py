"""Leaves that know or look up places, running folds and windows as GPU code, on the simulator."""

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.base.errors import OutOfRangeError

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


SELECT = """kernel k(input x: tensor, input i: tensor, output y: tensor) {
  y = index_select(x, 0, i);
}"""


def test_an_index_out_of_range_is_an_error_that_names_it_and_reads_zero():
    (kernel,) = wia.compile(SELECT).values()
    rows = np.array([1, 7, -1, 2])
    build = kernel.build(ARRAY, rows, target="gpu:sm_90")
    found = np.ones((4, *ARRAY.shape[1:]), ARRAY.dtype)
    with pytest.raises(OutOfRangeError, match=r"index (7|-1) of axis 0 lies outside 'x'") as caught:
        build(ARRAY, rows, out=found)
    assert "--> k:2:7" in str(caught.value)
    np.testing.assert_array_equal(found[[1, 2]], 0)
    np.testing.assert_array_equal(found[[0, 3]], ARRAY[[1, 2]])
    rows = np.array([1, 6, 0, 2])
    np.testing.assert_array_equal(build(ARRAY, rows), ARRAY[rows])


@pytest.mark.parametrize("bad", [0, 5000, 9999])
def test_of_many_threads_one_tells_what_failed(bad):
    (kernel,) = wia.compile(SELECT).values()
    rows = np.arange(10000) % 7
    rows[bad:] = 7
    with pytest.raises(OutOfRangeError, match="index 7 of axis 0"):
        kernel.build(ARRAY, rows, target="gpu:sm_80")(ARRAY, rows)


def test_what_several_nests_check_is_told_by_the_first():
    (kernel,) = wia.compile("""kernel two(input x: tensor, input i: tensor, output y: tensor) {
      near = index_select(x, 0, i);
      sums = reduce_sum(near * near, dim=1);
      y = index_select(sums, 0, i);
    }""").values()
    rows = np.array([1, 2, 6])
    with pytest.raises(OutOfRangeError, match=r"index 6 of axis 0 lies outside 'sums'|size 3"):
        kernel.build(ARRAY, rows, target="gpu:sm_90")(ARRAY, rows)
    rows = np.array([1, 2, 0])
    found = kernel.build(ARRAY, rows, target="gpu:sm_90")(ARRAY, rows)
    np.testing.assert_allclose(found, wia.reference(kernel, ARRAY, rows), rtol=1e-5)
