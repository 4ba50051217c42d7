"""Where a run stands below the limits of its machine."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from wia_compiler.profiler.ceilings import Ceiling, Ceilings

Bound = Literal["compute", "memory", "none"]


@dataclass(frozen=True)
class Roofline:
    """One run among the ceilings of its machine.

    ``intensity`` is FLOPs per byte of compulsory traffic (``None`` where no byte moves);
    ``achieved`` FLOP/s and ``achieved_bandwidth`` byte/s are ``None`` where no time is known.
    ``memory`` is the nearest memory that holds the operands, ``compute`` the arithmetic limit of
    the dtype (``None``: unknown, as for integers). ``roof`` is the least of what they allow, in
    FLOP/s; ``bound`` the one that is least; ``percent`` how much of it was reached. A kernel
    without FLOPs is measured by bandwidth against ``memory``, and its ``roof`` is 0.
    """

    intensity: float | None
    achieved: float | None
    achieved_bandwidth: float | None
    ceilings: Ceilings
    memory: Ceiling | None
    compute: Ceiling | None
    bound: Bound
    roof: float | None
    percent: float | None

    @property
    def ridge(self) -> float | None:
        """FLOPs per byte from which on arithmetic is the limit."""
        if self.memory is None or self.compute is None:
            return None
        return self.compute.value / self.memory.value

    @property
    def limit(self) -> Ceiling | None:
        """The ceiling that bounds this run."""
        return {"compute": self.compute, "memory": self.memory, "none": None}[self.bound]

    def to_data(self) -> dict[str, Any]:
        """Plain data; the ceilings by name."""
        made = dataclasses.asdict(self)
        return made | {"ridge": self.ridge}

    def __str__(self) -> str:
        limit = self.limit
        if limit is None:
            return "no limit known"
        share = "" if self.percent is None else f", {self.percent:.0f} % of the {limit.name} roof"
        return f"{self.bound} bound{share}"


def roofline(
    flops: int, size_bytes: int, time: float | None, ceilings: Ceilings, *, dtype: str = "f32"
) -> Roofline:
    """Place a run of ``time`` seconds that needs ``flops`` operations on ``size_bytes`` of data.

    ``time`` may be ``None`` (not run); a time of 0 counts as none, for it is below the clock.
    """
    if flops < 0 or size_bytes < 0 or (time is not None and time < 0):
        raise ValueError(f"expected amounts from 0, found {flops}, {size_bytes} bytes, {time} s")
    memory = ceilings.memory_for(size_bytes)
    compute = ceilings.rate_for(dtype)
    intensity = flops / size_bytes if size_bytes else None
    bound, roof = _bound(flops, intensity, memory, compute)
    achieved = flops / time if time else None
    bandwidth = size_bytes / time if time else None
    percent: float | None = None
    if bound == "memory" and memory is not None and bandwidth is not None:
        percent = 100 * bandwidth / memory.value
    elif bound == "compute" and compute is not None and achieved is not None:
        percent = 100 * achieved / compute.value
    return Roofline(intensity, achieved, bandwidth, ceilings, memory, compute, bound, roof, percent)


def _bound(
    flops: int, intensity: float | None, memory: Ceiling | None, compute: Ceiling | None
) -> tuple[Bound, float | None]:
    """What limits the run, and the FLOP/s it allows."""
    if intensity is None or memory is None:
        if compute is None or flops == 0:
            return "none", None
        return "compute", compute.value
    below_memory = intensity * memory.value
    if compute is None or flops == 0 or below_memory < compute.value:
        return "memory", below_memory
    return "compute", compute.value
