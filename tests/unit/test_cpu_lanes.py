"""Maps and folds as explicit vectors: every size, layout and dtype, masked rests, streaming."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from executors import listed
from wia_compiler.backends.cpu.host import this_host
from wia_compiler.dialects.text import parse_ir, print_ir

SIZES = (1, 3, 17, 127, 1000)
FLOATS = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
WIDE = this_host().vector_bytes // 4


def kernel(body: str, *names: str) -> wia.Kernel:
    inputs = "".join(f"input {name}: tensor, " for name in names)
    return wia.compile(f"kernel k({inputs}output y: tensor) {{ {body} }}").k


def agree(made: wia.Kernel, *arrays: np.ndarray) -> None:
    """The CPU computes what the reference does: floats within the roundings of their dtype."""
    for found, wanted in zip(
        listed(made(*arrays)), listed(wia.reference(made, *arrays)), strict=True
    ):
        assert found.dtype == wanted.dtype
        if found.dtype.kind in "iub":
            np.testing.assert_array_equal(found, wanted)
            continue
        precision = float(ml_dtypes.finfo(found.dtype).eps)
        a, b = found.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_allclose(a, b, rtol=40 * precision, atol=40 * precision, equal_nan=True)


def rows(size: int, dtype: type, seed: int = 0) -> np.ndarray:
    """Five rows with NaN and infinities in some."""
    x = 2 * np.random.default_rng(seed + size).standard_normal((5, size))
    if size >= 17:
        x[1, 3], x[2, 4], x[3, -1] = np.nan, np.inf, -np.inf
    return x.astype(dtype)


def layouts(x: np.ndarray) -> list[np.ndarray]:
    """The same numbers lying differently in memory."""
    wide = np.concatenate([x, x], axis=1)
    wide[:, ::2], wide[:, 1::2] = x, 7
    backwards = np.ascontiguousarray(x[:, ::-1])[:, ::-1]
    return [x, np.asfortranarray(x), wide[:, ::2], backwards, np.broadcast_to(x[:1], x.shape)]


MAPS = [
    "y = where(x > 0.5, tanh(x) * 2.0, -exp(x));",
    "y = cast(x, i8);",
    "y = x < 0.25;",
    "y = sin(x) + log(abs(x) + 1.0);",
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("body", MAPS)
def test_maps_of_every_size_and_dtype(body: str, dtype: type) -> None:
    made = kernel(body, "x")
    for size in SIZES:
        agree(made, rows(size, dtype))


@pytest.mark.parametrize("body", ["y = max(x, 0.5) - x;", "y = softmax(x);", "y = reduce_max(x);"])
def test_layouts_are_read_as_they_lie(body: str) -> None:
    made = kernel(body, "x")
    for x in layouts(rows(127, np.float32)):
        agree(made, x)


INTEGERS = "y = where(x > z, x - z, x * z) // (z + 3);"


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_integers_wrap_in_every_lane(dtype: type) -> None:
    made = kernel(INTEGERS, "x", "z")
    info, random = np.iinfo(dtype), np.random.default_rng(3)
    for size in SIZES:
        agree(made, *random.integers(info.min, info.max, (2, size), dtype, endpoint=True))


def test_bools_are_bytes_in_memory_and_bits_in_vectors() -> None:
    made = kernel("y = where(a && !b, a, b || (x > 0.0));", "a", "b", "x")
    random = np.random.default_rng(4)
    for size in SIZES:
        a, b = random.integers(0, 2, (2, size)).astype(bool)
        agree(made, a, b, random.standard_normal(size).astype(np.float32))


FOLDS = [
    "y = reduce_sum(x, axis=1);",
    "y = reduce_max(x, axis=1);",
    "y = reduce_min(x, axis=0);",
    "y = reduce_mean(x);",
    "y = argmax(x, axis=1);",
    "y = softmax(x, dim=1);",
    "y = layer_norm(x);",
    "y = reduce_prod(x * 0.01 + 1.0, axis=1);",
    "y = softmax(flip(x, dims=[1]), dim=1);",
]


@pytest.mark.parametrize("body", FOLDS)
def test_folds_of_every_size_and_dtype(body: str) -> None:
    made = kernel(body, "x")
    for size, dtype in itertools.product((1, 17, 1000), FLOATS):
        x = rows(size, dtype)
        agree(made, x[:1] if dtype in FLOATS[2:] and "mean" in body else x)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_folds_of_integers(dtype: type) -> None:
    made = kernel("y = reduce_sum(x, axis=1) + reduce_max(x, axis=1) - reduce_min(x, axis=1);", "x")
    info, random = np.iinfo(dtype), np.random.default_rng(5)
    for size in SIZES:
        agree(made, random.integers(info.min, info.max, (4, size), dtype, endpoint=True))


def test_sizes_without_elements_are_nothing_to_do() -> None:
    agree(kernel("y = x + 1.0;", "x"), np.zeros((0, 3), np.float32))
    agree(kernel("y = reduce_sum(x, axis=1);", "x"), np.zeros((3, 0), np.float32))


def test_what_is_left_of_a_row_is_one_masked_vector() -> None:
    x = wia.spec((2, 10 * WIDE + 3), "f32")
    lowered = kernel("y = max(x, 0.0) * 2.0;", "x").build(x).stage("lower").text
    assert "vector.maskedstore" in lowered
    assert "memref.load" not in lowered
    assert "memref.store" not in lowered


def test_a_row_of_exponentials_needs_no_stack_of_spills() -> None:
    build = kernel("y = softmax(x, dim=1);", "x").build(wia.spec((8, 1024), "f32"))
    assert build.resources["vector_bits"] == 8 * this_host().vector_bytes
    kept = build.stage("lower").text
    assert kept.count("fastmath<nsz>") > 0  # which zero is the largest plays no part
    # One minimum at most: differences from the largest are not above 0.
    loop = kept[kept.index("math.fma") - 2000 : kept.index("math.fma")]
    assert loop.count("arith.cmpf ogt") <= 1


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0), (-0.0, -0.0)])
def test_zeros_of_both_signs_are_equal_in_a_softmax_and_ordered_in_a_maximum(
    zeros: tuple[float, float],
) -> None:
    x = np.resize(np.array(zeros, np.float32), (2, 37))
    agree(kernel("y = softmax(x, dim=1);", "x"), x)
    largest = kernel("y = reduce_max(x, axis=1);", "x")(x)
    assert np.array_equal(
        np.signbit(largest), np.signbit(wia.reference(kernel("y = reduce_max(x, axis=1);", "x"), x))
    )


STREAMED = """
kernel k(input x: tensor, output y: tensor) { y = x * 2.0 + 1.0; }
schedule k { thread_tile i 300; unroll i 2; stream y; }
"""


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("size", [2, 63, 299, 300, 1001])
def test_streamed_results_may_begin_anywhere(size: int, dtype: type) -> None:
    made = wia.compile(STREAMED).k
    x = np.random.default_rng(size).standard_normal(size).astype(dtype)
    wanted = wia.reference(made, x)
    for first in (0, 1, 5, 16):
        room = np.full(size + 96, 9, dtype)
        y = room[first + 1 : first + 1 + size]
        made(x, out=y)
        np.testing.assert_array_equal(y, wanted)
        assert np.all(room[: first + 1] == 9)
        assert np.all(room[first + 1 + size :] == 9)


def test_a_schedule_may_stream_and_the_code_does() -> None:
    build = wia.compile(STREAMED).k.build(wia.spec((4096,), "f32"))
    assert "nontemporal" in build.stage("lower").text
    assert "vmovntps" in build.assembly("x86")


def test_arrays_larger_than_the_last_cache_are_streamed_by_default() -> None:
    size = this_host().caches.last
    build = kernel("y = x + 1.0;", "x").build(wia.spec((size,), "f32"))
    assert "stream y" in build.schedule
    small = kernel("y = x + 1.0;", "x").build(wia.spec((4096,), "f32"))
    assert "stream" not in small.schedule


FUNCTIONS = {
    "exp": (-104, 88.7),
    "log": (1e-40, 1e30),
    "tanh": (-10, 10),
    "erf": (-4.5, 4.5),
    "sin": (-1e5, 1e5),
    "cos": (-50, 50),
    "rsqrt": (1e-38, 1e30),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_on_lanes_are_within_two_units(name: str) -> None:
    low, high = FUNCTIONS[name]
    x = np.linspace(low, high, 20_001).astype(np.float32)
    if low > 0:
        x = np.geomspace(low, high, 20_001).astype(np.float32)
    found = kernel(f"y = {name}(x);", "x")(x).astype(np.float64)
    wide = x.astype(np.float64)
    exact = {
        "erf": np.vectorize(math.erf, otypes=[float]),
        "rsqrt": lambda v: 1 / np.sqrt(v),
    }.get(name, getattr(np, name, None))(wide)
    unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(found - exact) / unit) <= 2


def test_comparisons_selects_and_conversions_of_vectors_print_and_parse() -> None:
    text = """
    func.func @f(%a: vector<16xf32>, %i: vector<16xi32>, %x: f32) {
      %c = arith.cmpf olt, %a, %a : vector<16xf32>
      %d = arith.cmpi slt, %i, %i : vector<16xi32>
      %s = arith.select %c, %a, %a : vector<16xi1>, vector<16xf32>
      %v = arith.cmpf olt, %x, %x : f32
      %w = arith.select %v, %x, %x : f32
      %f = arith.sitofp %i : vector<16xi32> to vector<16xf32>
      %g = arith.extui %d : vector<16xi1> to vector<16xi32>
      func.return
    }"""
    module = parse_ir(text)
    module.verify()
    printed = print_ir(module)
    assert print_ir(parse_ir(printed)) == printed


@pytest.mark.parametrize("shape", [(64, 96), (17, 33), (5, 200)])
def test_transposes_are_turned_in_registers(shape: tuple[int, int]) -> None:
    made = kernel("y = transpose(x) + 1.0;", "x")
    x = np.random.default_rng(6).standard_normal(shape).astype(np.float32)
    agree(made, x)
    assert "turned in registers" in made.build(x).schedule
