"""Folds in parts: the same result for any number of threads, and refusals before a change."""

import numpy as np
import pytest
import wia_compiler as wia
from numpy.typing import NDArray

TEXTS = {
    "sum": "reduce_sum(x)",
    "mean of squares": "reduce_mean(x * x)",
    "largest": "reduce_max(x)",
    "smallest": "reduce_min(x)",
    "product": "reduce_prod(x)",
    "position": "argmax(x)",
}
SUM = "kernel k(input x: tensor, output y: tensor) { y = reduce_sum(x); }"


def values(count: int, dtype: str) -> NDArray:
    rng = np.random.default_rng(count)
    numbers = rng.normal(size=count) if dtype.startswith(("f", "b")) else rng.integers(-9, 9, count)
    return numbers.astype(wia.spec((1,), dtype).dtype.numpy)


@pytest.mark.parametrize(
    ("count", "size"),
    [(2, 1), (3, 7), (17, 1), (17, 16), (127, 64), (1000, 7), (1000, 500), (1000, 5000)],
)
def test_parts_of_any_size(count: int, size: int) -> None:
    x = values(count, "f32")
    kernel = wia.compile(SUM)["k"]
    build = kernel.build(x, schedule=f"schedule k {{ parallel i {size}; }}")
    assert "i_part.0" in build.stage("schedule").text
    np.testing.assert_allclose(build(x), x.sum(dtype=np.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in TEXTS
        for dtype in ("f64", "f32", "f16", "bf16", "i32", "i8")
        if name != "mean of squares" or not dtype.startswith("i")  # integers have no mean
    ],
)
def test_every_fold(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = wia.compile(f"kernel k(input x: tensor, output y: tensor) {{ y = {TEXTS[name]}; }}")[
        "k"
    ]
    x = values(301, dtype) if name != "product" else values(31, dtype) + values(31, dtype)
    build = kernel.build(x, schedule="schedule k { parallel i 16; }")
    wanted = wia.reference(kernel, x)
    results = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("WIA_NUM_THREADS", threads)
        results.append(build(x))
    assert len({each.tobytes() for each in results}) == 1
    tolerance = {"f64": 1e-12, "f32": 1e-5}.get(dtype, 1e-2)
    exact = dtype.startswith("i") or name not in ("sum", "mean of squares", "product")
    found, want = (each.astype(np.float64) for each in (results[0], wanted))
    np.testing.assert_allclose(found, want, rtol=0 if exact else tolerance, atol=0)


def test_special_values_reach_the_result() -> None:
    kernel = wia.compile("kernel k(input x: tensor, output y: tensor) { y = reduce_max(x); }")["k"]
    for special in (np.nan, np.inf, -np.inf):
        x = values(100, "f32")
        x[77] = special
        build = kernel.build(x, schedule="schedule k { parallel i 8; }")
        np.testing.assert_array_equal(build(x), x.max())
    zeros = np.full(100, -0.0, np.float32)
    assert not np.signbit(wia.compile(SUM)["k"].build(zeros)(zeros))


def test_a_fold_of_rows_at_once_and_of_strided_arrays() -> None:
    x = np.random.default_rng(1).normal(size=(9, 40, 31)).astype(np.float32)[:, ::2, ::-1]
    build = wia.compile(SUM)["k"].build(x, schedule="schedule k { parallel i 2; }")
    np.testing.assert_allclose(build(x), x.sum(dtype=np.float64), rtol=1e-4)
    dot = wia.compile("kernel k(input a: tensor, input b: tensor, output c: tensor) { c = a @ b; }")
    a, b = values(1003, "f32"), values(1003, "f32")[::-1]
    build = dot["k"].build(a, b, schedule="schedule k { parallel k 100; }")
    np.testing.assert_allclose(build(a, b), a.astype(np.float64) @ b, rtol=1e-4)


@pytest.mark.parametrize("width", [1, 3, 100, 1000])
def test_rows_are_added_in_parts_of_their_own(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold down columns: each part has a row of results."""
    x = np.random.default_rng(2).normal(size=(57, 2, width)).astype(np.float32)
    text = "kernel k(input x: tensor, output y: tensor) { y = reduce_max(x * x, axis=0); }"
    kernel = wia.compile(text)["k"]
    line = f"parallel i 10; thread_tile j {width}, i 4"
    build = kernel.build(x, schedule=f"schedule k {{ {line}; }}")
    for threads in ("1", "3"):
        monkeypatch.setenv("WIA_NUM_THREADS", threads)
        np.testing.assert_array_equal(build(x), (x * x).max(axis=0))


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (SUM, "parallel i 0", "parts of 0 points"),
        (SUM, "tile i 8; parallel i 4", "i.0 walks a folded axis already"),
        (SUM, "parallel n 4", "no axis 'n'"),
        (
            """kernel k(input x: tensor<N, f32>, output y: tensor<1, f32>) {
                let s = 0.0; for i in 0..N { s += x[i]; } y[0] = s; }""",
            "parallel i 4",
            "a sum that the text writes out adds along 'i' in order",
        ),
    ],
)
def test_refusals(text: str, line: str, reason: str) -> None:
    kernel = wia.compile(text)["k"]
    with pytest.raises(wia.CompileError, match=reason):
        kernel.build(wia.spec((100,), "f32"), schedule=f"schedule k {{ {line}; }}")


def test_long_folds_are_cut_by_default_and_short_ones_are_not() -> None:
    kernel = wia.compile(SUM)["k"]
    assert "parallel" not in kernel.build(wia.spec((10_000,), "f32")).schedule
    build = kernel.build(wia.spec((5_000_000,), "f32"))
    assert "parallel i " in build.schedule
    rows = wia.compile("kernel k(input x: tensor, output y: tensor) { y = reduce_sum(x, axis=0); }")
    assert "parallel i " in rows["k"].build(wia.spec((4000, 1000), "f32")).schedule
    again = kernel.build(wia.spec((5_000_000,), "f32"), schedule=build.schedule)
    assert again.assembly("x86") == build.assembly("x86")
