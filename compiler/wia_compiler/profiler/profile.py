"""One live run of a kernel: time, counts, where it stands and what to change."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from wia_compiler.backends.cpu.threads import wanted_threads
from wia_compiler.base.errors import TargetError
from wia_compiler.profiler.advice import Advice, Run, advise
from wia_compiler.profiler.ceilings import Ceilings, measured_ceilings
from wia_compiler.profiler.compare import Comparison, compare_profiles, compare_sources
from wia_compiler.profiler.data_sheets import data_sheet_ceilings
from wia_compiler.profiler.estimate import Estimate
from wia_compiler.profiler.lines import LineTable
from wia_compiler.profiler.roofline import Roofline, roofline
from wia_compiler.profiler.timers import Timing, measure

Counters = Mapping[str, int | float]
Source = Literal["measured", "simulated"]


class Evidence(Protocol):
    """What a run left to be looked at: counts by line, and other counts of the same run."""

    def lines(self) -> LineTable:
        """Counts by line of the PTX; ``TargetError`` where nobody counted."""
        ...

    def simulated(self) -> Mapping[str, int | float]:
        """Counters of the simulator for the same run; ``TargetError`` where there is none."""
        ...

    def measured(self) -> Mapping[str, int | float]:
        """Counters of the GPU for the same run; ``TargetError`` says why there are none."""
        ...

    def profile_of(self, build: Any) -> Profile:
        """Another build's profile, of a run on the same arguments."""
        ...


@dataclass(frozen=True)
class Profile:
    """What was found in one live run.

    ``time`` is seconds of one call: the median of warm runs (``timing`` has the spread), or cycles
    of a simulator over its clock; ``None`` where a simulator counts no cycles. ``flops`` and
    ``bytes`` are what the kernel needs by its definition: operations, inputs read once and outputs
    written once. ``counters`` are those of the last run, ``source`` says who counted and ``label``
    how the time came about. ``estimate`` is what a model says of a run that nobody could time, and
    never becomes ``time``. ``advice`` are sentences with the rules and numbers behind them, and
    ``resources`` those of the build.
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
    advice: tuple[Advice, ...] = ()
    estimate: Estimate | None = None
    resources: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    evidence: Evidence | None = field(default=None, repr=False, compare=False)

    @property
    def lines(self) -> LineTable:
        """What the run did on each line of the PTX; ``lines.by_source()`` of the source.

        ``TargetError`` where no simulator of PTX ran.
        """
        if self.evidence is None:
            raise TargetError(
                f"{self.kernel} on {self.target}: nothing counts by line here; profile it for a "
                "GPU, whose PTX the simulator runs"
            )
        return self.evidence.lines()

    def compare(self, other: Any = None) -> Comparison:
        """This run beside another, or, without ``other``, its counters simulated beside measured.

        ``other`` is a profile, or a build, which is then run on the same arguments: another
        schedule, another target. Where no GPU is here, or its counters may not be read, the column
        of what was measured is empty and the note says why.
        """
        if other is None:
            return compare_sources(self)
        if isinstance(other, Profile):
            return compare_profiles(self, other)
        if self.evidence is None:
            raise TargetError("compare() runs builds on the arguments of a profile of a build")
        return compare_profiles(self, self.evidence.profile_of(other))

    def to_data(self) -> dict[str, Any]:
        """Plain data; lines and comparisons have their own."""
        return {
            "kernel": self.kernel,
            "target": self.target,
            "time": self.time,
            "flops": self.flops,
            "bytes": self.bytes,
            "source": self.source,
            "label": self.label,
            "roofline": self.roofline.to_data(),
            "timing": dataclasses.asdict(self.timing) if self.timing is not None else None,
            "counters": dict(self.counters),
            "advice": [each.to_data() for each in self.advice],
            "estimate": self.estimate.to_data() if self.estimate is not None else None,
            "resources": dict(self.resources),
        }

    def to_json(self) -> str:
        """``to_data`` as text."""
        return json.dumps(self.to_data(), ensure_ascii=False)

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
    resources: Mapping[str, Any] | None = None,
    read_schedule: Callable[[], str] = str,
    evidence: Evidence | None = None,
    sample: Callable[[float], Timing] | None = None,
) -> Profile:
    """Run a kernel and say where it stands.

    ``run`` executes it once and gives its counters. A ``measured`` run is timed until ``budget``
    seconds are spent; a ``simulated`` one runs once, and its ``total_cycles`` over the target's
    clock are its time. ``dtype`` is that of the arithmetic, ``threads`` how many cores the kernel
    may use (default: what the environment allows). ``ceilings`` default to those of this machine
    for the CPU and to data sheets for other targets. ``estimate`` is asked after a simulated run
    that has no time. ``sample`` times a measured run by a clock of the device, within the seconds
    it is given. ``resources``, ``read_schedule`` and ``evidence`` are the build's.
    """
    cores = wanted_threads() if threads is None else threads
    limits = ceilings or _default_ceilings(target, cores)
    timing: Timing | None = None
    if source == "measured":
        found: list[Counters | None] = []

        def call() -> None:
            found[:] = [run()]

        if sample is None:
            timing = measure(call, budget=budget, threads=cores)
        else:
            call()
            timing = sample(budget)
        counters, time, label = found[0] or {}, timing.median, timing.note
    else:
        counters = run() or {}
        time, label = _simulated_time(counters, limits)
    modelled = estimate() if estimate is not None and time is None else None
    place = roofline(flops, size_bytes, time, limits, dtype=dtype)
    built = resources or {}
    seen = Run(place, timing, time, size_bytes, counters, built, modelled, read_schedule, dtype)
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
        advise(seen),
        modelled,
        built,
        evidence,
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
