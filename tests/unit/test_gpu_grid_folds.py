"""Folds of few long rows: parts for all SMs, and a launch that folds what the parts have."""

from __future__ import annotations

import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES

TARGET = "gpu:sm_80"
EXPRESSIONS = {
    "reduce_sum(A, axis=1)": ("f4", "f2", "f8", "i1", "i4", "u1", "i8"),
    "reduce_max(A, axis=1)": ("f4", "f2", "i1"),
    "reduce_min(A, axis=1)": ("f8", "i4", "u1"),
    "reduce_prod(A, axis=1)": ("i4", "f8"),
    "reduce_all(A > 0, axis=1)": ("f4",),
    "reduce_any(A > 3, axis=1)": ("f4", "i1"),
    "argmax(A, axis=1)": ("f4", "i1", "f2"),
    "argmin(A, axis=1)": ("f8",),
    "variance(A, axis=1)": ("f4",),
    "softmax(A, axis=1)": ("f4",),
}


def kernel(expression: str) -> wia.Kernel:
    return wia.compile(f"kernel k(input A: tensor, output Y: tensor) {{ Y = {expression}; }}").k


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.random.default_rng(7).integers(1, 5, shape).astype(dtype)


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [(expression, dtype) for expression, dtypes in EXPRESSIONS.items() for dtype in dtypes],
)
def test_parts_agree_with_one_launch(expression: str, dtype: str) -> None:
    a = numbers((2, 1003), dtype)
    k = kernel(expression)
    parts = k.build(a, target=TARGET, schedule="parallel j 100")
    assert "launch of their own" in parts.schedule
    expected = np.asarray(k.build(a, target="cpu")(a))
    np.testing.assert_allclose(np.asarray(parts(a)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("size", "part"), [(2, 1), (3, 2), (17, 16), (127, 127), (1000, 64), (4097, 1000)]
)
def test_any_part_of_any_row(size: int, part: int) -> None:
    a = numbers((size,), "f4")
    k = kernel("reduce_sum(A)")
    if part >= size:
        with pytest.raises(wia.CompileError, match=f"has {size} points, which parts of {part}"):
            k.build(a, target=TARGET, schedule=f"parallel i {part}")
        return
    assert k.build(a, target=TARGET, schedule=f"parallel i {part}")(a) == a.sum()


@pytest.mark.parametrize("view", ["reversed", "strided", "transposed"])
def test_views(view: str) -> None:
    base = numbers((6, 2048), "f4")
    a = {"reversed": base[:, ::-1], "strided": base[::2, ::3], "transposed": base.T}[view]
    k = kernel("reduce_sum(A, axis=0)")
    size = a.shape[0] // 2
    build = k.build(a, target=TARGET, schedule=f"parallel i {size}")
    np.testing.assert_array_equal(build(a), a.sum(axis=0))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0])
@pytest.mark.parametrize("fold", ["reduce_sum", "reduce_max", "reduce_min", "reduce_mean"])
def test_special_values(fold: str, special: float) -> None:
    a = numbers((1000,), "f4")
    a[701] = special
    k = kernel(f"{fold}(A)")
    got = np.asarray(k.build(a, target=TARGET, schedule="parallel i 64")(a))
    expected = np.asarray(k.build(a, target="cpu")(a))
    np.testing.assert_array_equal(got, expected)


def test_minus_zero_stays() -> None:
    a = np.full(1000, -0.0, "f4")
    got = kernel("reduce_max(A)").build(a, target=TARGET, schedule="parallel i 64")(a)
    assert np.signbit(got)


def test_every_run_gives_the_same_bits_on_both_engines() -> None:
    a = np.random.default_rng(1).standard_normal(1 << 18).astype("f4")
    build = kernel("reduce_sum(A)").build(a, target=TARGET)
    first = np.asarray(build(a)).tobytes()
    assert np.asarray(build(a)).tobytes() == first
    ptx = build.assembly("ptx")
    results = []
    for engine in ("numpy", "compiled"):
        parts, out = np.zeros(64, "f4"), np.zeros((), "f4")
        wia.ptx.run(ptx, "k_reduce_sum", 64, 512, [a, parts], engine=engine)
        wia.ptx.run(ptx, "k_reduce_sum_1", 1, 64, [out, parts], engine=engine)
        results.append((parts.tobytes(), out.tobytes()))
    assert results[0] == results[1]
    assert results[0][1] == first


def test_each_element_is_read_once_by_full_sectors() -> None:
    a = np.ones(1 << 20, "f4")
    profile = kernel("reduce_sum(A)").build(a, target=TARGET).profile(a)
    read = profile.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    assert a.nbytes // 32 <= read <= a.nbytes // 32 * 1.01
    assert profile.counters["derived__memory_l2_theoretical_sectors_global_excessive"] == 0
    assert profile.counters["shared_memory_bank_conflicts"] == 0


def test_the_model_prefers_the_parts_that_are_chosen() -> None:
    a = np.ones(1 << 20, "f4")
    k = kernel("reduce_sum(A)")
    times = [
        k.build(a, target=TARGET, schedule=schedule).profile(a, device="A100").estimate.time
        for schedule in ("default", "parallel i 524288")
    ]
    assert times[0] < times[1] / 3


def test_the_printed_schedule_gives_the_same_code() -> None:
    a = wia.spec((1 << 20,), "f4")
    k = kernel("reduce_sum(A)")
    chosen = k.build(a, target=TARGET)
    assert "parallel i" in chosen.schedule
    pasted = k.build(a, target=TARGET, schedule=chosen.schedule)
    assert pasted.assembly("ptx") == chosen.assembly("ptx")


@pytest.mark.parametrize(
    ("expression", "schedule", "message"),
    [
        ("reduce_sum(A, axis=1)", "parallel j", "every block and thread of a gpu runs in parallel"),
        ("reduce_sum(A, axis=1)", "parallel i 4", "no leaf folds 'i'"),
        ("reduce_sum(A, axis=1)", "parallel q 4", "no axis 'q'"),
        ("reduce_sum(A, axis=1)", "parallel j 0", "which parts of 0 do not cut"),
        ("reduce_sum(A, axis=1)", "parallel j 8; parallel j 4", "one axis in parts"),
    ],
)
def test_refusals(expression: str, schedule: str, message: str) -> None:
    with pytest.raises(wia.CompileError) as raised:
        kernel(expression).build(wia.spec((64, 64), "f4"), target=TARGET, schedule=schedule)
    assert message in str(raised.value)
    assert "help:" in str(raised.value)


@needs_ptxas
@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_ptxas_takes_them_without_spills(architecture: str) -> None:
    a = wia.spec((1 << 20,), "f4")
    for expression in ("reduce_sum(A)", "argmax(A)", "softmax(A, axis=0)"):
        resources = kernel(expression).build(a, target=f"gpu:{architecture}").resources
        assert resources["kernels"] > 1
        for entry in resources["entries"].values():
            assert entry["spill_store_bytes"] == entry["spill_load_bytes"] == 0
