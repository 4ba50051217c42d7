"""How long a call takes: warm, repeated until a time budget is spent, with the spread shown."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_SHORTEST_SAMPLE_NS = 20_000
"""Shorter samples would measure the clock; a sample repeats the call until it lasts this long."""
_CLEAN_SHARE = 0.96
"""A sample is clean when its thread had a core for that share of it: the rest is other work's."""


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: median and spread over samples of a warm run.

    ``samples`` are those it was made from, of ``taken``: disturbed ones are left out where enough
    others remain. ``calls`` is how often one sample repeats the call (its time is divided by that).
    ``waiting`` is the share of the measured time, 0 to 1, in which this thread had no core: other
    work on the machine, or calls that sleep. ``remarks`` say what else there is to know of how
    they were taken.
    """

    median: float
    minimum: float
    lower_quartile: float
    upper_quartile: float
    samples: int
    taken: int
    calls: int = 1
    waiting: float = 0.0
    remarks: str = ""

    @property
    def spread(self) -> float:
        """Distance of the quartiles over the median; 0 where the median is 0."""
        if self.median == 0:
            return 0.0
        return (self.upper_quartile - self.lower_quartile) / self.median

    @property
    def note(self) -> str:
        """``median of 25 samples, quartiles 1.02 to 1.10 of …`` in words, contention included."""
        among = f" undisturbed of {self.taken}" if self.samples < self.taken else ""
        text = f"median of {self.samples}{among} warm samples"
        if self.calls > 1:
            text += f" of {self.calls} calls each"
        text += f", quartiles {-self._percent(self.lower_quartile):.0f} % below and "
        text += f"{self._percent(self.upper_quartile):.0f} % above"
        if self.waiting > 0.1:
            text += f"; other work took the core {100 * self.waiting:.0f} % of the time"
        return f"{text}; {self.remarks}" if self.remarks else text

    def _percent(self, value: float) -> float:
        return 100 * (value / self.median - 1) if self.median else 0.0


def measure(
    call: Callable[[], object],
    *,
    budget: float = 0.3,
    warmups: int = 2,
    least: int = 5,
    most: int = 1000,
    threads: int = 1,
    clock: Callable[[], int] = time.perf_counter_ns,
    core_clock: Callable[[], int] = time.thread_time_ns,
) -> Timing:
    """Time ``call``: ``warmups`` calls, then samples until ``budget`` seconds are spent.

    There are at least ``least`` samples, whatever they take, and at most ``most``. Of a call that
    works on one thread, samples in which other work took the core are left out, unless fewer than
    ``least`` would remain. ``clock`` counts nanoseconds, ``core_clock`` those in which this thread
    had a core.
    """
    if budget < 0 or warmups < 0 or not 1 <= least <= most:
        raise ValueError(
            f"expected budget and warmups from 0 and 1 <= least <= most, found budget={budget}, "
            f"warmups={warmups}, least={least}, most={most}"
        )
    for _ in range(warmups):
        call()
    first = _sample(call, 1, clock)
    calls = 1 if first >= _SHORTEST_SAMPLE_NS else -(-_SHORTEST_SAMPLE_NS // max(1, first))
    start, core_start = clock(), core_clock()
    deadline = start + budget * 1e9
    samples: list[float] = []
    clean: list[float] = []
    while len(samples) < least or (clock() < deadline and len(samples) < most):
        core = core_clock()
        took = _sample(call, calls, clock)
        samples.append(took / calls)
        if core_clock() - core >= _CLEAN_SHARE * took:
            clean.append(took / calls)
    elapsed = clock() - start
    waiting = 1 - (core_clock() - core_start) / elapsed if elapsed > 0 else 0.0
    used = clean if threads == 1 and len(clean) >= least else samples
    share = min(1.0, max(0.0, waiting))
    return summarize(used, taken=len(samples), calls=calls, waiting=share)


def summarize(
    samples_ns: Sequence[float],
    *,
    taken: int = 0,
    calls: int = 1,
    waiting: float = 0.0,
    remarks: str = "",
) -> Timing:
    """The timing that samples, in nanoseconds, amount to; ``taken`` counts those left out too."""
    if not samples_ns:
        raise ValueError("a timing needs at least one sample")
    seconds = sorted(sample / 1e9 for sample in samples_ns)
    median = statistics.median(seconds)
    lower, upper = (seconds[0], seconds[-1])
    if len(seconds) > 1:
        lower, _, upper = statistics.quantiles(seconds, n=4, method="inclusive")
    count = len(seconds)
    among = max(count, taken)
    return Timing(median, seconds[0], lower, upper, count, among, calls, waiting, remarks)


def _sample(call: Callable[[], object], calls: int, clock: Callable[[], int]) -> int:
    start = clock()
    for _ in range(calls):
        call()
    return clock() - start
