"""How long one warp takes that has its SM to itself: dependences of its instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wia_compiler.profiler.gpu_costs import Cost, cost_of, latency_of
from wia_compiler.profiler.gpu_sheets import Latencies
from wia_compiler.simulators.ptx.flow import Issued, RunBlock
from wia_compiler.simulators.ptx.graph import BARRIERS
from wia_compiler.simulators.ptx.syntax import Immediate, Instruction

_SWEEPS = 8
"""Turns until loops are in their steady state: what an iteration leaves under way is known."""


@dataclass(frozen=True)
class _Left:
    """Cycles after a block's end at which results that are still under way arrive.

    ``copies`` are those of each group of ``cp.async``, the oldest first.
    """

    registers: Mapping[str, float] = field(default_factory=dict[str, float])
    copies: tuple[float, ...] = ()


def warp_cycles(blocks: Sequence[RunBlock], warps: int, far: int, times: Latencies) -> float:
    """Cycles of an average warp from its first instruction to its last.

    In a block each instruction goes as soon as what it reads is there, one a cycle at most, as
    ptxas would put them in order; a result that only a later block reads does not hold up this one.
    ``far`` is the latency of a load from global memory.
    """
    ran = [number for number, block in enumerate(blocks) if block.warps]
    costs = {number: [(each, cost_of(each)) for each in blocks[number].code] for number in ran}
    cycles = dict.fromkeys(ran, 0.0)
    left = dict.fromkeys(ran, _Left())
    order = sorted(ran, key=lambda number: blocks[number].rank)
    for _ in range(_SWEEPS):
        for number in order:
            came = [each for each in blocks[number].before if each in left]
            usual = max(came, key=lambda each: blocks[each].warps, default=None)
            before = left[usual] if usual is not None else _Left()
            cycles[number], left[number] = _walk(costs[number], before, far, times)
    return sum(cycles[number] * blocks[number].warps for number in ran) / max(warps, 1)


def _walk(
    code: Sequence[tuple[Issued, Cost]], before: _Left, far: int, times: Latencies
) -> tuple[float, _Left]:
    ready = dict(before.registers)
    groups, copied = list(before.copies), 0.0
    issued = last = stalled = 0.0
    for each, cost in code:
        instruction = each.decoded.instruction
        start = max([stalled, *(ready.get(name, 0.0) for name in each.reads)])
        opcode = instruction.opcode
        if opcode in BARRIERS:
            stalled = max(last, issued, stalled) + times.barrier
        elif opcode == "cp" and "commit_group" in instruction.modifiers:
            groups.append(copied)
            copied = 0.0
        elif opcode == "cp" and {"wait_group", "wait_all"} & set(instruction.modifiers):
            if "wait_all" in instruction.modifiers:
                groups.append(copied)
                copied = 0.0
            arrived = max(len(groups) - _pending(instruction), 0)
            stalled = max([stalled, last, *groups[:arrived]])
            groups = groups[arrived:]
        elif opcode == "cp":
            copied = max(copied, start + far)
        for name in each.writes:
            ready[name] = start + latency_of(each, cost, far, times)
        issued += cost.issued
        last = max(last, start)
    end = max(last, issued, stalled)
    under_way = {name: at - end for name, at in ready.items() if at > end}
    return end, _Left(under_way, tuple(max(0.0, at - end) for at in groups))


def _pending(instruction: Instruction) -> int:
    """How many of the newest groups a wait for copies leaves under way."""
    first = instruction.operands[0] if instruction.operands else None
    return int(first.value) if isinstance(first, Immediate) else 0
