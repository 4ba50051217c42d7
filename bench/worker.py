"""One contender in a process of its own: it prepares a workload, takes samples, and says so.

Run by ``measure.py`` as ``python worker.py NAME THREADS``, in the contender's environment. Requests
and answers are JSON objects, one a line, on standard input and output.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from contenders import contender_module
from workloads import named

SEED = 7
SAMPLE_SECONDS = 1.5e-3
MOST_CALLS = 20_000
SLOW_SECONDS = 1.0


class Worker:
    """A contender and the workload that it is about to be timed on."""

    def __init__(self, name: str, threads: int):
        started = time.perf_counter()
        self.contender = contender_module(name).make(threads)
        self.import_seconds = time.perf_counter() - started
        self.call: Callable[[], Any] | None = None
        self.count = 1

    def hello(self) -> dict[str, Any]:
        """What this is."""
        return {"version": self.contender.version, "import_seconds": self.import_seconds}

    def prepare(self, workload: str, reference: str | None = None) -> dict[str, Any]:
        """Build a workload, run it once, compare it with the reference in a file."""
        self.call = None
        chosen = named(workload)
        inputs = chosen.make(np.random.default_rng(SEED))
        started = time.perf_counter()
        call = self.contender.prepare(chosen, inputs)
        if call is None:
            return {"absent": True}
        result = call()
        first_seconds = time.perf_counter() - started
        answer: dict[str, Any] = {"first_seconds": first_seconds}
        if reference is not None:
            error = error_of(self.contender.to_numpy(result), np.load(reference))
            answer |= {"error": error, "wrong": error > chosen.tolerance}
        self.call, self.count = call, calls_of_one_sample(call)
        return answer

    def sample(self) -> dict[str, float]:
        """Seconds of one call: wall, processor, and the share that threads waited for a core."""
        call, count = self.call, self.count
        assert call is not None
        call()
        waited, used, started = _waited_ns(), time.process_time(), time.perf_counter()
        for _ in range(count):
            call()
        wall = time.perf_counter() - started
        used = time.process_time() - used
        waited = max(0, _waited_ns() - waited) * 1e-9
        return {"wall": wall / count, "cpu": used / count, "waiting": waited / wall}

    def drop(self) -> dict[str, Any]:
        """Forget the workload and its arrays."""
        self.call = None
        return {}


def error_of(result: Any, reference: Any) -> float:
    """Largest difference, relative to the largest magnitude of the reference."""
    result = np.asarray(result)
    if result.size != reference.size or not np.isfinite(result).all():
        return float("inf")
    scale = max(float(np.abs(reference).max()), 1e-30)
    return (
        float(np.abs(result.astype(np.float64).reshape(reference.shape) - reference).max()) / scale
    )


def calls_of_one_sample(call: Callable[[], Any]) -> int:
    """Calls that take about one sample's time."""
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
        if best > SLOW_SECONDS:
            return 1
    return max(1, min(MOST_CALLS, int(SAMPLE_SECONDS / max(best, 1e-7))))


def _waited_ns() -> int:
    """How long this process's threads have stood in the run queue."""
    total = 0
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((thread / "schedstat").read_text().split()[1])
    return total


def _answer(worker: Worker, request: dict[str, Any]) -> dict[str, Any]:
    method = getattr(worker, request.pop("do"))
    try:
        return method(**request)
    except Exception as error:
        # A peer that cannot do a workload is a hole in the table, with its reason on the side.
        return {"failed": f"{type(error).__name__}: {error}"[:300], "trace": traceback.format_exc()}


def main() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints does not belong among the answers
    name, threads = sys.argv[1], int(sys.argv[2])
    try:
        worker = Worker(name, threads)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), file=answers, flush=True)
        return
    print(json.dumps(worker.hello()), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(worker, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
