"""Loops that threads share: the same numbers for any number of threads, safely."""

import numpy as np
import pytest
import wia_compiler as wia
from numpy.typing import NDArray

COUNTS = ("1", "2", "3", "7")
KERNELS = {
    "rows": (
        "kernel k(input x: tensor, output y: tensor) { y = softmax(x * 2); }",
        "schedule k { parallel i; }",
        [(17, 127)],
    ),
    "product": (
        "kernel k(input a: tensor, input b: tensor, output c: tensor) { c = relu(a @ b); }",
        "schedule k { tile i 8; parallel i; }",
        [(33, 70), (70, 65)],
    ),
    "two loops as one": (
        "kernel k(input a: tensor, input b: tensor, output c: tensor) { c = a @ b; }",
        "schedule k { tile i 8, j 16; parallel i.0, j.0; }",
        [(33, 70), (70, 65)],
    ),
    "in turns of a serial loop": (
        "kernel k(input a: tensor, input b: tensor, output c: tensor) { c = a @ b; }",
        "schedule k { tile i 8, j 16; parallel j.0; }",
        [(33, 70), (70, 65)],
    ),
    "elements": (
        """kernel k(input x: tensor<M, N, f32>, output y: tensor<M, f32>) {
            for i in 0..M { let s = 0.0; for j in 0..N { s = s * 0.5 + x[i, j]; } y[i] = s; } }""",
        "schedule k { parallel i; }",
        [(127, 17)],
    ),
}


def ones(*shape: int) -> NDArray[np.float32]:
    return np.ones(shape, np.float32)


def normal(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("name", KERNELS)
def test_results_are_those_of_one_thread_to_the_last_bit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, schedule, shapes = KERNELS[name]
    kernel = wia.compile(text)["k"]
    arrays = [normal(*shape) for shape in shapes]
    shared = kernel.build(*arrays, schedule=schedule)
    assert "scf.parallel" in shared.stage("lower").text
    assert "call i1 @wia_parallel(" in shared.assembly("llvm")
    wanted = wia.reference(kernel, *arrays)
    results = []
    for count in COUNTS:
        monkeypatch.setenv("WIA_NUM_THREADS", count)
        results.append(shared(*arrays))
        np.testing.assert_allclose(results[-1], wanted, rtol=1e-5, atol=1e-5)
        assert results[-1].tobytes() == results[0].tobytes()


def test_memory_of_each_thread_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed tiles larger than the stack may hold lie in memory that threads do not share."""
    text = "kernel k(input a: tensor, input b: tensor, output c: tensor) { c = a @ b; }"
    a, b = normal(24, 300), normal(300, 130)
    schedule = "schedule k { thread_tile j 32, i 8; reorder j, i; pack b at j; parallel j.0; }"
    build = wia.compile(text)["k"].build(a, b, schedule=schedule)
    assert "wia.scratch" in build.stage("lower").text
    monkeypatch.setenv("WIA_NUM_THREADS", "4")
    for _ in range(20):
        np.testing.assert_allclose(build(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_a_loop_inside_of_a_shared_one_is_run_by_the_thread_that_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where a loop that nobody shares stands between them."""
    a, b = normal(33, 20), normal(20, 17)
    schedule = "schedule k { tile i 8; tile j 4; tile i 4; parallel i.0; parallel i.1; }"
    build = wia.compile(PRODUCT)["k"].build(a, b, schedule=schedule)
    assert build.stage("schedule").text.count("@thread {") == 2
    assert build.stage("lower").text.count("scf.parallel") == 1
    monkeypatch.setenv("WIA_NUM_THREADS", "3")
    np.testing.assert_allclose(build(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_small_kernels_are_left_on_one_thread_and_large_ones_are_not() -> None:
    kernel = wia.compile("kernel k(input x: tensor, output y: tensor) { y = exp(x); }")["k"]
    small, large = (kernel.build(wia.spec((n, 100), "f32")) for n in (10, 100_000))
    assert "parallel" not in small.schedule and "wia_parallel" not in small.assembly("llvm")
    assert "parallel" in large.schedule and "wia_parallel" in large.assembly("llvm")
    # A profile compares a kernel with the limits of the threads that it runs on.
    assert [each.artifact.metadata["parallel"] for each in (small, large)] == [False, True]


PRODUCT = "kernel k(input a: tensor, input b: tensor, output c: tensor) { c = a @ b; }"
RUNNING = """kernel k(input x: tensor<N, f32>, inout y: tensor<N, f32>) {
    for i in 1..N { y[i] = y[i - 1] + x[i]; } }"""
GATHER = """kernel k(input x: tensor<N, f32>, input p: tensor<N, i32>, inout y: tensor<N, f32>) {
    for i in 0..N { y[i] = x[p[i]]; } }"""


@pytest.mark.parametrize(
    "value",
    [
        "softmax(x, axis=0)",  # loops of one name side by side, of which some are folds
        "log_softmax(x, axis=0)",
        "x - reduce_mean(x, axis=0)",
        "reduce_sum(x, axis=1)",
        "x / reduce_sum(abs(x))",
        "cumsum(x, 1)",
        "transpose(x, 0, 1) @ x",
        "concat(x, x * 2)",
    ],
)
def test_default_schedules_of_large_arrays(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever threads share, it is legal, and right to the last bit."""
    kernel = wia.compile(f"kernel k(input x: tensor, output y: tensor) {{ y = {value}; }}")["k"]
    x = np.abs(normal(1500, 333)) + np.float32(0.1)
    build = kernel.build(x)
    results = []
    for count in COUNTS[:3]:
        monkeypatch.setenv("WIA_NUM_THREADS", count)
        results.append(build(x))
    assert len({each.tobytes() for each in results}) == 1
    wanted = wia.reference(kernel, x)
    np.testing.assert_allclose(results[0], wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("width", [4096, 5003])
def test_threads_share_the_columns_of_a_streamed_matrix(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = normal(1, 200), normal(200, width)
    build = wia.compile(PRODUCT)["k"].build(a, b)
    assert "parallel j.0" in build.schedule
    results = []
    for count in COUNTS:
        monkeypatch.setenv("WIA_NUM_THREADS", count)
        results.append(build(a, b).tobytes())
    assert len(set(results)) == 1
    np.testing.assert_allclose(build(a, b), a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("text", "dtypes", "lines", "reason"),
    [
        (PRODUCT, ("f32", "f32"), "tile k 8; parallel k.0", "k.0 walks a folded axis"),
        (PRODUCT, ("f32", "f32"), "parallel k", "axis 'k' has no loop"),
        (PRODUCT, ("f32", "f32"), "tile i 4; unroll i.0 2; parallel i.0", "is to be written out"),
        (PRODUCT, ("f32", "f32"), "tile i 4; parallel i.0; unroll i.0 2", "i.0 are shared"),
        (RUNNING, ("f32", "f32"), "parallel i", "reads what y"),
        (GATHER, ("f32", "i32", "f32"), "parallel i", "i.0 checks indices as it runs"),
    ],
)
def test_what_would_race_is_refused(
    text: str, dtypes: tuple[str, ...], lines: str, reason: str
) -> None:
    kernel = wia.compile(text)["k"]
    shape = (20, 20) if text == PRODUCT else (20,)
    specs = [wia.spec(shape, each) for each in dtypes]
    nest = "k.k_nest" if text == RUNNING else "k"
    with pytest.raises(wia.CompileError, match=reason):
        kernel.build(*specs, schedule=f"schedule {nest} {{ {lines}; }}")
