"""Running folds on a GPU: block scans, and scans that all blocks share."""

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
    return np.random.default_rng(3).integers(-3, 4, shape).astype(dtype)


@pytest.mark.parametrize("size", [1, 3, 17, 127, 1000, 4100])
def test_sums_of_any_length(size: int) -> None:
    a = numbers((2, size))
    build = kernel("cumsum(A, dim=1)").build(a, target=TARGET)
    np.testing.assert_array_equal(build(a), np.cumsum(a, axis=1))


def test_no_rows() -> None:
    a = numbers((0, 40))
    assert kernel("cumsum(A, dim=1)").build(a, target=TARGET)(a).shape == (0, 40)


@pytest.mark.parametrize("dtype", ["f2", "f8", "i1", "u1", "i2", "i4", "i8"])
@pytest.mark.parametrize("schedule", ["default", "parallel j 64"])
def test_each_dtype(dtype: str, schedule: str) -> None:
    a = numbers((2, 130), dtype)
    if schedule != "default" and dtype == "f2":  # beside the casts to and from f32
        schedule = f"schedule k.k_cumsum {{ {schedule}; }}"
    build = kernel("cumsum(A, dim=1)").build(a, target=TARGET, schedule=schedule)
    np.testing.assert_array_equal(build(a), np.cumsum(a, axis=1, dtype=dtype))


def test_products() -> None:
    a = np.random.default_rng(3).choice([-1, 1, 2, 0.5], (3, 100))
    for schedule in ("default", "parallel j 32"):
        build = kernel("cumprod(A, dim=1)").build(a, target=TARGET, schedule=schedule)
        np.testing.assert_array_equal(build(a), np.cumprod(a, axis=1))


@pytest.mark.parametrize("part", [1, 16, 17, 256, 1030])
def test_parts_of_any_size(part: int) -> None:
    a = numbers((1031,))
    build = kernel("cumsum(A, dim=0)").build(a, target=TARGET, schedule=f"parallel i {part}")
    assert len(build.stage("schedule").decisions) == 3
    np.testing.assert_array_equal(build(a), np.cumsum(a))


def test_views_and_what_stands_around() -> None:
    base = numbers((6, 700))
    k = kernel("relu(cumsum(A * 2, dim=1)) + A")
    for a in (base[::2, ::3], base[:, ::-1], base[::-1, 5:600]):
        expected = np.maximum(np.cumsum(a * 2, axis=1), 0) + a
        np.testing.assert_array_equal(k.build(a, target=TARGET)(a), expected)
    tall = numbers((700, 5))
    got = kernel("cumsum(A, dim=0)").build(tall, target=TARGET)(tall)
    np.testing.assert_array_equal(got, np.cumsum(tall, axis=0))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_values_reach_what_follows_alone(special: float) -> None:
    a = numbers((1000,))
    a[601] = special
    a[805] = -special
    for schedule in ("default", "parallel i 128"):
        got = kernel("cumsum(A, dim=0)").build(a, target=TARGET, schedule=schedule)(a)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(got, np.cumsum(a))


def test_the_same_bits_every_time() -> None:
    a = np.random.default_rng(1).standard_normal(20_000).astype("f4")
    build = kernel("cumsum(A, dim=0)").build(a, target=TARGET, schedule="parallel i 4096")
    first = np.asarray(build(a)).tobytes()
    assert np.asarray(build(a)).tobytes() == first


def test_rows_are_read_and_written_once_in_wide_accesses() -> None:
    a = np.ones((120, 1024), "f4")
    counters = kernel("cumsum(A, dim=1)").build(a, target=TARGET).profile(a).counters
    for way in ("ld", "st"):
        name = f"t_sectors_pipe_lsu_mem_global_op_{way}"
        assert counters[f"l1tex__{name}.sum"] == a.nbytes // 32
        assert (
            counters[f"l1tex__average_{name.replace('sectors', 'sectors_per_request')}.ratio"] == 16
        )
    assert counters["shared_memory_bank_conflicts"] == 0


def test_a_long_row_is_scanned_by_all_blocks() -> None:
    spec = wia.spec((1 << 20,), "f32")
    chosen = kernel("cumsum(A, dim=0)").build(spec, target=TARGET)
    assert "parallel i 8192" in chosen.schedule
    _, totals, parts = chosen.stage("schedule").decisions
    assert totals.numbers["row"] == 128
    assert (parts.numbers["rows"], parts.numbers["row"]) == (128, 8192)
    assert parts.reason == "running fold: a block for each row, 4 neighbours a thread"
    pasted = kernel("cumsum(A, dim=0)").build(spec, target=TARGET, schedule=chosen.schedule)
    assert pasted.assembly("ptx") == chosen.assembly("ptx")


@needs_ptxas
@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_ptxas_takes_them_without_spills(architecture: str) -> None:
    build = kernel("cumsum(A, dim=1)").build(
        wia.spec((3, 100_003), "f16"), target=f"gpu:{architecture}"
    )
    for entry in build.resources["entries"].values():
        assert entry["spill_store_bytes"] == entry["spill_load_bytes"] == 0
