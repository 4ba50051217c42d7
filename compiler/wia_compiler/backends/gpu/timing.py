"""Times of launches by a GPU's own clock: events around each, a cold L2, the clock it ran at."""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WARM_UPS = 3
LEAST, MOST = 5, 1000
"""Samples at least, whatever they take, and at most."""
FLUSH_TIMES = 2
"""Times the size of L2 that are written before a sample, so that nothing of it is left there."""


@dataclass(frozen=True)
class GpuSamples:
    """Nanoseconds of each run, and in words how they were taken."""

    nanoseconds: tuple[float, ...]
    remarks: str


def sample_launches(
    cupy: Any,
    launch: Callable[[], None],
    *,
    budget_s: float,
    flush: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> GpuSamples:
    """Time ``launch`` on cupy's current stream until ``budget_s`` seconds are spent.

    Runs to warm up come first. Before each sample L2 is overwritten where ``flush`` is set: a
    kernel that reads arrays once would find those of the run before. Where it is not, a run that
    is not timed comes before each. Events of the stream stand
    before and after the launches, so that the host's time for them counts only as far as the GPU
    waits for it.
    """
    for _ in range(WARM_UPS):
        launch()
    l2_bytes = int(cupy.cuda.Device().attributes.get("L2CacheSize", 0)) if flush else 0
    scratch = cupy.empty(FLUSH_TIMES * l2_bytes, cupy.uint8) if l2_bytes else None
    before = sm_clock_mhz()
    cupy.cuda.get_current_stream().synchronize()
    samples: list[float] = []
    deadline = clock() + budget_s
    while len(samples) < LEAST or (clock() < deadline and len(samples) < MOST):
        # What the GPU does before the sample gives the host time to start it.
        if scratch is not None:
            scratch.fill(0)
        else:
            launch()
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        launch()
        end.record()
        end.synchronize()
        samples.append(1e6 * float(cupy.cuda.get_elapsed_time(start, end)))
    after = sm_clock_mhz()
    told = [
        "by events of the GPU",
        "L2 overwritten before each" if scratch is not None else "L2 warm",
    ]
    told.append(_clocks(before, after))
    return GpuSamples(tuple(samples), ", ".join(told))


def sm_clock_mhz() -> tuple[int, int] | None:
    """The SMs' clock of this moment and the highest one; ``None`` where pynvml is absent."""
    if importlib.util.find_spec("pynvml") is None:
        return None
    pynvml: Any = importlib.import_module("pynvml")
    try:
        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByIndex(0)
        now = int(pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM))
        return now, int(pynvml.nvmlDeviceGetMaxClockInfo(device, pynvml.NVML_CLOCK_SM))
    except pynvml.NVMLError:
        return None


def _clocks(before: tuple[int, int] | None, after: tuple[int, int] | None) -> str:
    if before is None or after is None:
        return "clocks not known (pip install nvidia-ml-py)"
    return f"SM clock {before[0]} to {after[0]} MHz of {after[1]}"
