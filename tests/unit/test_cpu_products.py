"""Default schedules of matrix products on a CPU: right at every size and layout, fast in form."""

import re

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.backends.cpu.schedule_products import tile_shape

TEXT = "kernel product(input a: tensor, input b: tensor, output y: tensor) { y = a @ b; }"
FUSED = """kernel product(input a: tensor, input b: tensor, input c: tensor, output y: tensor) {
    y = relu(a @ b + c);
}"""
EPS = {np.float32: 2e-7, np.float64: 4e-16, np.float16: 1e-3, ml_dtypes.bfloat16: 8e-3}


def sample(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(y, a, b, dtype=np.float32):
    """Within the bound of the numerics contract: k · ε · Σ|a b|, and one rounding."""
    wide = a.astype(np.float64) @ b.astype(np.float64)
    most = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    depth = max(a.shape[-1], 1)
    carried = EPS[np.float64] if dtype is np.float64 else EPS[np.float32]
    bound = depth * carried * most + EPS[dtype] * np.abs(wide) + 1e-30
    assert y.dtype == dtype and y.shape == wide.shape
    assert np.all(np.abs(y.astype(np.float64) - wide) <= bound)


def product(a, b, text=TEXT):
    return wia.compile(text).product.build(a, b)


@pytest.mark.parametrize(
    "shape",
    [(1, 127, 300), (3, 1000, 33), (17, 127, 33), (9, 2100, 65), (33, 1030, 700), (130, 3, 129)],
    ids=str,
)
def test_sizes_that_no_tile_divides(shape):
    rows, depth, columns = shape
    a, b = sample((rows, depth)), sample((depth, columns), seed=1)
    close(product(a, b)(a, b), a, b)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_dtypes_in_blocks(dtype):
    a, b = sample((37, 600), dtype), sample((600, 130), dtype, 1)
    close(product(a, b)(a, b), a, b, dtype)


@pytest.mark.parametrize("turned", ["a", "b"])
def test_transposed_operands(turned):
    a, b = sample((65, 290)), sample((290, 140), seed=1)
    if turned == "a":
        a = np.ascontiguousarray(a.T).T
    else:
        b = np.ascontiguousarray(b.T).T
    close(product(a, b)(a, b), a, b)


def test_batches_and_a_shared_operand():
    a, b = sample((3, 40, 300)), sample((300, 130), seed=1)
    close(product(a, b)(a, b), a, b)
    each = sample((3, 300, 130), seed=2)
    close(product(a, each)(a, each), a, each)


def test_special_values_stay_in_their_row_and_column():
    a, b = sample((40, 1100)), sample((1100, 150), seed=1)
    a[7, 1099], a[9, 3], b[5, 149] = np.nan, np.inf, -np.inf
    y, wanted = product(a, b)(a, b), a @ b
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(y), np.isinf(wanted))


def test_the_epilogue_runs_once_after_the_last_block():
    """Of sums that are negative between blocks, relu of the whole sum is taken, not of parts."""
    a = np.ones((130, 2304), np.float32)
    b = np.concatenate([np.full((1152, 200), -1.0), np.full((1152, 200), 2.0)]).astype(np.float32)
    c = np.full(200, -52.0, np.float32)
    build = wia.compile(FUSED).product.build(a, b, c)
    assert "k " in str(build.schedule)
    np.testing.assert_array_equal(build(a, b, c), np.full((130, 200), 1100, np.float32))


def test_what_a_schedule_says_of_a_large_product():
    """A block of the matrix fits half the second cache; panels are as wide as the register tile."""
    build = wia.compile(TEXT).product.build(wia.spec((2048, 2048)), wia.spec((2048, 2048)))
    text = str(build.schedule)
    for word in ("tile j", "thread_tile i", "pack b", "parallel j.0"):
        assert word in text
    (columns,) = re.findall(r"thread_tile i \d+, j (\d+)", text)
    assert re.search(rf'memref<\d+x\d+x{columns}xf32, "packed">', build.stage("schedule").text)


@pytest.mark.parametrize("shape", [(512, 512, 512), (32, 512, 1024)], ids=str)
def test_sums_stay_in_registers(shape):
    """The innermost loop multiplies and adds, loads and broadcasts: nothing is stored."""
    rows, depth, columns = shape
    build = wia.compile(TEXT).product.build(wia.spec((rows, depth)), wia.spec((depth, columns)))
    bodies = re.split(r"^\.L\w+:$", build.assembly("x86"), flags=re.MULTILINE)
    busiest = max(bodies, key=lambda body: len(re.findall(r"vfmadd\w*ps", body)))
    assert len(re.findall(r"vfmadd\w*ps\s+[yz]mm", busiest)) >= 8
    lines = busiest.splitlines()
    stores = [line for line in lines if re.match(r"\s+vmovu?ap?s\w*\s+\S+ ptr", line)]
    assert not stores
    assert not any("rsp" in line for line in lines)


def test_a_streamed_matrix_is_prefetched():
    build = wia.compile(TEXT).product.build(wia.spec((1, 2048)), wia.spec((2048, 2048)))
    assert "prefetch b" in str(build.schedule)
    assert "prefetcht1" in build.assembly("x86")


def test_narrow_weights_are_widened_on_the_way():
    """No array of the wider numbers is made."""
    text = TEXT.replace("a @ b", "a @ cast(b, f32)")
    for rows in (1, 40):
        a, b = sample((rows, 130)), sample((130, 200), np.float16, 1)
        build = product(a, b, text)
        assert "memref.alloc() : memref<130x200xf32>" not in build.stage("loops").text
        close(build(a, b), a, b.astype(np.float32))


@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize("height", [1, 2, 3, 7, 8, 17, 100, 1000])
def test_tile_shapes_fit_registers(registers, height):
    for width in (16, 33, 64, 1000):
        rows, chunks = tile_shape(height, width, 16, registers)
        assert rows <= height and rows * chunks + chunks + 1 <= registers
        assert chunks == 1 or chunks * 16 <= width


def test_tile_shapes_waste_little():
    assert tile_shape(17, 33, 16, 32) == (9, 1)
    assert tile_shape(1024, 1024, 16, 32) == (8, 2)
    assert tile_shape(1024, 1024, 8, 16) == (6, 2)
