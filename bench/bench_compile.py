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
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import wia_compiler as wia
from wia_compiler.runtime.session import default_session

PROGRAM = """
kernel add(input A: tensor, input B: tensor, output C: tensor) { C = A + B; }
kernel matmul_bias_relu(input A: tensor<M, K, f32>, input B: tensor<K, N, f32>,
                        input bias: tensor<N, f32>, output C: tensor) {
  C = relu(A @ B + bias);
}
"""
ARGUMENTS = (wia.spec((1024, 512)), wia.spec((512, 256)), wia.spec(256))
OPS_OF_LARGE_KERNEL = 200
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


def _rows(samples: int):
    program = wia.compile(PROGRAM)
    kernel = program.matmul_bias_relu
    kernel.build(*ARGUMENTS).prepare(*_arrays())  # starts the code generator, imports the passes

    yield _row("import wia_compiler, new process", lambda: _process(""), 3, None)
    yield _row("first call of add, new process, nothing kept", _first_call_cold, 3, None)
    yield _row("first call of add, new process, kept on disk", _first_call_warm, 3, None)
    yield _row("wia.compile: text to kernels", lambda: _timed(wia.compile, PROGRAM), samples, None)

    def cold() -> float:
        _forget()
        return _timed(lambda: kernel.build(*ARGUMENTS).executable)

    yield _row("matmul_bias_relu, cold", cold, samples, 0.3)

    def from_disk() -> float:
        default_session().forget()
        return _timed(lambda: kernel.build(*ARGUMENTS).executable)

    kernel.build(*ARGUMENTS)
    yield _row("matmul_bias_relu, from disk", from_disk, samples, 5e-3)

    def from_disk_with_record() -> float:
        default_session().forget()
        return _timed(lambda: kernel.build(*ARGUMENTS).trace)

    yield _row("matmul_bias_relu, its record from disk", from_disk_with_record, samples, None)
    yield _row(
        "matmul_bias_relu, from memory",
        lambda: _timed(lambda: kernel.build(*ARGUMENTS)),
        samples,
        None,
    )

    large_text = _large_program(OPS_OF_LARGE_KERNEL)
    argument = wia.spec((64, 64))

    def large() -> float:
        _forget()
        return _timed(lambda: wia.compile(large_text).large.build(argument).executable)

    yield _row(f"kernel of {OPS_OF_LARGE_KERNEL} ops, text to code", large, max(3, samples // 4), 2)

    a = np.arange(16, dtype=np.float32)
    out = np.empty_like(a)
    add = program.add
    yield _row("call on 16 elements", _per_call(lambda: add(a, a)), samples, 10e-6)
    yield _row("call on 16 elements, out=", _per_call(lambda: add(a, a, out=out)), samples, 10e-6)
    yield _row("call on 16 elements, keywords", _per_call(lambda: add(A=a, B=a)), samples, None)
    yield _row("numpy: A + B on 16 elements", _per_call(lambda: a + a), samples, None)


def _arrays() -> list[np.ndarray]:
    return [np.zeros(spec.shape, np.float32) for spec in ARGUMENTS]


def _row(name: str, sample: Callable[[], float], samples: int, goal: float | None) -> Row:
    times = [sample() for _ in range(samples)]
    lower, median, upper = statistics.quantiles(times, n=4, method="inclusive")
    return Row(name, min(times), median, lower, upper, samples, goal)


def _timed(function: Callable[..., object], *arguments: object) -> float:
    started = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - started


def _per_call(function: Callable[[], object]) -> Callable[[], float]:
    for _ in range(3):
        function()
    number = CALLS_OF_ONE_SAMPLE
    return lambda: timeit.timeit(function, timer=time.process_time, number=number) / number


def _forget() -> None:
    default_session().forget()
    wia.cache.clear()


_FIRST_CALL = f"""
import numpy as np
a = np.ones(16, np.float32)
wia.compile({PROGRAM!r}).add(a, a)
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
        quartiles = f"{_text(row.lower)} … {_text(row.upper)}"
        goal = "" if row.goal is None else f"< {_text(row.goal)}"
        times = f"{_text(row.best):>9}  {_text(row.median):>9}  {quartiles:>20}"
        print(f"{row.name:<{width}}  {times}  {goal:>8}  {row.verdict}".rstrip())
    waiting, cores = os.getloadavg()[0], os.cpu_count() or 1
    if waiting > cores:
        print(f"load average {waiting:.1f} on {cores} cores: other work is in these times")


def _text(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


if __name__ == "__main__":
    sys.exit(main())
