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


@needs_ptxas
@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_ptxas_takes_them_without_spills(architecture: str) -> None:
    for length, expression in ((1024, "softmax(A, dim=1)"), (44_000, "layer_norm(A)")):
        build = kernel(expression).build(
            wia.spec((400, length), "f32"), target=f"gpu:{architecture}"
        )
        for entry in build.resources["entries"].values():
            assert entry["spill_store_bytes"] == entry["spill_load_bytes"] == 0
