"""Rows are read once, in wide accesses, from registers or shared memory afterwards."""

from __future__ import annotations

import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES

NORMS = ("softmax(A, dim=1)", "layer_norm(A)", "rms_norm(A)", "log_softmax(A, dim=1)")


def kernel(expression: str) -> wia.Kernel:
    return wia.compile(f"kernel k(input A: tensor, output Y: tensor) {{ Y = {expression}; }}").k


def numbers(shape: tuple[int, ...], dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("expression", NORMS)
@pytest.mark.parametrize(("rows", "dtype"), [(200, "f4"), (200, "f2"), (3, "f4")])
def test_each_element_is_read_and_written_once(expression: str, rows: int, dtype: str) -> None:
    a = numbers((rows, 1024), dtype)
    build = kernel(expression).build(a, target="gpu:sm_80")
    counters = build.profile(a).counters
    for way in ("ld", "st"):
        sectors = counters[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{way}.sum"]
        assert sectors == a.nbytes // 32
        assert sectors == 16 * counters[f"l1tex__t_requests_pipe_lsu_mem_global_op_{way}.sum"]
    assert counters["shared_memory_bank_conflicts"] == 0


@pytest.mark.parametrize("expression", NORMS)
@pytest.mark.parametrize("length", [1, 3, 17, 127, 130, 1000, 1028])
def test_any_length(expression: str, length: int) -> None:
    a = numbers((150, length))
    k = kernel(expression)
    got, expected = k.build(a, target="gpu:sm_80")(a), k.build(a, target="cpu")(a)
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("length", [46_000, 46_003])
def test_a_long_row_waits_in_shared_memory(length: int) -> None:
    a = numbers((140, length))[:2]
    k = kernel("layer_norm(A)")
    build = k.build(wia.spec((140, length), "f32"), target="gpu:sm_90")
    assert build.stage("schedule").decisions[0].numbers["rows kept in shared memory"] == 1
    whole = np.resize(a, (140, length))
    profile = build.profile(whole)
    read = profile.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    assert read <= whole.nbytes // 32 * 1.3  # rows of odd lengths share sectors
    expected = k.build(whole, target="cpu")(whole)
    np.testing.assert_allclose(build(whole), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_values_stay_in_their_rows(special: float) -> None:
    a = numbers((150, 256))
    a[7, 131] = special
    k = kernel("softmax(A, dim=1)")
    got, expected = k.build(a, target="gpu:sm_80")(a), k.build(a, target="cpu")(a)
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)


def test_views() -> None:
    base = numbers((300, 1100))
    k = kernel("softmax(A, dim=1)")
    for a in (base[::2, 3:900], base[::-1, :512], base[:, ::-1]):
        got, expected = k.build(a, target="gpu:sm_80")(a), k.build(a, target="cpu")(a)
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("schedule", "threads"),
    [
        ("tile i 8", 8),
        ("tile i 4, j 32", 128),
        ("tile i 2, j 128; thread_tile j 4", 64),
        ("tile i 1, j 64", 64),
        ("tile j 256; vectorize j 2", 128),
        ("tile j 4096; thread_tile j 8", 512),
    ],
)
@pytest.mark.parametrize("expression", ["softmax(A, dim=1)", "argmax(A, dim=1)"])
def test_a_row_is_shared_as_a_schedule_says(schedule: str, threads: int, expression: str) -> None:
    a = numbers((13, 24))
    k = kernel(expression)
    build = k.build(a, target="gpu:sm_80", schedule=schedule, debug=True)
    (decision,) = build.stage("schedule").decisions
    assert decision.numbers["threads"] == threads
    np.testing.assert_allclose(build(a), k.build(a, target="cpu")(a), rtol=2e-5, atol=2e-6)


def test_columns_are_shared_as_a_schedule_says() -> None:
    a = numbers((100, 70))
    k = kernel("reduce_max(A, dim=0)")
    build = k.build(a, target="gpu:sm_80", schedule="tile j 16, i 6", debug=True)
    assert build.stage("schedule").decisions[0].numbers["threads"] == 96
    np.testing.assert_array_equal(build(a), a.max(axis=0))


@pytest.mark.parametrize(
    ("expression", "shape", "line"),
    [
        ("softmax(A, dim=1)", (400, 256), "tile i 4, j 128;"),
        ("layer_norm(A)", (400, 3000), "tile j 2048;"),
        ("rms_norm(A)", (300, 77), "tile i 4, j 32;"),
        ("reduce_sum(A, dim=1)", (4000, 5), "tile i 256;"),
        ("reduce_sum(A, dim=0)", (500, 300), "tile j 32, i 32;"),
        ("reduce_max(A, dim=0)", (5, 500), "tile j 256;"),
    ],
)
def test_the_printed_schedule_gives_the_same_code(
    expression: str, shape: tuple[int, ...], line: str
) -> None:
    k, a = kernel(expression), wia.spec(shape, "f32")
    chosen = k.build(a, target="gpu:sm_80")
    assert line in chosen.schedule
    pasted = k.build(a, target="gpu:sm_80", schedule=chosen.schedule)
    assert pasted.assembly("ptx") == chosen.assembly("ptx")


@needs_ptxas
@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_ptxas_takes_them_without_spills(architecture: str) -> None:
    for length, expression in ((1024, "softmax(A, dim=1)"), (44_000, "layer_norm(A)")):
        build = kernel(expression).build(
            wia.spec((400, length), "f32"), target=f"gpu:{architecture}"
        )
        for entry in build.resources["entries"].values():
            assert entry["spill_store_bytes"] == entry["spill_load_bytes"] == 0


@needs_ptxas
@pytest.mark.parametrize(
    ("expression", "length", "dtype"),
    [
        ("softmax(A, dim=1)", 50_000, "f32"),
        ("softmax(A, dim=1)", 24_000, "f64"),
        ("rms_norm(A)", 128_256, "bf16"),
    ],
)
def test_rows_that_registers_cannot_hold_are_not_kept_there(
    expression: str, length: int, dtype: str
) -> None:
    build = kernel(expression).build(wia.spec((64, length), dtype), target="gpu:sm_80")
    for entry in build.resources["entries"].values():
        assert entry["spill_store_bytes"] == entry["spill_load_bytes"] == 0
