"""The pool of threads of a process: every iteration once, forks, signals, how many threads."""

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

ROWS = "kernel k(input x: tensor, output y: tensor) { y = softmax(x * 2); }"
PRODUCT = "kernel k(input a: tensor, input b: tensor, output c: tensor) { c = relu(a @ b); }"
LONG = """kernel k(input x: tensor<N, f32>, output y: tensor<N, f32>) {
    for i in 0..N { let s = x[i]; while (s > -1.0) { s = s * 1.0000001; } y[i] = s; } }"""


def normal(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def counted(process: str = "self") -> int:
    """Threads of a process."""
    return len(os.listdir(f"/proc/{process}/task"))


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
    arrays = [normal(33, 70), normal(70, 65)]
    build = wia.compile(PRODUCT)["k"].build(
        *arrays, schedule="schedule k { tile i 8; parallel i; }"
    )
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
    x = normal(17, 127)
    build = wia.compile(ROWS)["k"].build(x, schedule="schedule k { parallel i; }")
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
