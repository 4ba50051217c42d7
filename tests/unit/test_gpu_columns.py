"""Folds of columns: neighbouring threads read neighbours, rows meet in shared memory."""

from __future__ import annotations

import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES

TARGET = "gpu:sm_80"


def kernel(expression: str) -> wia.Kernel:
    return wia.compile(f"kernel k(input A: tensor, output Y: tensor) {{ Y = {expression}; }}").k


def numbers(shape: tuple[int, ...], dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(3).integers(1, 4, shape).astype(dtype)


@pytest.mark.parametrize(
    "shape", [(9, 1), (17, 3), (127, 17), (1000, 127), (300, 33), (2, 40, 64), (1003, 256)]
)
def test_sums_of_columns_of_any_size(shape: tuple[int, ...]) -> None:
    a = numbers(shape)
    k = kernel(f"reduce_sum(A, axis={len(shape) - 2})")
    np.testing.assert_array_equal(k.build(a, target=TARGET)(a), a.sum(axis=-2))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u1", "i2", "i4", "i8"])
@pytest.mark.parametrize("fold", ["sum", "max", "prod", "argmax", "all"])
def test_each_fold_of_each_dtype(fold: str, dtype: str) -> None:
    a = numbers((61, 37), dtype)
    text = {"argmax": "argmax(A, dim=0)", "all": "reduce_all(A > 0, dim=0)"}
    k = kernel(text.get(fold, f"reduce_{fold}(A, dim=0)"))
    got, expected = k.build(a, target=TARGET)(a), k.build(a, target="cpu")(a)
    if fold == "prod" and dtype.startswith("f"):
        np.testing.assert_allclose(got, expected, rtol=1e-3)
    else:
        np.testing.assert_array_equal(got, expected)


def test_a_schedule_by_columns_is_chosen() -> None:
    build = kernel("reduce_sum(A, dim=0)").build(wia.spec((4096, 1024), "f32"), target=TARGET)
    (decision,) = build.stage("schedule").decisions
    assert decision.reason == "reduction: a block for 32 columns, 32 rows at a time"


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_values(special: float) -> None:
    a = numbers((200, 40))
    a[151, 7] = special
    for fold in ("reduce_sum", "reduce_max", "reduce_min"):
        k = kernel(f"{fold}(A, dim=0)")
        got, expected = k.build(a, target=TARGET)(a), k.build(a, target="cpu")(a)
        np.testing.assert_array_equal(got, expected)


def test_views_with_gaps() -> None:
    base = numbers((400, 90))
    k = kernel("reduce_sum(A, dim=0)")
    for a in (base[::2, 5:70], base[::-1], base[:, ::-1], base[:, ::2]):
        np.testing.assert_array_equal(k.build(a, target=TARGET)(a), a.sum(axis=0))


def test_columns_are_read_once_by_full_sectors_without_conflicts() -> None:
    a = np.ones((2048, 512), "f4")
    build = kernel("reduce_sum(A, dim=0)").build(a, target=TARGET)
    counters = build.profile(a).counters
    assert counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == a.nbytes // 32
    assert counters["derived__memory_l2_theoretical_sectors_global_excessive"] == 0
    assert counters["shared_memory_bank_conflicts"] == 0


@pytest.mark.parametrize(("dtype", "each"), [("f2", 2), ("i1", 4), ("u1", 4)])
def test_narrow_columns_fill_whole_lines(dtype: str, each: int) -> None:
    a = numbers((12, 108 * 32 * each), dtype)
    k = kernel("reduce_max(A, dim=0)")
    build = k.build(a, target=TARGET, debug=True)
    assert f"thread_tile j {each};" in build.schedule
    np.testing.assert_array_equal(build(a), a.max(axis=0))
    counters = build.profile(a).counters
    read = counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    assert read == a.nbytes // 32
    assert read == 4 * counters["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    assert counters.get("shared_memory_bank_conflicts", 0) == 0


def test_the_same_bits_every_time() -> None:
    a = np.random.default_rng(5).standard_normal((3000, 50)).astype("f4")
    build = kernel("reduce_sum(A, dim=0)").build(a, target=TARGET)
    first = np.asarray(build(a)).tobytes()
    assert all(np.asarray(build(a)).tobytes() == first for _ in range(3))


@needs_ptxas
@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_ptxas_takes_them_without_spills(architecture: str) -> None:
    build = kernel("reduce_sum(A, dim=0)").build(
        wia.spec((4096, 1000), "f16"), target=f"gpu:{architecture}"
    )
    for entry in build.resources["entries"].values():
        assert entry["spill_store_bytes"] == entry["spill_load_bytes"] == 0
