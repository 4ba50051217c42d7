"""How long one warp takes that has its SM to itself: its SASS in the order of ptxas."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wia_compiler.backends.gpu.sass_table import SassRow, target_of
from wia_compiler.profiler.gpu_sheets import Latencies
from wia_compiler.profiler.sass_counts import Predicted

_SWEEPS = 8
"""Turns until loops are in their steady state: what an iteration leaves under way is known."""
_REGISTER = re.compile(r"\b(U?R)(\d+)(\.64)?|\b(U?P\d)\b")
_NO_RESULT = (
    "ST", "STG", "STS", "STL", "STSM", "RED", "REDG", "BRA", "BRX", "BAR", "EXIT", "BSSY", "BSYNC",
    "LDGSTS", "LDGDEPBAR", "DEPBAR", "CALL", "RET", "NOP", "MEMBAR", "CCTL", "WARPSYNC", "UTMALDG",
)  # fmt: skip
_ENDS = ("BRA", "BRX", "EXIT", "RET", "JMP")


@dataclass(frozen=True)
class _Step:
    """One instruction: registers that it reads and writes, and cycles until they are written."""

    row: SassRow
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    latency: int


@dataclass
class _Block:
    """Instructions between jumps; ``before`` are the blocks that control comes from."""

    steps: list[_Step]
    warps: float
    before: list[int] = field(default_factory=list[int])


@dataclass(frozen=True)
class _Left:
    """Cycles after a block's end at which results arrive, and those of groups of copies."""

    registers: Mapping[str, float] = field(default_factory=dict[str, float])
    copies: tuple[float, ...] = ()


def sass_warp_cycles(
    predicted: Sequence[Predicted], warps: int, far: int, times: Latencies
) -> float:
    """Cycles of an average warp from its first instruction to its last.

    Instructions are issued one a cycle and in order: one that waits for what it reads holds up all
    behind it. ``far`` is the latency of a load from global memory.
    """
    blocks = _blocks_of([each for each in predicted if not each.row.rare], far, times)
    cycles = [0.0] * len(blocks)
    left = [_Left()] * len(blocks)
    for _ in range(_SWEEPS):
        for number, block in enumerate(blocks):
            usual = max(block.before, key=lambda each: blocks[each].warps, default=None)
            before = left[usual] if usual is not None else _Left()
            cycles[number], left[number] = _walk(block.steps, before, far, times)
    spent = sum(spent * block.warps for spent, block in zip(cycles, blocks, strict=True))
    return spent / max(warps, 1)


def _blocks_of(predicted: Sequence[Predicted], far: int, times: Latencies) -> list[_Block]:
    groups: list[list[Predicted]] = []
    for each in predicted:
        ended = bool(groups) and groups[-1][-1].row.base in _ENDS
        if not groups or ended or each.row.labels:
            groups.append([])
        groups[-1].append(each)
    blocks = [
        _Block(
            [_step(each.row, far, times) for each in group],
            statistics.median(each.warps for each in group),
        )
        for group in groups
    ]
    begins = {label: number for number, group in enumerate(groups) for label in group[0].row.labels}
    for number, group in enumerate(groups):
        last = group[-1].row
        goes_on = last.base not in _ENDS or bool(last.predicate)
        if goes_on and number + 1 < len(blocks):
            blocks[number + 1].before.append(number)
        label = target_of(last) if last.base in ("BRA", "JMP") else None
        if label in begins:
            blocks[begins[label]].before.append(number)
    return blocks


def _walk(steps: Sequence[_Step], before: _Left, far: int, times: Latencies) -> tuple[float, _Left]:
    ready = dict(before.registers)
    groups, copied = list(before.copies), 0.0
    now = 0.0
    for step in steps:
        start = max([now, *(ready.get(name, 0.0) for name in step.reads)])
        base = step.row.base
        if base == "BAR":
            start += times.barrier
        elif base == "LDGSTS":
            copied = max(copied, start + far)
        elif base == "LDGDEPBAR":
            groups.append(copied)
            copied = 0.0
        elif base == "DEPBAR":
            arrived = max(len(groups) - _pending(step.row), 0)
            start = max([start, *groups[:arrived]])
            groups = groups[arrived:]
        for name in step.writes:
            ready[name] = start + step.latency
        now = start + 1
    under_way = {name: at - now for name, at in ready.items() if at > now}
    return now, _Left(under_way, tuple(max(0.0, at - now) for at in groups))


def _pending(row: SassRow) -> int:
    """How many of the newest groups a wait for copies leaves under way: ``DEPBAR.LE SB0, 0x1``."""
    last = row.operands[-1] if row.operands else "0x0"
    return int(last, 16) if last.startswith("0x") else 0


def _step(row: SassRow, far: int, times: Latencies) -> _Step:
    results = 0 if row.base in _NO_RESULT else _results(row.operands)
    writes: list[str] = []
    for operand in row.operands[:results]:
        writes += _named(operand, _width(row))
    stored = _width(row) if row.base in ("ST", "STG", "STS") else 1
    reads: list[str] = []
    for number, operand in enumerate(row.operands[results:], start=results):
        reads += _named(operand, stored if number == len(row.operands) - 1 else 1)
    if row.predicate:
        reads.append(row.predicate.removeprefix("!"))
    return _Step(row, tuple(reads), tuple(writes), _latency(row, far, times))


def _results(operands: Sequence[str]) -> int:
    """How many of the first operands are written: one, or a register and a predicate."""
    kinds = ["P" if re.fullmatch(r"!?U?P[\dT]", each) else "R" for each in operands[:3]]
    if len(kinds) >= 2 and kinds[0] != kinds[1]:
        return 2
    if len(kinds) >= 2 and kinds[:2] == ["P", "P"]:
        return 2
    return min(len(kinds), 1)


def _named(operand: str, width: int) -> list[str]:
    """Registers of an operand: ``R4`` with those behind it, both of ``R2.64``, ``P0``."""
    found: list[str] = []
    for kind, number, pair, predicate in _REGISTER.findall(operand):
        if predicate:
            found.append(predicate)
            continue
        count = 2 if pair else width
        found += [f"{kind}{int(number) + each}" for each in range(count)]
    return found


def _width(row: SassRow) -> int:
    """Registers of a result."""
    words = row.opcode.split(".")
    if row.pipe == "tensor":
        return 2 if row.opcode.endswith(".F16") else 4
    if "128" in words or words[-1] == "4":
        return 4
    wide = {"64", "WIDE"} & set(words) or row.pipe == "fp64" or words[-1] == "2"
    pair = row.base == "CS2R" and "32" not in words
    return 2 if wide or pair or "F64" in words[1:2] else 1


def _latency(row: SassRow, far: int, times: Latencies) -> int:
    match row.pipe:
        case "lsu":
            if row.base in ("LDG", "LD", "ATOM", "ATOMG", "RED", "REDG"):
                return far
            if row.base in ("LDS", "LDL", "LDSM", "ATOMS"):
                return times.shared
            return times.shuffle
        case "xu" | "adu":
            return times.special
        case "tensor":
            return times.tensor
        case "fp64":
            return times.double
        case "uniform":
            return 2 * times.arithmetic
        case _:
            return times.arithmetic
