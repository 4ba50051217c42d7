"""Products of few results and a long fold: parts of the fold by tensor cores, added up in order."""

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia

RNG = np.random.default_rng(17)
PRODUCT = "kernel g(input A: tensor, input B: tensor, output Y: tensor) { Y = A @ B; }"
LAYER = """kernel g(input A: tensor, input B: tensor, input C: tensor, output Y: tensor) {
    Y = relu(A @ B + C);
}"""


def numbers(shape, dtype):
    if np.dtype(dtype) == np.int8:
        return RNG.integers(-128, 128, shape).astype(np.int8)
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(
    "dtype,part,rounding",
    [(np.float16, 100, 2.0**-10), (ml_dtypes.bfloat16, 299, 2.0**-7), (np.int8, 96, 0)],
)
def test_parts_of_any_size_add_up_to_the_product(dtype, part, rounding):
    """Also those that are no multiple of a tile's depth: no point is taken twice or left out."""
    a, b = numbers((33, 300), dtype), numbers((300, 40), dtype)
    build = wia.compile(PRODUCT).g.build(
        a, b, target="gpu:sm_80", schedule=f"parallel k {part}", debug=True
    )
    first, second = build.stage("schedule").decisions
    assert "tensor cores" in first.reason
    assert first.numbers["parts"] == -(-300 // part)
    assert "reduction" in second.reason
    found = np.asarray(build(a, b))
    wide = np.int64 if a.dtype == np.int8 else np.float64
    exact = a.astype(wide) @ b.astype(wide)
    if a.dtype == np.int8:
        assert np.array_equal(found, exact.astype(np.int8))
        return
    np.testing.assert_allclose(
        found.astype(np.float64), exact, rtol=rounding, atol=rounding * np.abs(exact).max() / 16
    )


def test_few_results_and_a_long_fold_are_cut_by_default_and_a_square_is_not():
    kernel = wia.compile(LAYER).g
    arrays = [wia.spec(shape, "f16") for shape in ((64, 8192), (8192, 64), (64,))]
    build = kernel.build(*arrays, target="gpu:sm_80")
    first, second = build.stage("schedule").decisions
    assert "tensor cores, f16 by mma.sync" in first.reason
    assert first.numbers["µs in parts"] < first.numbers["µs in one launch"] / 2
    assert f"parallel k {first.numbers['part']};" in build.schedule
    assert second.candidate.endswith("_1")
    assert build.resources["spill_store_bytes"] == 0
    # What follows the product waits for the whole sum: it is computed by the second launch.
    texts = build.stage("schedule").text.split("func.func @")
    assert [("arith.maximumf" in text) for text in texts[2:]] == [False, True]
    pasted = kernel.build(*arrays, target="gpu:sm_80", schedule=build.schedule)
    assert pasted.stage("schedule").text == build.stage("schedule").text

    square = [wia.spec(shape, "f16") for shape in ((1024, 1024), (1024, 1024), (1024,))]
    (one,) = kernel.build(*square, target="gpu:sm_80").stage("schedule").decisions
    assert "parts" not in one.numbers


def test_what_warpgroups_multiply_is_not_cut():
    arrays = [wia.spec(shape, "f16") for shape in ((64, 8192), (8192, 64))]
    build = wia.compile(PRODUCT).g.build(*arrays, target="gpu:sm_90a")
    (decision,) = build.stage("schedule").decisions
    assert "wgmma" in decision.reason and "parts" not in decision.numbers
