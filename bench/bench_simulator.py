"""How fast PTX runs without a GPU: thread instructions per second, for our own kernels' PTX.

Run by ``make bench-simulator``. CPU seconds of one core, best of some launches once the code is
compiled, without and with counters; a whole launch also moves the arrays in and out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import wia_compiler as wia
from report import seconds_text
from wia_compiler.simulators.ptx import run

TARGET = "gpu:sm_80"
_COLLATZ = """kernel collatz(input x: tensor<N, i32>, output steps: tensor<N, i32>) {
  for i in 0..N {
    let v = x[i]; let n = 0;
    while (v > 1) { if (v % 2 == 0) { v = v // 2; } else { v = 3 * v + 1; } n = n + 1; }
    steps[i] = n;
  }
}"""


@dataclass(frozen=True)
class Subject:
    """A kernel and what it is launched on."""

    name: str
    text: str
    arrays: Mapping[str, np.ndarray[Any, Any]]
    target: str = TARGET


def subjects() -> list[Subject]:
    """Memory, arithmetic, matrix units, shuffles, and lanes that part ways."""
    generator = np.random.default_rng(3)

    def normal(*shape: int) -> np.ndarray[Any, Any]:
        return generator.standard_normal(shape, dtype=np.float32)

    return [
        Subject(
            "vector add, 4 M elements",
            "kernel k(input a: tensor, input b: tensor, output c: tensor) { c = a + b; }",
            {"a": normal(1 << 22), "b": normal(1 << 22)},
        ),
        Subject(
            "matmul 512x512x512",
            "kernel k(input a: tensor, input b: tensor, output c: tensor) { c = a @ b; }",
            {"a": normal(512, 512), "b": normal(512, 512)},
        ),
        *(
            Subject(
                f"matmul 512x512x512 of f16 by {name}",
                "kernel k(input a: tensor, input b: tensor, output c: tensor) { c = a @ b; }",
                {each: normal(512, 512).astype(np.float16) for each in "ab"},
                target,
            )
            for name, target in (("mma", TARGET), ("wgmma", "gpu:sm_90a"))
        ),
        Subject(
            "softmax 1024x1024",
            "kernel k(input a: tensor, output c: tensor) { c = softmax(a, dim=1); }",
            {"a": normal(1024, 1024)},
        ),
        Subject(
            "Collatz, 32768 threads",
            _COLLATZ,
            {"x": generator.integers(1, 1 << 17, 32768).astype(np.int32)},
        ),
    ]


def measure(subject: Subject, samples: int) -> str:
    """One line of the table."""
    (kernel,) = wia.compile(subject.text).values()
    arrays = list(subject.arrays.values())
    build = kernel.build(*arrays, target=subject.target)
    executable: Any = build.executable
    cells: list[str] = []
    instructions = 0.0
    for counters in (False, True):
        simulator = Simulator(counters)
        executable.simulate = simulator
        call = build.prepare(*arrays)
        started = time.perf_counter()
        instructions = call.execute()["ptx_thread_inst_executed"]
        first = time.perf_counter() - started
        best, whole = float("inf"), float("inf")
        for _ in range(samples):
            simulator.seconds = 0.0
            started = time.process_time()
            call.execute()
            whole = min(whole, time.process_time() - started)
            best = min(best, simulator.seconds)
        if not counters:
            cells.append(seconds_text(max(0.0, first - whole)))
        cells += [seconds_text(best), f"{instructions / best / 1e9:.2f} G/s"]
    cells.append(seconds_text(whole))
    return f"| {subject.name} | {instructions / 1e6:.1f} M | {' | '.join(cells)} |"


class Simulator:
    """The compiled engine, which adds up the time that it takes."""

    def __init__(self, counters: bool):
        self.counters = counters
        self.seconds = 0.0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        launch = run(*arguments, **options, counters=self.counters, engine="compiled")
        self.seconds += launch.simulation_seconds
        return launch


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=7, help="launches of each kernel")
    options = parser.parse_args()
    heads = ["launch", "instructions", "compiling", "time", "rate"]
    heads += ["time, counted", "rate, counted", "whole launch"]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for subject in subjects():
        print(measure(subject, options.samples), flush=True)


if __name__ == "__main__":
    main()
