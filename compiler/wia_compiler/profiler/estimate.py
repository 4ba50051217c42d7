"""``profile.estimate``: what a model says of a run that nobody timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from wia_compiler.backends.gpu.architecture import LAUNCH_SECONDS
from wia_compiler.backends.gpu.sass_table import SassRow
from wia_compiler.profiler.gpu_model import (
    Case,
    CountedLaunch,
    LaunchEstimate,
    estimate_case,
    estimate_launch,
)
from wia_compiler.profiler.gpu_sheets import GpuSheet
from wia_compiler.profiler.roofline import Roofline, roofline

ERROR_SHARE = 0.5
"""Published models of this kind miss by 30 to 50 % (Lemeire et al., SSRN 4059952: 23 to 136 %)."""
NOTE = "a model, ±50 %: to rank kernels, not to time them"


class RanLaunch(Protocol):
    """One launch of a simulated run."""

    @property
    def launch(self) -> Any:
        """What was launched; its ``entry`` names the kernel."""
        ...

    @property
    def done(self) -> Any:
        """What the simulator left of it."""
        ...

    @property
    def buffer_bytes(self) -> int:
        """Bytes of its arrays."""
        ...


@dataclass(frozen=True)
class Estimate:
    """How long a run would take on ``device``, by a model and not by a clock.

    ``time`` is seconds, ``error_band`` the least and the most that it may be, ``limiter`` the part
    that takes longest, ``parts`` the seconds of each part, launches added up; they overlap.
    ``occupancy`` is the least of all launches. ``roofline`` has the point that the model gives,
    below the data sheet's ceilings. ``inputs`` says where each input of the model comes from, and
    ``launches`` has the estimate of each launch.
    """

    device: str
    time: float
    error_band: tuple[float, float]
    limiter: str
    parts: Mapping[str, float]
    occupancy: float
    occupancy_limiter: str
    roofline: Roofline
    note: str = NOTE
    source: Literal["model"] = "model"
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    launches: tuple[LaunchEstimate, ...] = field(default=(), repr=False, compare=False)

    def gain_of(self, change: Callable[[Case], Case]) -> float | None:
        """How many times faster the model takes the run to be where ``change`` was made to it.

        ``None`` where nothing was launched.
        """
        after = sum(estimate_case(change(each.case)).time for each in self.launches)
        return self.time / after if after else None

    def to_data(self) -> dict[str, Any]:
        """Plain data, without the roofline's ceilings."""
        return {
            "device": self.device,
            "time": self.time,
            "error_band": list(self.error_band),
            "limiter": self.limiter,
            "parts": dict(self.parts),
            "occupancy": self.occupancy,
            "occupancy_limiter": self.occupancy_limiter,
            "inputs": dict(self.inputs),
            "note": self.note,
            "source": self.source,
            "roofline": self.roofline.to_data(),
        }

    def __str__(self) -> str:
        low, high = (micros(each) for each in self.error_band)
        longest = sorted(self.parts.items(), key=lambda part: -part[1])[:3]
        shown = ", ".join(f"{name} {micros(each)}" for name, each in longest)
        return (
            f"{self.device}: {micros(self.time)} ({low} to {high}), limited by {self.limiter} "
            f"({shown}); occupancy {100 * self.occupancy:.0f} % ({self.occupancy_limiter}); "
            f"{self.note}"
        )


def estimate_run(
    sheet: GpuSheet,
    ran: Sequence[RanLaunch],
    resources: Mapping[str, Any],
    *,
    flops: int,
    size_bytes: int,
    dtype: str = "f32",
    sass: Sequence[SassRow] = (),
) -> Estimate:
    """The launches of a run, one after the other, on a product.

    ``resources`` are the build's: registers by entry, where ptxas is installed; ``flops``,
    ``size_bytes`` and ``dtype`` place the point on the roofline. ``sass`` are the instructions of
    all entries, where nvdisasm is installed.
    """
    entries: Mapping[str, Any] = resources.get("entries", {})
    parts: dict[str, float] = {"launch": LAUNCH_SECONDS * len(ran)}
    time = 0.0
    held: tuple[float, str] | None = None
    launches: list[LaunchEstimate] = []
    for each in ran:
        done: CountedLaunch = each.done
        registers = int(entries.get(each.launch.entry, {}).get("registers", 0))
        found = estimate_launch(
            sheet,
            done,
            registers=registers,
            footprint_bytes=each.buffer_bytes,
            sass=[row for row in sass if row.entry == each.launch.entry],
            parts=each.launch.parts,
        )
        launches.append(found)
        time += found.time
        for name, seconds in found.parts.items():
            parts[name] = parts.get(name, 0.0) + seconds
        shown = (found.occupancy.ratio, found.occupancy.limiter)
        held = min(held, shown) if held else shown
    place = roofline(flops, size_bytes, time, sheet.ceilings, dtype=dtype)
    note = NOTE if entries or not ran else f"{NOTE}; without ptxas registers are not counted"
    limiter = max(parts, key=lambda name: parts[name])
    band = (time * (1 - ERROR_SHARE), time * (1 + ERROR_SHARE))
    ratio, why = held or (0.0, "nothing is launched")
    return Estimate(
        sheet.name,
        time,
        band,
        limiter,
        parts,
        ratio,
        why,
        place,
        note,
        inputs=_inputs_of(bool(entries), bool(sass)),
        launches=tuple(launches),
    )


def _inputs_of(has_registers: bool, has_sass: bool) -> dict[str, str]:
    """Where the model's inputs come from."""
    mix = "SASS of ptxas × simulated counts of its lines" if has_sass else "PTX, simulated"
    order = "SASS, in the order of ptxas" if has_sass else "PTX, by its dependences"
    return {
        "instructions": mix,
        "latency": order,
        "registers": "ptxas" if has_registers else "not known",
        "wavefronts and sectors": "simulated",
        "DRAM bytes": "sizes of the arrays",
        "rates and latencies": "data sheet and published measurements",
    }


def micros(seconds: float) -> str:
    """``12.3 µs``."""
    return f"{1e6 * seconds:.3g} µs"
