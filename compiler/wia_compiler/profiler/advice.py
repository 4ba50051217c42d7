"""What to change, as rows: when a rule holds, and what it says with this run's numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wia_compiler.profiler.roofline import Roofline
from wia_compiler.profiler.timers import Timing


@dataclass(frozen=True)
class Run:
    """What the rules look at."""

    roofline: Roofline
    timing: Timing | None
    time: float | None
    size_bytes: int
    counters: Mapping[str, int | float]

    def count(self, name: str) -> float:
        """A counter, 0 where it was not counted."""
        return float(self.counters.get(name, 0))

    def share(self, part: str, whole: str) -> float:
        """One counter over another; 0 where there is none."""
        total = self.count(whole)
        return self.count(part) / total if total else 0.0

    @property
    def percent(self) -> float:
        """How much of the roof was reached; 100 where that is not known, so that no rule fires."""
        return 100.0 if self.roofline.percent is None else self.roofline.percent


@dataclass(frozen=True)
class Rule:
    """``text`` gives the advice when ``holds``."""

    name: str
    holds: Callable[[Run], bool]
    text: Callable[[Run], str]


CALL_SECONDS = 20e-6
"""Below this a run is mostly its call: binding arguments, allocating outputs, Python."""


_SECTORS = "derived__memory_l2_theoretical_sectors_global"


def _wavefronts(run: Run) -> float:
    name = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
    return sum(run.count(name.format(each)) for each in ("ld", "st", "atom", "red"))


def _memory_bound(run: Run) -> str:
    line = run.roofline
    memory, ridge, intensity = line.memory, line.ridge, line.intensity or 0.0
    where = memory.name if memory is not None else "memory"
    if ridge is None:
        return f"bound by {where}: fuse it with its producer or consumer, or use a narrower dtype"
    return (
        f"bound by {where}: {intensity:.3g} FLOP per byte, arithmetic would be the limit from "
        f"{ridge:.3g}; fuse it with its producer or consumer so that its {_bytes(run.size_bytes)} "
        f"are not written and read again, or use a narrower dtype"
    )


def _slow_memory(run: Run) -> str:
    line = run.roofline
    assert line.memory is not None and line.achieved_bandwidth is not None
    return (
        f"moves {line.achieved_bandwidth / 1e9:.1f} of {line.memory.value / 1e9:.1f} GB/s "
        f"({run.percent:.0f} %): look at strides, vector loads and passes over the data"
    )


def _slow_compute(run: Run) -> str:
    line = run.roofline
    assert line.compute is not None and line.achieved is not None
    return (
        f"computes {line.achieved / 1e9:.1f} of {line.compute.value / 1e9:.1f} GFLOP/s "
        f"({run.percent:.0f} %): try another tile, vectorize and independent accumulators"
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "short run",
        lambda run: run.timing is not None and run.timing.median < CALL_SECONDS,
        lambda run: (
            f"takes {1e6 * (run.time or 0):.2g} µs, mostly the call itself: give one call more work"
        ),
    ),
    Rule(
        "memory bound",
        lambda run: run.roofline.bound == "memory" and run.percent >= 50,
        _memory_bound,
    ),
    Rule(
        "far below the memory roof",
        lambda run: run.roofline.bound == "memory" and run.percent < 50,
        _slow_memory,
    ),
    Rule(
        "far below the compute roof",
        lambda run: run.roofline.bound == "compute" and run.percent < 50,
        _slow_compute,
    ),
    Rule(
        "divergent branches",
        lambda run: run.share("ptx_branches_divergent", "ptx_branches") > 0.1,
        lambda run: (
            f"{100 * run.share('ptx_branches_divergent', 'ptx_branches'):.0f} % of the branches "
            "send a warp two ways: make conditions equal for 32 neighbours, or compute both sides "
            "and select"
        ),
    ),
    Rule(
        "bank conflicts",
        lambda run: run.count("shared_memory_bank_conflicts") > 0,
        lambda run: (
            f"{run.count('shared_memory_bank_conflicts'):.0f} of {_wavefronts(run):.0f} wavefronts "
            "of shared memory are bank conflicts: pad the rows of the tile by one element, or "
            "swizzle it"
        ),
    ),
    Rule(
        "accesses not coalesced",
        lambda run: run.share(f"{_SECTORS}_excessive", _SECTORS) > 0.2,
        lambda run: (
            f"{100 * run.share(f'{_SECTORS}_excessive', _SECTORS):.0f} % of the sectors of global "
            "memory carry nothing that is asked for: let neighbouring threads access neighbouring "
            "elements, or go through shared memory"
        ),
    ),
    Rule(
        "array partly empty",
        lambda run: run.count("systolic_executes") > 0 and run.count("mapping_percent") < 75,
        lambda run: (
            f"weights fill {run.count('mapping_percent'):.0f} % of the array on average: "
            "multiples of 128 for the summed axis and the columns would fill it"
        ),
    ),
    Rule(
        "array seldom streams",
        lambda run: (
            run.count("systolic_executes") > 0 and run.share("rows_streamed", "cycles") < 0.7
        ),
        lambda run: (
            f"rows stream in {100 * run.share('rows_streamed', 'cycles'):.0f} % of the cycles, the "
            "rest loads weights, fills and drains the array: stream more rows past each tile (a "
            "larger batch), or load the next weights meanwhile (weight_double_buffer)"
        ),
    ),
    Rule(
        "waits for HBM",
        lambda run: run.share("cycles", "total_cycles") < 0.8 and run.count("total_cycles") > 0,
        lambda run: (
            f"{100 * (1 - run.share('cycles', 'total_cycles')):.0f} % of the time waits "
            "for HBM: pass operands as bf16, which halves what is read of f32"
        ),
    ),
    Rule(
        "noisy",
        lambda run: (
            run.timing is not None and (run.timing.waiting > 0.1 or run.timing.spread > 0.2)
        ),
        lambda run: (
            f"other work disturbed the run ({run.timing.note if run.timing else ''}): "
            "repeat it on a quieter machine before you compare"
        ),
    ),
)


def advise(run: Run) -> tuple[str, ...]:
    """What every rule that holds says, in the order of the rows."""
    return tuple(rule.text(run) for rule in RULES if rule.holds(run))


def _bytes(size: int) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} bytes"
