"""What putting ops into one kernel saves and costs, in bytes of memory traffic.

* *registers*: the most values of 32 bits that the kernel holds at one point of its domain, an f64
  counting two, times the points that it computes at once: as many values of its widest dtype as a
  vector register of the target holds, one where there are none.
* *saved bytes*, vertical: the intermediate is not written and not read back, twice its size; once
  where it is written all the same (it is a result too). Horizontal: what both kernels read is read
  once.
* *benefit*: saved bytes, and ``launch_cost_bytes`` of the target for each launch less.
* *cost*: a value that does not find a register is stored and loaded again; how likely that is grows
  with how full the registers are: ``bytes at risk × registers / register_capacity``. Vertical: at
  risk are the bytes that were saved. Horizontal: the values that the joint kernel holds beyond what
  the larger of the two held, stored and loaded at each point. Computing elements again costs
  ``bytes_per_flop`` of the target for each extra operation (a kernel that sweeps over its rows
  several times needs an elementwise producer in each sweep, unless rows are short enough to be
  kept), and reading again what it reads.

Ops are put together when ``benefit > 1.5 × cost`` (WIA-AI-011, 5.3.1) and the registers suffice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.ir import SSAValue

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.fusing.roles import role_of

THRESHOLD = 1.5
"""Benefit over cost that a fusion needs (WIA-AI-011, 5.3.1: at least 50 % gain)."""


@dataclass(frozen=True)
class Demand:
    """What a kernel holds at one point: ``words`` of 32 bits in all, ``widest`` for one value."""

    words: int
    widest: int

    def registers(self, facts: TargetFacts) -> int:
        """Registers of 32 bits that a thread of the target needs for it."""
        return self.words * max(facts.vector_bytes // (4 * self.widest), 1)


@dataclass(frozen=True)
class Estimate:
    """The numbers of one candidate.

    ``risked_bytes`` move again if the registers do not hold them; ``extra_cost`` is what is paid
    in any case, in bytes.
    """

    registers: int
    register_capacity: int
    saved_bytes: int
    launch_cost_bytes: int
    risked_bytes: int
    extra_cost: float = 0.0
    launches_saved: int = 1

    @property
    def benefit(self) -> float:
        """Bytes of traffic saved, launches among them."""
        return float(self.saved_bytes + self.launches_saved * self.launch_cost_bytes)

    @property
    def cost(self) -> float:
        """Bytes of traffic that may have to be added."""
        return self.risked_bytes * self.registers / self.register_capacity + self.extra_cost

    @property
    def ratio(self) -> float:
        """Benefit over cost."""
        return self.benefit / max(self.cost, 1.0)

    @property
    def fits(self) -> bool:
        """Whether the registers suffice."""
        return self.registers <= self.register_capacity

    @property
    def pays(self) -> bool:
        """Whether the benefit is large enough."""
        return self.ratio > THRESHOLD

    @property
    def taken(self) -> bool:
        """Whether the ops are put together."""
        return self.fits and self.pays

    @property
    def needed_capacity(self) -> int | None:
        """The fewest registers of a target on which it is taken; ``None`` where none suffice."""
        spare = self.benefit - THRESHOLD * self.extra_cost
        if spare <= 0 or self.benefit <= THRESHOLD:
            return None
        needed = THRESHOLD * self.risked_bytes * self.registers / spare
        return max(self.registers, math.floor(needed) + 1, 1)

    @property
    def needed_launch_cost(self) -> int | None:
        """The least cost of a launch, in bytes, at which it is taken; ``None`` where none is."""
        if not self.fits or not self.launches_saved:
            return None
        missing = THRESHOLD * max(self.cost, 1.0) - self.saved_bytes
        return max(math.floor(missing / self.launches_saved) + 1, 0)

    @property
    def conditions(self) -> list[str]:
        """What would have to be otherwise for it to be taken, each on its own; none if it is."""
        found: list[str] = []
        if self.taken:
            return found
        capacity, launch = self.needed_capacity, self.needed_launch_cost
        if capacity is not None:
            found.append(f"{capacity} values fitted in registers, not {self.register_capacity}")
        if launch is not None:
            here = bytes_text(self.launch_cost_bytes)
            found.append(f"a launch cost what moving {bytes_text(launch)} does, not {here}")
        return found


def estimate(
    op: TensorOp,
    demand: Demand,
    times_computed: int,
    still_written: bool,
    facts: TargetFacts,
) -> Estimate:
    """The numbers for fusing ``op`` into a kernel whose demand it then is.

    ``times_computed``: how often the kernel computes each element of it. ``still_written``:
    someone else needs the value in memory, so that only the reading is saved.
    """
    extra_flops = op.flops * (times_computed - 1) if role_of(op) == "elementwise" else 0
    saved_bytes = op.result_spec.size_bytes * (1 if still_written else 2)
    return Estimate(
        demand.registers(facts),
        facts.register_capacity,
        saved_bytes,
        facts.launch_cost_bytes,
        risked_bytes=saved_bytes,
        extra_cost=extra_flops * facts.bytes_per_flop,
    )


def words_of(value: SSAValue) -> int:
    """Registers of 32 bits that one element takes."""
    return -(-spec_of(value.type).dtype.size_bytes // 4)


def bytes_text(count: float) -> str:
    """``12 B``, ``4.1 KB``, ``17.5 MB``: decimal units, as the explorer's tables show them."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
