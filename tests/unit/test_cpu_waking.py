"""Workers that slept wake on another core than the caller's, and have all of their cores back."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import wia_compiler as wia
from numpy.typing import NDArray
from wia_compiler.backends.cpu import threads

CORES = os.sched_getaffinity(0) if sys.platform == "linux" else {0}
pytestmark = pytest.mark.skipif(
    not threads.supports_threads() or len(CORES) < 2,
    reason=f"workers need Linux and two cores; this is {sys.platform} with {len(CORES)}",
)
TASKS = Path("/proc/self/task")


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], NDArray[np.float32]]]:
    """Call a kernel whose rows two threads share; the affinity of all threads is put back."""
    monkeypatch.setenv("WIA_NUM_THREADS", "2")
    text = "kernel k(input x: tensor, output y: tensor) { y = softmax(x * 2); }"
    x = np.random.default_rng(0).normal(size=(600, 500)).astype(np.float32)
    build = wia.compile(text).k.build(x)
    assert "parallel i.0;" in build.schedule
    yield lambda: build(x)
    for task in TASKS.iterdir():
        os.sched_setaffinity(int(task.name), CORES)


def workers() -> list[int]:
    named = [task for task in TASKS.iterdir() if (task / "comm").read_text() == "wia\n"]
    return sorted(int(task.name) for task in named)


def field(task: int, number: int) -> str:
    """A field of a thread's line in ``/proc``, numbered as in proc(5)."""
    after_name = (TASKS / str(task) / "stat").read_text().rpartition(")")[2]
    return after_name.split()[number - 3]


def wait_until_asleep(tasks: list[int]) -> None:
    while any(field(task, 3) != "S" for task in tasks):
        os.sched_yield()


def test_a_worker_that_slept_wakes_on_another_core(call: Callable[[], object]) -> None:
    call()
    here = os.getpid()
    elsewhere = 0
    for _ in range(40):
        wait_until_asleep(workers())
        call()
        elsewhere += all(field(task, 39) != field(here, 39) for task in workers()[:1])
    # Left to a virtual machine's scheduler it is about one call in ten.
    assert elsewhere >= 20, f"on another core than the caller in {elsewhere} of 40 calls"


def test_a_worker_has_all_of_its_cores_back_when_it_has_run(call: Callable[[], object]) -> None:
    for _ in range(40):
        call()
        wait_until_asleep(workers())
        assert all(os.sched_getaffinity(task) == CORES for task in workers())


def test_cores_that_are_taken_from_a_process_stay_taken(
    call: Callable[[], NDArray[np.float32]],
) -> None:
    expected = call()
    one = {min(CORES)}
    wait_until_asleep(workers())
    for task in TASKS.iterdir():
        os.sched_setaffinity(int(task.name), one)
    for _ in range(20):
        wait_until_asleep(workers())
        np.testing.assert_array_equal(call(), expected)
        assert all(os.sched_getaffinity(task) == one for task in workers())
