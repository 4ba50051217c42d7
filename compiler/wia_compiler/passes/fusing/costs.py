"""What fusing a producer into a kernel saves and costs, in bytes of memory traffic.

* *registers*: the most values of 32 bits that the kernel holds at one point of its domain, an f64
  counting two, times the points that it computes at once: as many values of its widest dtype as a
  vector register of the target holds, one where there are none.
* *saved bytes*: the intermediate is not written and not read back: twice its size.
* *benefit*: saved bytes, and one launch less (``launch_cost_bytes`` of the target).
* *cost*: a value that does not find a register is stored and loaded again, which moves as many
  bytes as were saved; how likely that is grows with how full the registers are:
  ``saved bytes × registers / register_capacity``. A kernel that sweeps over its rows several times
  (softmax: for the largest, the sum, the result) needs an elementwise producer in each sweep, and
  is charged for computing it anew: ``bytes_per_flop`` of the target for each extra operation.

A producer is fused when ``benefit > 1.5 × cost`` (WIA-AI-011, 5.3.1) and the registers suffice.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.facts import TargetFacts

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
    """The numbers of one candidate."""

    registers: int
    register_capacity: int
    saved_bytes: int
    benefit: float
    cost: float

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


def estimate(
    op: TensorOp, demand: Demand, times_computed: int, still_written: bool, facts: TargetFacts
) -> Estimate:
    """The numbers for fusing ``op`` into a kernel whose demand it then is.

    ``times_computed``: how often the kernel computes each element of it. ``still_written``:
    someone else needs the value in memory, so that only the reading is saved.
    """
    extra_flops = op.flops * (times_computed - 1) if op.declaration.family == "elementwise" else 0
    registers = demand.registers(facts)
    saved_bytes = op.result_spec.size_bytes * (1 if still_written else 2)
    return Estimate(
        registers,
        facts.register_capacity,
        saved_bytes,
        float(saved_bytes + facts.launch_cost_bytes),
        saved_bytes * registers / facts.register_capacity + extra_flops * facts.bytes_per_flop,
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
