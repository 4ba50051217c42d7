"""Time of a launch without a GPU: a bottleneck and latency model of what the simulator counted.

Every unit of the GPU takes some time for its part of the work; the launch takes the p-norm of
these times, which is a little more than the longest. Work per SM is that of the busiest one, so
that a last wave of few blocks costs as much as a full one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from wia_compiler.backends.gpu.architecture import LAUNCH_SECONDS, SUB_PARTITIONS, WARP_SIZE
from wia_compiler.backends.gpu.launch import LaunchPart
from wia_compiler.backends.gpu.occupancy import Occupancy, occupancy
from wia_compiler.backends.gpu.sass_table import SassRow
from wia_compiler.base.errors import ArgumentError
from wia_compiler.profiler.gpu_costs import BY_WARPGROUP, cost_of
from wia_compiler.profiler.gpu_sheets import GpuSheet, lanes_cycles
from wia_compiler.profiler.gpu_warp import warp_cycles
from wia_compiler.profiler.sass_counts import Predicted, predict, units_of
from wia_compiler.profiler.sass_warp import sass_warp_cycles
from wia_compiler.simulators.ptx.counters import LineCounts
from wia_compiler.simulators.ptx.counting import SECTOR_BYTES
from wia_compiler.simulators.ptx.flow import Flow, RunBlock

NORM = 5
DRAM_SHARE = 0.9
"""What copies reach of the published bandwidth."""
L2_PORT_BYTES = 64
"""What one SM gets from L2 in a cycle."""


class CountedLaunch(Protocol):
    """A launch of the PTX simulator, or what stands for one."""

    @property
    def totals(self) -> Mapping[str, int]:
        """Counts by name."""
        ...

    @property
    def lines(self) -> Mapping[int, LineCounts]:
        """Counts by line of the PTX."""
        ...

    @property
    def flow(self) -> Flow | None:
        """How it went through its code."""
        ...


@dataclass(frozen=True)
class Work:
    """What a launch asks of a GPU, all blocks together.

    ``units`` are warp instructions by unit, ``tensor`` operations by rate, ``wavefronts`` passes
    over shared memory, ``requests`` and ``sectors`` accesses to global and local memory,
    ``copied_sectors`` what bulk copies move between L2 and shared memory, ``footprint_bytes`` the
    least that must come from and go to DRAM.
    """

    issued: float
    units: Mapping[str, float]
    tensor: Mapping[str, float]
    wavefronts: float
    requests: float
    sectors: float
    footprint_bytes: float
    copied_sectors: float = 0.0

    @property
    def moved_bytes(self) -> float:
        """Bytes from and to L2."""
        return (self.sectors + self.copied_sectors) * SECTOR_BYTES


@dataclass(frozen=True)
class Case:
    """What the model is asked: the ``blocks`` of a launch, its work, and what an SM holds of it.

    ``warp_cycles`` are those of one warp alone on its SM; where warps differ, those of an average
    one, and ``longer_cycles`` what the longest ones take beyond.
    """

    sheet: GpuSheet
    work: Work
    held: Occupancy
    blocks: int
    warp_cycles: float
    longer_cycles: float = 0.0


@dataclass(frozen=True)
class LaunchEstimate:
    """``time`` in seconds and the seconds of each part of the model; ``case`` is what was asked."""

    time: float
    parts: Mapping[str, float]
    case: Case

    @property
    def occupancy(self) -> Occupancy:
        """What an SM holds of the launch."""
        return self.case.held


def estimate_launch(
    sheet: GpuSheet,
    launch: CountedLaunch,
    *,
    registers: int = 0,
    footprint_bytes: float | None = None,
    sass: Sequence[SassRow] = (),
    parts: Sequence[LaunchPart] = (),
) -> LaunchEstimate:
    """How long a simulated launch would take on a product.

    ``registers`` are those that ptxas gives a thread (0: not known, as if they never were the
    limit). ``footprint_bytes`` are those of the arrays that the launch was given; without it every
    byte is taken to be accessed once. ``sass`` are the instructions of the launched entry, whose
    mix and order then stand in for those of the PTX. ``parts`` are the kernels of a merged launch,
    whose warps differ. ``ArgumentError`` where the GPU cannot hold one block.
    """
    flow = launch.flow
    if flow is None:
        raise ArgumentError("launch: expected one launch, got the sum of several")
    held = occupancy(sheet.facts, flow.threads, registers=registers, shared_bytes=flow.shared_bytes)
    if held.ctas_per_sm == 0:
        raise ArgumentError(
            f"{sheet.name} cannot hold a block of this launch: {held.limiter} of an SM do not "
            f"suffice for {flow.threads} threads with {registers} registers each and "
            f"{flow.shared_bytes} bytes of shared memory"
        )
    blocks = flow.run_blocks()
    work = work_of(blocks, launch.totals, footprint_bytes)
    predicted = predict(sass, launch.lines, flow) if sass else ()
    if predicted:
        work = with_sass(work, predicted, launch.totals)
    # A working set that L2 holds comes from there, except for the first touch.
    fits = work.footprint_bytes <= sheet.l2_bytes
    far = sheet.latencies.l2 if fits else sheet.latencies.memory
    if predicted:
        cycles = sass_warp_cycles(predicted, flow.warps, far, sheet.latencies)
    else:
        cycles = warp_cycles(blocks, flow.warps, far, sheet.latencies)
    average, longest = part_cycles(cycles, flow.warps, parts)
    return estimate_case(Case(sheet, work, held, flow.grid, average, longest - average))


def part_cycles(cycles: float, warps: int, parts: Sequence[LaunchPart]) -> tuple[float, float]:
    """Cycles of an average block's warps and of the longest part's, from those of an average warp.

    The cycles of all ``warps`` are shared out as the compiler's estimates of the parts are to each
    other; warps that a part leaves out take none.
    """
    weights = [part.blocks * -(-part.threads // WARP_SIZE) * part.cycles for part in parts]
    if not sum(weights):
        return cycles, cycles
    scale = cycles * warps / sum(weights)
    own = [part.cycles * scale for part in parts]
    blocks = sum(part.blocks for part in parts)
    average = sum(each * part.blocks for each, part in zip(own, parts, strict=True)) / blocks
    return average, max(own)


def estimate_work(
    sheet: GpuSheet, work: Work, held: Occupancy, blocks: int, warp_cycles: float
) -> LaunchEstimate:
    """``estimate_case`` of a case in its parts."""
    return estimate_case(Case(sheet, work, held, blocks, warp_cycles))


def estimate_case(case: Case) -> LaunchEstimate:
    """The model itself.

    T = launch + (Σ T_part^5)^(1/5); docs/profiling.md says what each part is. More work of any
    kind and fewer blocks on an SM never make it shorter.
    """
    sheet, work, held, blocks = case.sheet, case.work, case.held, case.blocks
    busiest = math.ceil(blocks / sheet.sms)
    share = busiest / blocks
    resident = min(held.ctas_per_sm, busiest)
    cycles: dict[str, float] = {"issue": work.issued * share / SUB_PARTITIONS}
    lanes = {
        "fp32": sheet.rates["f32"].lanes,
        "fp64": sheet.rates["f64"].lanes,
        "integer": sheet.integer_lanes,
        "special": sheet.special_lanes,
    }
    for name, width in lanes.items():
        cycles[name] = lanes_cycles(work.units.get(name, 0.0), width) * share
    sectors_a_cycle = sheet.l1_bytes / SECTOR_BYTES
    cycles["shared memory"] = work.wavefronts * share
    cycles["L1"] = max(work.requests, work.sectors / sectors_a_cycle) * share
    cycles["latency"] = case.warp_cycles * math.ceil(busiest / resident) + case.longer_cycles
    parts = {name: count / sheet.clock_hz for name, count in cycles.items()}
    parts["tensor"] = sum(
        flops * share / _tensor_rate(sheet, name) for name, flops in work.tensor.items()
    )
    moved = work.moved_bytes
    port = L2_PORT_BYTES * sheet.clock_hz
    parts["L2"] = max(moved / sheet.l2_bandwidth, moved * share / port)
    parts["DRAM"] = dram_bytes(sheet, work) / (sheet.bandwidth * DRAM_SHARE)
    return LaunchEstimate(LAUNCH_SECONDS + p_norm(parts.values()), parts, case)


def dram_bytes(sheet: GpuSheet, work: Work) -> float:
    """Bytes from and to DRAM: the footprint once; of one that L2 cannot hold also some again.

    Of the bytes asked for beyond the footprint, L2 misses the share of the footprint that it does
    not hold.
    """
    once = work.footprint_bytes
    again = max(0.0, work.moved_bytes - once)
    missed = max(0.0, 1 - sheet.l2_bytes / once) if once else 0.0
    return once + again * missed


def work_of(
    blocks: Iterable[RunBlock], totals: Mapping[str, int], footprint_bytes: float | None
) -> Work:
    """Add up what the blocks of a launch asked for, and its memory counters."""
    units: dict[str, float] = {}
    tensor: dict[str, float] = {}
    issued = 0.0
    for block in blocks:
        for each in block.code if block.warps else ():
            cost = cost_of(each)
            issued += cost.issued * block.warps
            for name in ("fp32", "fp64", "integer", "special", "shuffles"):
                units[name] = units.get(name, 0.0) + getattr(cost, name) * block.warps
            if cost.tensor:
                tensor[cost.tensor] = tensor.get(cost.tensor, 0.0) + cost.flops * block.warps
    requests, sectors = (
        sum(_counted(totals, f"l1tex__t_{what}_pipe_lsu_mem_{space}_op_") for space in _FAR)
        for what in ("requests", "sectors")
    )
    shared = _counted(totals, "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_")
    copied = sum(_counted(totals, name) for name in _COPIED)
    asked = (sectors + copied) * SECTOR_BYTES
    footprint = asked if footprint_bytes is None else min(asked, footprint_bytes)
    wavefronts = shared + units.get("shuffles", 0.0)
    return Work(issued, units, tensor, wavefronts, requests, sectors, footprint, copied)


def with_sass(work: Work, predicted: Sequence[Predicted], totals: Mapping[str, int]) -> Work:
    """The same work with the instructions that ptxas made of it, as often as they would run.

    Operations of ``mma``, sectors and wavefronts stay those of the simulator.
    """
    units, issued = units_of(predicted)
    shared = _counted(totals, "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_")
    wavefronts = shared + units.get("shuffles", 0.0)
    return replace(work, issued=issued, units=units, wavefronts=wavefronts)


def p_norm(times: Iterable[float]) -> float:
    """A little more than the longest of several times that overlap."""
    found = list(times)
    longest = max(found, default=0.0)
    if longest == 0:
        return 0.0
    return longest * sum((each / longest) ** NORM for each in found) ** (1 / NORM)


_FAR = ("global", "local")
_COPIED = (
    "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_",
    "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_",
)
"""Counters of what bulk copies move."""


def _counted(totals: Mapping[str, int], start: str) -> float:
    return float(sum(count for name, count in totals.items() if name.startswith(start)))


def _tensor_rate(sheet: GpuSheet, name: str) -> float:
    """FLOP/s of one SM for a ``mma`` of some type; where there is no sheet's rate, the f32 one."""
    rate = sheet.rates.get(name.removesuffix(BY_WARPGROUP))
    if rate is None:
        rate = sheet.rates["f32"]
        return rate.per_cycle * rate.clock_hz
    reached = sheet.mma_share if name.endswith("tensor") else 1.0
    return rate.per_cycle * rate.clock_hz * reached
