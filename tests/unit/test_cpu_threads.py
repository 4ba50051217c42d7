"""Loops that threads share: the same numbers for any number of threads, safely."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
import wia_compiler as wia
from llvm_running import load_module
from numpy.typing import NDArray
from wia_compiler.backends.cpu import threads
from wia_compiler.dialects.text import parse_ir

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
LONG = """kernel k(input x: tensor<N, f32>, output y: tensor<N, f32>) {
    for i in 0..N { let s = x[i]; while (s > -1.0) { s = s * 1.0000001; } y[i] = s; } }"""


def ones(*shape: int) -> NDArray[np.float32]:
    return np.ones(shape, np.float32)


def normal(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def counted(process: str = "self") -> int:
    """Threads of a process."""
    return len(os.listdir(f"/proc/{process}/task"))


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


COUNTING = """
func.func @k(%seen: memref<{count}xi64>) attributes {{wia.host}} {{
  func.call @n(%seen) : (memref<{count}xi64>) -> ()
  func.return
}}
func.func @n(%seen: memref<{count}xi64>) attributes {{wia.nest}} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %end = arith.constant {end} : index
  %added = arith.constant 1 : i64
  "scf.parallel"(%zero, %end, %two) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
  ^bb0(%i: index):
    %own = memref.alloc() {{wia.scratch = 64 : i64}} : memref<8xi64, "register">
    %before = memref.load %seen[%i] : memref<{count}xi64>
    memref.store %before, %own[%one] : memref<8xi64, "register">
    %held = memref.load %own[%one] : memref<8xi64, "register">
    %after = arith.addi %held, %added : i64
    memref.store %after, %seen[%i] : memref<{count}xi64>
    scf.reduce
  }}) {{wia.scratch = 128 : i64}} : (index, index, index) -> ()
  func.return
}}
"""


@pytest.mark.parametrize("count", [1, 2, 3, 17, 127, 1000, 5000])
def test_every_iteration_runs_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse_ir(COUNTING.format(count=count, end=count))
    run = load_module(module, "k", 1)
    for number in ("1", "2", "5", "999"):
        monkeypatch.setenv("WIA_NUM_THREADS", number)
        for _ in range(20):
            seen = np.zeros(count, np.int64)
            run([], [seen])
            assert (seen[::2] == 1).all() and (seen[1::2] == 0).all()


def test_threads_of_python_call_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIA_NUM_THREADS", "3")
    text, schedule, shapes = KERNELS["product"]
    kernel = wia.compile(text)["k"]
    arrays = [normal(*shape) for shape in shapes]
    build = kernel.build(*arrays, schedule=schedule)
    wanted = build(*arrays).tobytes()
    wrong: list[int] = []

    def call(number: int) -> None:
        for _ in range(50):
            if build(*arrays).tobytes() != wanted:
                wrong.append(number)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(20)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert not wrong


def _in_child(build: wia.Build, x: NDArray[np.float32], pipe: object) -> None:
    pipe.send((build(x).tobytes(), counted()))  # pyright: ignore[reportAttributeAccessIssue]


def test_a_forked_child_has_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As joblib's and multiprocessing's workers do, and theirs in turn."""
    monkeypatch.setenv("WIA_NUM_THREADS", "3")
    text, schedule, shapes = KERNELS["rows"]
    x = normal(*shapes[0])
    build = wia.compile(text)["k"].build(x, schedule=schedule)
    wanted = build(x).tobytes()
    context = multiprocessing.get_context("fork")
    for _ in range(3):
        mine, theirs = context.Pipe()
        child = context.Process(target=_in_child, args=(build, x, theirs))
        child.start()
        assert mine.poll(30), "the child hangs"
        bytes_, number = mine.recv()
        assert bytes_ == wanted and number == 3
        child.join(30)
        assert child.exitcode == 0
    assert build(x).tobytes() == wanted


def test_the_number_of_threads_is_that_of_the_call() -> None:
    script = """
        import os
        import numpy as np
        import wia_compiler as wia
        from wia_compiler.backends.cpu.threads import wanted_threads

        def say():
            build(x)
            print(len(os.listdir("/proc/self/task")) - before, wanted_threads())

        x = np.ones((64, 64), np.float32)
        kernel = wia.compile("kernel k(input x: tensor, output y: tensor) { y = softmax(x); }").k
        small = kernel.build(x)
        assert "parallel" not in small.stage("lower").text
        build = kernel.build(x, schedule="schedule k { parallel i; }")
        before = len(os.listdir("/proc/self/task"))
        small(x)
        say()
        os.environ["WIA_NUM_THREADS"] = "1"
        say()
        os.environ["WIA_NUM_THREADS"] = "2"
        say()
        os.environ["WIA_NUM_THREADS"] = "4"
        say()
        for wrong in ("two", "0", "-1", "3 "):
            os.environ["WIA_NUM_THREADS"] = wrong
            try:
                build(x)
            except ValueError as error:
                print(error)
        del os.environ["WIA_NUM_THREADS"]
        say()
        os.environ["OMP_NUM_THREADS"] = "5,2"
        say()
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("WIA_NUM_THREADS", None)
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert said.stdout.splitlines() == [
        *("0 1", "0 1", "1 2", "3 4"),
        *(
            f"WIA_NUM_THREADS='{wrong}': expected a whole number from 1"
            for wrong in ("two", "0", "-1", "3 ")
        ),
        *("3 1", "4 5"),
    ], said.stderr


@pytest.mark.parametrize("number", ["1", "3"])
def test_ctrl_c_stops_every_thread(number: str, tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(
        textwrap.dedent("""
        import signal, sys, time
        import numpy as np
        import wia_compiler as wia

        signal.signal(signal.SIGINT, signal.default_int_handler)
        kernel = wia.compile(sys.argv[1]).k
        ones = np.ones(1000, np.float32)
        build = kernel.build(ones, schedule="schedule k { parallel i; }")
        try:
            print("running", flush=True)
            build(ones)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        began = time.process_time()
        time.sleep(0.2)
        print(time.process_time() - began < 0.1, (build(-2 * ones) == -2).all(), flush=True)
    """)
    )
    with subprocess.Popen(
        [sys.executable, str(script), LONG],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "WIA_NUM_THREADS": number},
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "running\n"
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert said == "interrupted\nTrue True\n"


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


def test_systems_without_a_pool_run_loops_on_the_caller() -> None:
    script = """
        import sys
        import numpy as np
        from wia_compiler.backends.cpu import threads
        threads.supports_threads = lambda: False
        import wia_compiler as wia
        x = np.ones((64, 64), np.float32)
        kernel = wia.compile("kernel k(input x: tensor, output y: tensor) { y = softmax(x); }").k
        build = kernel.build(x, schedule="schedule k { parallel i; }")
        np.testing.assert_allclose(build(x), 1 / 64)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=120)
    assert threads.supports_threads() == (sys.platform == "linux")
