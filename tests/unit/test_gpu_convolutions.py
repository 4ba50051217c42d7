"""Convolutions on a GPU as matrix products: the rewrite, results, counters, schedules."""

import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.implicit_product import fold_step

CONFLICTS = "shared_memory_bank_conflicts"


def text(arguments, epilogue="y"):
    return f"""kernel k(input X: tensor, input W: tensor, input b: tensor, output C: tensor) {{
      y = conv2d(X, W, b{arguments});  C = {epilogue};
    }}"""


def sample(shape, dtype=np.float32):
    generator = np.random.default_rng(sum(shape))
    if np.dtype(dtype).kind == "i":
        return generator.integers(-9, 9, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def run(x, w, arguments, target="gpu:sm_80", schedule=None, epilogue="y"):
    """The result on the simulator, checked against the CPU; the build."""
    x, w, b = sample(x) if isinstance(x, tuple) else x, sample(w), sample(w[:1])
    kernel = wia.compile(text(arguments, epilogue)).k
    build = kernel.build(x, w, b, target=target, schedule=schedule)
    scale = max(1.0, float(np.abs(kernel(x, w, b)).max(initial=0)))
    np.testing.assert_allclose(build(x, w, b), kernel(x, w, b), atol=2e-6 * scale)
    return build, (x, w, b)


def decision(build):
    return build.stage("schedule").decisions[0]


@pytest.mark.parametrize(
    "x,w,arguments",
    [
        ((1, 16, 17, 19), (24, 16, 3, 3), ", padding=1"),
        ((2, 8, 31, 30), (32, 8, 3, 3), ", stride=2, padding=1"),
        ((3, 17, 7, 7), (19, 17, 3, 3), ", padding=1"),  # images walked together
        ((2, 32, 17, 13), (40, 16, 3, 3), ", stride=[1, 2], padding=2, dilation=2, groups=2"),
        ((1, 3, 64, 64), (64, 3, 7, 7), ", stride=2, padding=3"),
        ((1, 64, 28, 28), (32, 64, 1, 1), ", stride=2"),
        ((1, 16, 12, 40), (16, 16, 1, 5), ", padding=[0, 2]"),
        ((1, 12, 20, 20), (16, 12, 5, 5), ""),
    ],
)
def test_convolutions_are_products(x, w, arguments):
    build, arrays = run(x, w, arguments)
    assert decision(build).reason.startswith("convolution as a product")
    numbers = decision(build).numbers
    assert numbers["modelled cycles"] < numbers["direct cycles"]
    assert build.resources["spill_store_bytes"] in (0, None)
    if str(numbers["block tile"]).split("×")[0] in ("32", "64"):
        assert build.profile(*arrays).counters[CONFLICTS] == 0


@pytest.mark.parametrize(
    "x,w,arguments",
    [
        ((1, 16, 20, 20), (16, 1, 3, 3), ", padding=1, groups=16"),  # depthwise
        ((1, 16, 20, 20), (3, 16, 3, 3), ", padding=1"),  # too few filters to fill a tile
        ((0, 16, 20, 20), (32, 16, 3, 3), ", padding=1"),
    ],
)
def test_others_are_not(x, w, arguments):
    build, _ = run(x, w, arguments)
    decisions = build.stage("schedule").decisions
    assert not any("as a product" in each.reason for each in decisions)


@pytest.mark.parametrize(
    "x,w,arguments",
    [
        ((1, 16, 91, 93), (16, 1, 3, 3), ", padding=1, groups=16"),
        ((3, 5, 127, 146), (10, 1, 3, 2), ", padding=1, stride=[1, 2], groups=5"),
    ],
)
def test_a_thread_of_a_depthwise_convolution_takes_places_below_each_other(x, w, arguments):
    """So many that enough threads are left, also where they do not divide the rows."""
    build, _ = run(x, w, arguments)
    assert decision(build).numbers["results a thread"] in (2, 4)


def test_places_below_each_other_share_what_they_read():
    """4 windows of 3 × 3 have 6 × 3 points in common and one filter: 27 loads for 36 products."""
    kernel = wia.compile(
        """kernel k(input X: tensor, input W: tensor, output C: tensor) {
          C = conv2d(X, W, padding=1, groups=128);
        }"""
    ).k
    x, w = sample((1, 128, 56, 56)), sample((128, 1, 3, 3))
    build = kernel.build(x, w, target="gpu:sm_80")
    ptx = build.assembly("ptx")
    assert (ptx.count("ld.global"), ptx.count("fma.rn.f32")) == (27, 36)
    read = build.profile(x, w).counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    assert read < 7 * x.nbytes / 32  # of 9 points of each window, and a filter: 18 × without


def test_special_values_reach_their_neighbours_alone():
    x = sample((1, 16, 12, 12))
    x[0, 3, 0, 0], x[0, 5, 11, 7] = np.nan, np.inf
    kernel = wia.compile(text(", padding=1")).k
    w, b = sample((16, 16, 3, 3)), sample((16,))
    with np.errstate(invalid="ignore"):
        expected, found = kernel(x, w, b), kernel.build(x, w, b, target="gpu:sm_80")(x, w, b)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert np.isnan(found).any() and np.isfinite(found).sum() > found.size // 2


def test_a_view_is_read_where_it_lies():
    wide = sample((1, 16, 12, 24))
    run(wide[:, :, :, ::2], (16, 16, 3, 3), ", padding=1")


def test_what_follows_is_computed_in_registers():
    build, _ = run((1, 16, 14, 14), (32, 16, 3, 3), ", padding=1", epilogue="relu(y * 2.0 + 1.0)")
    assert build.resources["kernels"] == 1


@pytest.mark.parametrize("dtype", ["f64", "i32", "f16"])
def test_other_types(dtype):
    numpy = {"f64": np.float64, "i32": np.int32, "f16": np.float16}[dtype]
    x, w = sample((1, 16, 10, 10), numpy), sample((16, 16, 3, 3), numpy)
    kernel = wia.compile(
        "kernel k(input X: tensor, input W: tensor, output C: tensor) { C = conv2d(X, W); }"
    ).k
    expected = kernel(x, w)
    found = kernel.build(x, w, target="gpu:sm_80")(x, w)
    room = 0.02 if dtype == "f16" else 1e-12
    np.testing.assert_allclose(found, expected, rtol=room, atol=room * 40)


def test_the_schedule_can_be_pasted_and_changed():
    shapes = ((1, 16, 17, 19), (24, 16, 3, 3), ", padding=1")
    chosen, _ = run(*shapes)
    assert "yx" in chosen.schedule and "crs" in chosen.schedule
    lines = decision(chosen).numbers["schedule"]
    again, _ = run(*shapes, schedule=lines)
    assert again.assembly("ptx") == chosen.assembly("ptx")
    run(*shapes, schedule="tile f 8, yx 32, crs 9; thread_tile f 2, yx 4")
    with pytest.raises(wia.CompileError, match="no axis 'xy'"):
        run(*shapes, schedule="tile f 8, xy 32")


@needs_ptxas
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120"])
def test_nothing_is_spilled(architecture):
    kernel = wia.compile(text(", padding=1", "relu(y)")).k
    shapes = [(1, 64, 56, 56), (64, 64, 3, 3), (64,)]
    specs = [wia.spec(shape, "f32") for shape in shapes]
    resources = kernel.build(*specs, target=f"gpu:{architecture}").resources
    assert resources["spill_store_bytes"] == resources["stack_bytes"] == 0


@pytest.mark.parametrize(
    "sizes,step",
    [((64, 3, 3), 18), ((3, 7, 7), 21), ((3, 3, 3), 27), ((64,), 16), ((12, 5, 5), 25)],
)
def test_steps_are_whole_windows_or_rows_of_them(sizes, step):
    assert fold_step(sizes, int(np.prod(sizes))) == step
