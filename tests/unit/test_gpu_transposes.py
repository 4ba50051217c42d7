"""Operands that lie the other way round go through shared memory, without conflicts."""

from __future__ import annotations

import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES

TARGET = "gpu:sm_80"
DTYPES = ["f2", "f4", "f8", "i1", "u1", "i2", "i4", "i8"]


def kernel(expression: str, inputs: str = "A") -> wia.Kernel:
    listed = ", ".join(f"input {name}: tensor" for name in inputs)
    return wia.compile(f"kernel k({listed}, output Y: tensor) {{ Y = {expression}; }}").k


def numbers(shape: tuple[int, ...], dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(3).integers(1, 9, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_sides_are_coalesced_without_conflicts(dtype: str) -> None:
    a = numbers((128, 96), dtype)
    build = kernel("transpose(A)").build(a, target=TARGET)
    np.testing.assert_array_equal(build(a), a.T)
    counters = build.profile(a).counters
    assert counters["shared_memory_bank_conflicts"] == 0
    assert counters["derived__memory_l2_theoretical_sectors_global_excessive"] == 0
    for way in ("ld", "st"):
        sectors = counters[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{way}.sum"]
        assert sectors == a.nbytes // 32


@pytest.mark.parametrize(
    "shape", [(0, 5), (1, 17), (3, 127), (17, 1000), (9, 8), (33, 31), (127, 65)]
)
def test_any_size(shape: tuple[int, ...]) -> None:
    a = numbers(shape)
    np.testing.assert_array_equal(kernel("transpose(A)").build(a, target=TARGET)(a), a.T)


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 1, 0), (1, 0, 2), (1, 2, 0), (2, 0, 1)])
def test_permutations(order: tuple[int, ...]) -> None:
    a = numbers((9, 20, 33))
    listed = ", ".join(map(str, order))
    build = kernel(f"permute(A, dims=[{listed}])").build(a, target=TARGET)
    np.testing.assert_array_equal(build(a), a.transpose(order))


def test_what_stands_around_stays_fused() -> None:
    a, b = numbers((64, 80)), numbers((80, 64))
    build = kernel("relu(transpose(A) + B) * 2", "AB").build(a, b, target=TARGET)
    (decision,) = build.stage("schedule").decisions
    assert decision.numbers["turned"] == 1
    np.testing.assert_array_equal(build(a, b), (a.T + b) * 2)


def test_views() -> None:
    base = numbers((120, 90))
    k = kernel("transpose(A) + 1")
    for a in (base[::2, 3:60], base[::-1], base[:, ::-1], base.T):
        np.testing.assert_array_equal(k.build(a, target=TARGET)(a), a.T + 1)


def test_special_values_pass() -> None:
    a = numbers((40, 40))
    a[3, 7], a[11, 2], a[0, 39] = np.nan, np.inf, -0.0
    got = np.asarray(kernel("transpose(A)").build(a, target=TARGET)(a))
    assert np.array_equal(got.view("u4"), np.ascontiguousarray(a.T).view("u4"))


@pytest.mark.parametrize("schedule", ["", "tile i 64, j 16; thread_tile i 8", "tile i 4, j 256"])
def test_a_user_tiles_them(schedule: str) -> None:
    a = numbers((100, 260))
    chosen = kernel("transpose(A)").build(a, target=TARGET)
    build = kernel("transpose(A)").build(a, target=TARGET, schedule=schedule or chosen.schedule)
    np.testing.assert_array_equal(build(a), a.T)
    if not schedule:
        assert "tile i 32, j 32;" in chosen.schedule
        assert build.assembly("ptx") == chosen.assembly("ptx")


@needs_ptxas
@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_ptxas_takes_them_without_spills(architecture: str) -> None:
    resources = (
        kernel("transpose(A)").build(wia.spec((999, 777), "f16"), target=f"gpu:{architecture}")
    ).resources
    assert resources["shared_bytes"] == 32 * 34 * 2
    assert resources["spill_store_bytes"] == resources["spill_load_bytes"] == 0
