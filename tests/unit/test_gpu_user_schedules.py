"""A user's schedule on targets that deal axes out by themselves: followed, or refused by name."""

from __future__ import annotations

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.passes.scheduling.register import directive_names

MATMUL = "kernel k(input A: tensor, input B: tensor, output C: tensor) { C = relu(A @ B); }"
TRIAD = "kernel k(input A: tensor, input B: tensor, output C: tensor) { C = A * B + 1.0; }"
COLUMNS = "kernel k(input A: tensor, output C: tensor) { C = reduce_sum(A, dim=0); }"
RUNNING = "kernel k(input A: tensor, output C: tensor) { C = cumsum(A, dim=1); }"
SOFTMAX = "kernel k(input A: tensor, output C: tensor) { C = softmax(A, dim=1); }"


def sample(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def refusal(text: str, schedule: str, target: str = "gpu:sm_90") -> str:
    specs = [wia.spec((40, 40), "f32")] * text.count("input ")
    with pytest.raises(wia.CompileError) as caught:
        wia.compile(text).k.build(*specs, target=target, schedule=schedule)
    return str(caught.value)


@pytest.mark.parametrize(
    ("schedule", "threads"),
    [
        ("tile i 32, j 32, k 8 @block; thread_tile i 2, j 4", 128),
        ("tile i 16, j 16; thread_tile i 1, j 1", 256),
        ("tile j 64, k 5; thread_tile j 8", 8),
        ("tile i 32, j 64, k 8; thread_tile i 4, j 8; pipeline k 2", 64),
        ("tile i 32, j 32, k 8; thread_tile i 4, j 2; pipeline k 1", 128),
        ("thread_tile i 4, j 2", 1),
    ],
)
def test_blocks_and_threads_take_what_a_schedule_says(schedule: str, threads: int) -> None:
    a, b = sample(70, 33), sample(33, 50)
    build = wia.compile(MATMUL).k.build(a, b, target="gpu:sm_90", schedule=schedule)
    (decision,) = build.stage("schedule").decisions
    assert decision.numbers["threads"] == threads
    np.testing.assert_allclose(build(a, b), np.maximum(a @ b, 0), atol=1e-4)


def test_neighbours_of_a_thread_are_a_vector() -> None:
    a, b = sample(64, 64), sample(64, 64)
    kernel = wia.compile(TRIAD).k.to("gpu:sm_90")
    tiled = kernel.build(a, b, schedule="tile i 128; thread_tile i 4")
    assert tiled.stage("schedule").decisions[0].numbers["threads"] == 32
    assert "ld.global.nc.v4.b32" in tiled.assembly("ptx")
    vectors = kernel.build(a, b, schedule="tile i 128; vectorize i 4")
    assert vectors.stage("schedule").text == tiled.stage("schedule").text
    assert (tiled(a, b) == kernel(a, b)).all()


@pytest.mark.parametrize("text", [MATMUL, TRIAD])
def test_what_the_gpu_chose_can_be_pasted(text: str) -> None:
    specs = [wia.spec((96, 96), "f32")] * 2
    kernel = wia.compile(text).k.to("gpu:sm_90")
    chosen = kernel.build(*specs)
    assert "tile i" in chosen.schedule
    again = wia.compile(f"{text}\n{chosen.schedule}").k.build(*specs, target="gpu:sm_90")
    assert again.stage("schedule").text == chosen.stage("schedule").text


def test_a_matrix_of_one_row_is_left_to_the_target() -> None:
    a, b = sample(1, 33), sample(33, 50)
    kernel = wia.compile(MATMUL).k.to("gpu:sm_90", schedule="tile i 32, j 32; thread_tile i 4, j 4")
    np.testing.assert_allclose(kernel(a, b), np.maximum(a @ b, 0), atol=1e-4)
    (warning,) = (d for d in kernel.build(a, b).trace.decisions if d.kind == "warning")
    assert warning.reason == "with one point of i there is no tile to share: the target chose"


@pytest.mark.parametrize(
    ("text", "schedule", "message"),
    [
        (MATMUL, "tile i 64; thread_tile i 3", "64 points of axis 'i', each of its threads 3"),
        (MATMUL, "tile i 256, j 256", "65536 threads, a gpu takes 1024"),
        (MATMUL, "tile i 8 @warp", "tile of a gpu is @grid or @block"),
        (MATMUL, "tile i 8; tile i 4", "tile of axis 'i' stands twice"),
        (MATMUL, "thread_tile k 4", "axis 'k' is folded"),
        (MATMUL, "tile i 8, j 8; pipeline i 2", "pipeline of axis 'i', along which all blocks"),
        (MATMUL, "tile i 8, j 8; pipeline k 3", "3 stages: a thread carries one tile ahead"),
        (TRIAD, "tile i 8; pipeline i 2", "pipeline of axis 'i'"),
        (MATMUL, "tile q 4", "no axis 'q'"),
        (MATMUL, "tile i 512, j 512, k 40; thread_tile i 32, j 32", "it has 49152"),
        (SOFTMAX, "tile j 96", "96 points of j at a time, 1 a thread, are 96 threads for a row"),
        (SOFTMAX, "tile i 4, j 64", "a row of 64 threads has a block of its own, here are 4 rows"),
        (SOFTMAX, "tile i 64, j 32", "a block would have 2048 threads"),
        (SOFTMAX, "tile i 8, j 32; thread_tile i 2", "each of them takes one row at a time"),
        (SOFTMAX, "tile j 96; thread_tile j 3", "40 points of j are no whole runs of 3"),
        (SOFTMAX, "tile j 32; tile j 64", "tile of axis 'j' stands twice"),
        (SOFTMAX, "tile j 32 @warp", "tile of a gpu is @grid or @block"),
        (SOFTMAX, "tile j 33; thread_tile j 2", "each of its threads 2"),
        (SOFTMAX, "tile j 32; pipeline j 2", "rows of a gpu are dealt out by tile and thread_tile"),
        (COLUMNS, "tile j 32, i 8; thread_tile i 2", "columns of j lie side by side"),
        (COLUMNS, "tile j 9, i 8; thread_tile j 3", "40 columns of j are no whole runs of 3"),
        (COLUMNS, "tile j 5, i 8", "5 columns, 1 a thread, and 8 rows at a time are 40 threads"),
        (RUNNING, "tile j 32", "a gpu deals running folds out to threads by itself"),
    ],
)
def test_what_a_gpu_cannot_do_is_said(text: str, schedule: str, message: str) -> None:
    assert message in refusal(text, schedule)


def test_every_directive_is_followed_or_refused_by_name() -> None:
    followed = {"tile", "thread_tile", "vectorize", "pipeline", "use_tensor_cores"}
    for name in set(directive_names()) - followed:
        assert f"error: {name}: " in refusal(MATMUL, f"{name} i 4"), name
    for name in directive_names():
        assert f"error: {name}: " in refusal(MATMUL, f"{name} i 4", "tpu:spec"), name
