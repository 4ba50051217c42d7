"""Latencies of compiling, of the cache and of a call, beside what they are to reach.

Run by ``make bench-compile``. Every row is measured in this process with a cache folder of its own;
rows that start a process say so. Calls are in CPU time of this process, all else in wall time, in
which other work on the machine shows.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
import wia_compiler as wia
from report import seconds_text
from wia_compiler.runtime.build import Build
from wia_compiler.runtime.session import default_session
from workloads import (
    Workload,
    attention,
    convolution,
    elementwise,
    matmul_bias_relu,
    softmax,
)

ADD = "kernel add(input A: tensor, input B: tensor, output C: tensor) { C = A + B; }"
COLD_GOALS = (
    (elementwise(10_000, 1.0), 40e-3),
    (softmax(4096, 1024, 1.0), None),
    (matmul_bias_relu(1024, 512, 256, 1.0), 120e-3),
    (convolution(64, 56, 64, 3, 1, 1.0), 120e-3),
    (attention(8, 512, 64, 1.0), 200e-3),
)
"""Kernels, and in how many seconds each is to be compiled in a process that has compiled before."""
OPS = (10, 30, 100, 300, 1000)
"""Sizes of the kernels that show how compile time grows."""
CALLS_OF_ONE_SAMPLE = 5000


@dataclass(frozen=True)
class Row:
    """One latency in seconds: best, median, quartiles, and the goal the median is held against."""

    name: str
    best: float
    median: float
    lower: float
    upper: float
    samples: int
    goal: float | None

    @property
    def verdict(self) -> str:
        """Whether the goal is reached."""
        if self.goal is None:
            return ""
        return "reached" if self.median < self.goal else "MISSED"


def main() -> int:
    """Measure and print; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=15, help="samples of each row")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wia-bench-") as folder:
        os.environ["WIA_CACHE_DIR"] = folder
        rows = list(_rows(options.samples))
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        _print(rows)
    return 1 if any(row.verdict == "MISSED" for row in rows) else 0


def _rows(samples: int) -> Iterator[Row]:
    program = wia.compile(ADD)
    add = program.add
    add.build(wia.spec(16), wia.spec(16)).prepare(*[np.zeros(16, np.float32)] * 2)  # loads passes

    yield _row("import wia_compiler, new process", lambda: _process(""), 3, None)
    yield _row("first call of add, new process, nothing kept", _first_call_cold, 3, None)
    yield _row("first call of add, new process, kept on disk", _first_call_warm, 3, None)
    yield _row("wia.compile: text to kernels", lambda: _timed(wia.compile, ADD), samples, None)
    for workload, goal in COLD_GOALS:
        yield from _kernel_rows(workload, goal, samples)
    for ops in OPS:
        yield _growth_row(ops, max(3, samples // 4))

    a = np.arange(16, dtype=np.float32)
    out = np.empty_like(a)
    yield _row("call on 16 elements", _per_call(lambda: add(a, a)), samples, 0.5e-6)
    yield _row("call on 16 elements, out=", _per_call(lambda: add(a, a, out=out)), samples, 0.5e-6)
    yield _row("call on 16 elements, keywords", _per_call(lambda: add(A=a, B=a)), samples, None)
    yield _row("numpy: A + B on 16 elements", _per_call(lambda: a + a), samples, None)


def _kernel_rows(workload: Workload, goal: float | None, samples: int) -> Iterator[Row]:
    """A kernel compiled, from the cache on disk with and without its record, and from memory."""
    (kernel,) = wia.compile(workload.text).values()
    arrays = workload.make(np.random.default_rng(7)).values()
    arguments = [wia.spec(array.shape, array.dtype.name) for array in arrays]

    def built() -> Build:
        build = kernel.build(*arguments)
        _ = build.executable
        return build

    def cold() -> float:
        _forget()
        return _timed(built)

    def from_disk() -> float:
        default_session().forget()
        return _timed(built)

    def record_from_disk() -> float:
        default_session().forget()
        return _timed(lambda: kernel.build(*arguments).trace)

    built()
    yield _row(f"{workload.name}, cold", cold, samples, goal)
    yield _row(f"{workload.family}, from disk", from_disk, samples, 5e-3)
    yield _row(f"{workload.family}, its record from disk", record_from_disk, samples, None)
    from_memory = _per_call(lambda: kernel.build(*arguments), number=100)
    yield _row(f"{workload.family}, from memory", from_memory, samples, None)


def _growth_row(ops: int, samples: int) -> Row:
    text = _large_program(ops)
    argument = wia.spec((64, 64))

    def compiled() -> float:
        _forget()
        return _timed(lambda: wia.compile(text).large.build(argument).executable)

    return _row(f"kernel of {ops} ops, text to code", compiled, samples, None)


def _row(name: str, sample: Callable[[], float], samples: int, goal: float | None) -> Row:
    times = [sample() for _ in range(samples)]
    lower, median, upper = statistics.quantiles(times, n=4, method="inclusive")
    return Row(name, min(times), median, lower, upper, samples, goal)


def _timed(function: Callable[..., object], *arguments: object) -> float:
    started = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - started


def _per_call(
    function: Callable[[], object], number: int = CALLS_OF_ONE_SAMPLE
) -> Callable[[], float]:
    for _ in range(3):
        function()
    return lambda: timeit.timeit(function, timer=time.process_time, number=number) / number


def _forget() -> None:
    default_session().forget()
    wia.cache.clear()


_FIRST_CALL = f"""
import numpy as np
a = np.ones(16, np.float32)
wia.compile({ADD!r}).add(a, a)
"""


def _first_call_cold() -> float:
    wia.cache.clear()
    return _process(_FIRST_CALL)


def _first_call_warm() -> float:
    _process(_FIRST_CALL)
    return _process(_FIRST_CALL)


def _process(script: str) -> float:
    """Seconds from before ``import wia_compiler`` to the end of ``script``, in a new process."""
    text = f"import time; t = time.perf_counter()\nimport wia_compiler as wia\n{script}\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{text}print(time.perf_counter() - t)"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return float(done.stdout)


def _large_program(ops: int) -> str:
    """A kernel of so many ops that neither folds nor shares anything: a chain with branches."""
    spelled = ("x{0} + x{1}", "x{0} * x{1}", "relu(x{0} - x{1})", "max(x{0}, x{1})", "tanh(x{0})")
    lines = ["x0 = A + 1.0;", "x1 = A * 0.5;"]
    for index in range(2, ops):
        expression = spelled[index % len(spelled)].format(index - 1, index - 2)
        lines.append(f"x{index} = {expression};")
    body = "\n  ".join(lines)
    return f"kernel large(input A: tensor, output B: tensor) {{\n  {body}\n  B = x{ops - 1};\n}}"


def _print(rows: list[Row]) -> None:
    width = max(len(row.name) for row in rows)
    print(f"{'latency':<{width}}  {'best':>9}  {'median':>9}  {'quartiles':>20}  {'goal':>8}")
    for row in rows:
        quartiles = f"{seconds_text(row.lower)} … {seconds_text(row.upper)}"
        goal = "" if row.goal is None else f"< {seconds_text(row.goal)}"
        times = f"{seconds_text(row.best):>9}  {seconds_text(row.median):>9}  {quartiles:>20}"
        print(f"{row.name:<{width}}  {times}  {goal:>8}  {row.verdict}".rstrip())
    waiting, cores = os.getloadavg()[0], os.cpu_count() or 1
    if waiting > cores:
        print(f"load average {waiting:.1f} on {cores} cores: other work is in these times")


if __name__ == "__main__":
    sys.exit(main())
