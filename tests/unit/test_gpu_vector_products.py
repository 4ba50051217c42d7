"""Matrix times vector, or times few rows: the matrix is read once, in wide and whole accesses."""

from __future__ import annotations

import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES

TARGET = "gpu:sm_80"


def kernel(expression: str = "A @ B") -> wia.Kernel:
    text = f"kernel k(input A: tensor, input B: tensor, output Y: tensor) {{ Y = {expression}; }}"
    return wia.compile(text).k


def numbers(shape: tuple[int, ...], dtype: str = "f4") -> np.ndarray:
    low = 0 if dtype.startswith("u") else -3
    return np.random.default_rng(sum(shape)).integers(low, 4, shape).astype(dtype)


SHAPES = [
    ((33, 67), (67,)),
    ((64, 128), (128,)),
    ((67,), (67, 33)),
    ((128,), (128, 96)),
    ((3, 127), (127, 130)),
    ((8, 64), (64, 48)),
    ((130, 127), (127, 3)),
    ((1, 1000), (1000, 1)),
    ((1003,), (1003,)),
    ((5, 3, 96), (5, 96, 17)),
    ((5, 70, 96), (5, 96, 1)),
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "i4"])
def test_any_shape_in_each_dtype(shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    a, b = (numbers(shape, dtype) for shape in shapes)
    k = kernel()
    got = k.build(a, b, target=TARGET, debug=True)(a, b)
    np.testing.assert_array_equal(got, k.build(a, b, target="cpu")(a, b))


@pytest.mark.parametrize("dtype", ["f8", "u1", "i2", "i8"])
def test_other_dtypes(dtype: str) -> None:
    a, b = numbers((2, 96), dtype), numbers((96, 64), dtype)
    for left, right in ((a, b), (b.T.copy(), a[0].copy())):
        k = kernel()
        got = k.build(left, right, target=TARGET)(left, right)
        np.testing.assert_array_equal(got, k.build(left, right, target="cpu")(left, right))


def test_what_follows_the_product_is_computed_with_it() -> None:
    a, b = numbers((3, 64)), numbers((64, 96))
    k = kernel("relu(A @ B) + 1.0")
    build = k.build(a, b, target=TARGET)
    assert build.resources["kernels"] == 1
    np.testing.assert_array_equal(build(a, b), np.maximum(a @ b, 0) + 1)


def test_views() -> None:
    base, x = numbers((260, 200)), numbers((400,))
    for a, b in (
        (base[::2, 3:99], x[:96]),
        (base[:, ::-1], x[:200]),
        (base.T, x[:260]),
        (x[::2], base[:200, 1:50]),
        (x[:200][::-1], base[60:, ::3]),
    ):
        k = kernel()
        np.testing.assert_array_equal(k.build(a, b, target=TARGET)(a, b), a @ b)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_values_stay_in_their_rows_and_columns(special: float) -> None:
    a, x = numbers((64, 64)) + 5, numbers((64,)) + 5
    a[7, 31] = special
    for left, right in ((a, x), (x, a)):
        got = kernel().build(left, right, target=TARGET)(left, right)
        np.testing.assert_array_equal(got, left @ right)


@pytest.mark.parametrize("dtype", ["f4", "f2", "i1"])
@pytest.mark.parametrize("way", ["A @ x", "x @ A", "4 rows"])
def test_the_matrix_is_read_once_in_whole_sectors(dtype: str, way: str) -> None:
    a = numbers((512, 1024), dtype)
    x = {"A @ x": numbers((1024,), dtype), "x @ A": numbers((512,), dtype)}.get(
        way, numbers((4, 512), dtype)
    )
    given = (a, x) if way == "A @ x" else (x, a)
    build = kernel().build(*given, target=TARGET)
    counters = build.profile(*given).counters
    assert "vector product" in build.stage("schedule").decisions[0].reason
    read = counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    requests = counters["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    once = a.nbytes // 32
    if way == "A @ x":
        # Each row beside the vector: 16 bytes a lane of both.
        assert once <= read <= 2.02 * once
        assert read >= 15 * requests or dtype == "i1"
    else:
        # The rows of the other operand, of which a warp reads a sector for some of its lines.
        assert once <= read <= 2 * once
        assert read >= requests
    assert counters.get("shared_memory_bank_conflicts", 0) == 0


def test_few_columns_of_a_long_fold_are_cut_into_parts() -> None:
    x, a = numbers((1 << 16,)), numbers((1 << 16, 8))
    k = kernel()
    build = k.build(x, a, target=TARGET)
    assert "launch of their own" in build.schedule
    np.testing.assert_array_equal(build(x, a), x @ a)
    long = numbers((1 << 20,))
    build = k.build(long, long, target=TARGET)
    assert build.resources["kernels"] == 2
    assert build(long, long) == (long.astype("f8") ** 2).sum()


def test_the_order_of_a_written_sum_is_kept() -> None:
    text = """
    kernel k(input A: tensor<96, 64, f32>, input x: tensor<64, f32>, output y: tensor<96, f32>) {
        for i in 0..96 { let s: f32 = 0; for j in 0..64 { s += A[i, j] * x[j]; } y[i] = s; }
    }
    """
    a, x = np.random.default_rng(1).random((96, 64), "f4"), np.full(64, 3, "f4")
    k = wia.compile(text).k
    np.testing.assert_array_equal(
        k.build(a, x, target=TARGET)(a, x), k.build(a, x, target="cpu", schedule="")(a, x)
    )


@needs_ptxas
@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_ptxas_takes_them_without_spills(architecture: str) -> None:
    for dtype, left, right in (
        ("f16", (8, 4096), (4096, 4096)),
        ("f64", (4096,), (4096, 4096)),
        ("i8", (4096, 4096), (4096,)),
    ):
        build = kernel().build(
            wia.spec(left, dtype), wia.spec(right, dtype), target=f"gpu:{architecture}"
        )
        for entry in build.resources["entries"].values():
            assert entry["spill_store_bytes"] == entry["spill_load_bytes"] == 0
