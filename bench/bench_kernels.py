"""Our kernels beside the peers that are installed, in one interleaved run; see README.md.

`make bench` sets every library to one thread.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from contenders import Contender, contenders
from workloads import WORKLOADS, Workload

SAMPLE_SECONDS = 2e-3


def error_of(result: np.ndarray[Any, Any], reference: np.ndarray[Any, Any]) -> float:
    """Largest difference, relative to the largest magnitude of the reference."""
    if result.shape != reference.shape or not np.isfinite(result).all():
        return float("inf")
    scale = max(float(np.abs(reference).max()), 1e-30)
    return float(np.abs(result.astype(np.float64) - reference).max()) / scale


def repetitions(call: Callable[[], Any]) -> int:
    """Calls that take about one sample's time."""
    call()
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return max(1, min(20_000, int(SAMPLE_SECONDS / max(best, 1e-7))))


def _sample(call: Callable[[], Any], count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count


def run(workload: Workload, who: Sequence[Contender], seconds: float) -> None:
    """Check, time and print one workload."""
    inputs = workload.make(np.random.default_rng(7))
    reference = workload.reference(inputs)
    calls: dict[str, tuple[Callable[[], Any], int]] = {}
    for contender in who:
        call = contender.prepare(workload, inputs)
        if call is None:
            continue
        error = error_of(contender.to_numpy(call()), reference)
        if error > workload.tolerance:
            print(f"{workload.name:32} {contender.name:8} WRONG by {error:.1e}")
            continue
        calls[contender.name] = (call, repetitions(call))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    end = time.monotonic() + seconds
    while time.monotonic() < end or min(map(len, samples.values())) < 5:
        for name in random.sample(list(calls), len(calls)):
            samples[name].append(_sample(*calls[name]))
    report(workload, samples)


def report(workload: Workload, samples: dict[str, list[float]]) -> None:
    """One line a contender: median, quartiles, rates, ratio of the best peer's time to ours."""
    medians = {name: statistics.median(values) for name, values in samples.items()}
    peers = [value for name, value in medians.items() if name != "wia"]
    for name, values in samples.items():
        low, median, high = statistics.quantiles(values, n=4)
        ratio = f"{min(peers) / median:6.2f}x best peer" if name == "wia" and peers else ""
        print(
            f"{workload.name:32} {name:8} {median * 1e6:10.1f} us  "
            f"[{low * 1e6:9.1f} .. {high * 1e6:9.1f}]  "
            f"{workload.flops / median / 1e9:7.1f} GFLOP/s "
            f"{workload.size_bytes / median / 1e9:6.1f} GB/s  {ratio}",
            flush=True,
        )


def main() -> None:
    """Parse the command line and run the chosen workloads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="run workloads whose name holds this text")
    parser.add_argument("--seconds", type=float, default=3.0, help="sampling time per workload")
    arguments = parser.parse_args()
    who = contenders()
    print("contenders:", ", ".join(contender.name for contender in who), "(one thread, CPU time)")
    for workload in WORKLOADS:
        if arguments.only in workload.name:
            run(workload, who, arguments.seconds)


if __name__ == "__main__":
    main()
