"""One live run of a kernel: time, counts, where it stands and what to change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from wia_compiler.backends.cpu.threads import wanted_threads
from wia_compiler.profiler.advice import Run, advise
from wia_compiler.profiler.ceilings import Ceilings, measured_ceilings
from wia_compiler.profiler.data_sheets import data_sheet_ceilings
from wia_compiler.profiler.estimate import Estimate
from wia_compiler.profiler.roofline import Roofline, roofline
from wia_compiler.profiler.timers import Timing, measure

Counters = Mapping[str, int | float]
Source = Literal["measured", "simulated"]


@dataclass(frozen=True)
class Profile:
    """What was found in one live run.

    ``time`` is seconds of one call: the median of warm runs (``timing`` has the spread), or cycles
    of a simulator over its clock; ``None`` where a simulator counts no cycles. ``flops`` and
    ``bytes`` are what the kernel needs by its definition: operations, inputs read once and outputs
    written once. ``counters`` are those of the last run, ``source`` says who counted and ``label``
    how the time came about. ``estimate`` is what a model says of a run that nobody could time, and
    never becomes ``time``.
    """

    kernel: str
    target: str
    time: float | None
    flops: int
    bytes: int
    source: Source
    label: str
    roofline: Roofline
    timing: Timing | None = None
    counters: Counters = field(default_factory=dict[str, int | float])
    advice: tuple[str, ...] = ()
    estimate: Estimate | None = None

    def __str__(self) -> str:
        time = "no time" if self.time is None else f"{_seconds(self.time)} ({self.label})"
        lines = [f"{self.kernel} on {self.target}: {time}, {self.source}"]
        lines.append(f"  {self.flops} FLOPs, {self.bytes} bytes; {self.roofline}")
        if self.estimate is not None:
            lines.append(f"  estimate: {self.estimate}")
            lines.append(f"  its place: {self.estimate.roofline}, by the model")
        lines += [f"  {name}: {value:g}" for name, value in self.counters.items()]
        lines += [f"  advice: {each}" for each in self.advice]
        return "\n".join(lines)


def profile(
    run: Callable[[], Counters | None],
    *,
    flops: int,
    size_bytes: int,
    kernel: str = "kernel",
    target: str = "cpu",
    dtype: str = "f32",
    source: Source = "measured",
    threads: int | None = None,
    budget: float = 0.3,
    ceilings: Ceilings | None = None,
    estimate: Callable[[], Estimate | None] | None = None,
) -> Profile:
    """Run a kernel and say where it stands.

    ``run`` executes it once and gives its counters. A ``measured`` run is timed until ``budget``
    seconds are spent; a ``simulated`` one runs once, and its ``total_cycles`` over the target's
    clock are its time. ``dtype`` is that of the arithmetic, ``threads`` how many cores the kernel
    may use (default: what the environment allows). ``ceilings`` default to those of this machine
    for the CPU and to data sheets for other targets. ``estimate`` is asked after a simulated run
    that has no time.
    """
    cores = wanted_threads() if threads is None else threads
    limits = ceilings or _default_ceilings(target, cores)
    timing: Timing | None = None
    if source == "measured":
        found: list[Counters | None] = []

        def call() -> None:
            found[:] = [run()]

        timing = measure(call, budget=budget, threads=cores)
        counters, time, label = found[0] or {}, timing.median, timing.note
    else:
        counters = run() or {}
        time, label = _simulated_time(counters, limits)
    modelled = estimate() if estimate is not None and time is None else None
    place = roofline(flops, size_bytes, time, limits, dtype=dtype)
    advice = advise(Run(place, timing, time, size_bytes, counters))
    return Profile(
        kernel,
        target,
        time,
        flops,
        size_bytes,
        source,
        label,
        place,
        timing,
        counters,
        advice,
        modelled,
    )


def _default_ceilings(target: str, threads: int) -> Ceilings:
    if target.partition(":")[0] == "cpu":
        return measured_ceilings(threads=threads)
    return data_sheet_ceilings(target)


def _simulated_time(counters: Counters, limits: Ceilings) -> tuple[float | None, str]:
    cycles = counters.get("total_cycles")
    if cycles is None or limits.clock_hz is None:
        return None, "the simulator counts no cycles"
    return cycles / limits.clock_hz, f"{cycles} cycles at {limits.clock_hz / 1e6:.0f} MHz"


def _seconds(time: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if time >= factor:
            return f"{time / factor:.3g} {unit}"
    return f"{time / 1e-9:.3g} ns"
