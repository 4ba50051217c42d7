"""How often each SASS instruction would run: its static place, and the simulated count of its line.

No GPU ran it: that is a prediction and never called anything else. It holds as far as ptxas keeps
what the PTX says. Where ptxas unrolled a loop, a line of the PTX stands in the SASS several times;
each copy then takes its share of the line's count, and says so. Where ptxas made predicates of a
branch, all warps that come to the branch run what it would have jumped over.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from wia_compiler.backends.gpu.sass_table import SassRow
from wia_compiler.simulators.ptx.counters import LineCounts
from wia_compiler.simulators.ptx.flow import Flow

PREDICATED = "the branch became predicates"
NO_LINE = "no line of the PTX: once for each warp"


def copies_note(copies: int) -> str:
    """What is said of a line that ptxas copied."""
    return f"approximate: {copies} copies in the SASS"


@dataclass(frozen=True)
class Predicted:
    """A row of the SASS and how many warps would run it; ``notes`` say where that is a guess."""

    row: SassRow
    warps: float
    notes: tuple[str, ...] = ()


class CountedEntry(Protocol):
    """A launch, or several added up."""

    @property
    def lines(self) -> Mapping[int, LineCounts]:
        """Counts by line of the PTX."""
        ...


_ONE_FOR_ONE: tuple[tuple[str, frozenset[str], frozenset[str]], ...] = tuple(
    (opcode, frozenset(words.split()), frozenset(bases.split()))
    for opcode, words, bases in (
        ("ld", "global", "LDG LD"), ("ld", "shared", "LDS"), ("ld", "local", "LDL"),
        ("st", "global", "STG ST"), ("st", "shared", "STS"), ("st", "local", "STL"),
        ("atom", "global", "ATOMG ATOM REDG RED"), ("red", "global", "REDG RED ATOMG"),
        ("atom", "shared", "ATOMS"), ("red", "shared", "ATOMS"),
        ("ldmatrix", "", "LDSM"), ("stmatrix", "", "STSM"), ("cp", "async", "LDGSTS"),
        ("bar", "sync", "BAR"), ("barrier", "sync", "BAR"), ("shfl", "", "SHFL"),
        ("fma", "f32", "FFMA FFMA2"), ("mul", "f32", "FMUL FMUL2"),
        ("add", "f32", "FADD FADD2"), ("sub", "f32", "FADD FADD2"),
        ("fma", "f64", "DFMA"), ("mul", "f64", "DMUL"), ("add", "f64", "DADD"),
        ("ex2", "approx", "MUFU"), ("lg2", "approx", "MUFU"), ("rsqrt", "approx", "MUFU"),
        ("max", "f32", "FMNMX"), ("min", "f32", "FMNMX"),
    )
)  # fmt: skip
"""Instructions of the PTX that are one of the SASS: opcode, words that it has, what it becomes."""
_JUMPS = frozenset(("BRA", "BRX", "EXIT", "RET", "BREAK", "BSYNC", "BSSY", "JMP", "WARPSYNC"))


def predict(
    rows: Sequence[SassRow], lines: Mapping[int, LineCounts], flow: Flow | None
) -> tuple[Predicted, ...]:
    """The rows of one entry, each with how many warps would run it.

    ``lines`` are what a launch of the entry counted (or several, added up), ``flow`` is how one
    went through its code: it tells which lines share a block. ``rare`` rows count 0.
    """
    copies = _copies(rows, lines, flow)
    reached = _reached_by_predicates(rows, lines, flow)
    made: list[Predicted] = []
    for row in rows:
        count, notes = 0.0, list[str]()
        if row.rare:
            pass
        elif row.ptx_line is None:
            count = float(flow.warps) if flow is not None else 0.0
            notes.append(NO_LINE)
        elif (line := lines.get(row.ptx_line)) is not None:
            many = copies.get(row.ptx_line, 1)
            warps = max(line.warps, reached.get(row.ptx_line, 0))
            count = warps / many
            if many > 1:
                notes.append(copies_note(many))
            if warps > line.warps:
                notes.append(PREDICATED)
        made.append(Predicted(row, count, tuple(notes)))
    return tuple(made)


def units_of(predicted: Iterable[Predicted]) -> tuple[dict[str, float], float]:
    """Warp instructions by unit of the model, and all that are issued."""
    units: dict[str, float] = {}
    issued = 0.0
    for each in predicted:
        issued += each.warps
        unit = unit_of(each.row)
        if unit is not None:
            units[unit] = units.get(unit, 0.0) + each.warps
    return units, issued


def unit_of(row: SassRow) -> str | None:
    """The model's unit of an instruction; ``None`` for those that only take a place of issue.

    Multiplications of integers share the pipe of f32's; they are counted with the other integers.
    """
    match row.pipe:
        case "fma" | "fp16":
            return "integer" if row.base in ("IMAD", "IMUL") else "fp32"
        case "alu":
            return "integer"
        case "fp64":
            return "fp64"
        case "xu":
            return "special"
        case "lsu":
            return "shuffles" if row.base in ("SHFL", "MATCH", "REDUX", "CREDUX") else None
        case _:
            return None


def made_predicates(line: LineCounts, rows: Iterable[SassRow]) -> bool:
    """Whether a branch of the PTX has no jump among its rows of the SASS."""
    is_branch = line.text.partition(".")[0] == "bra" and line.branches > 0
    return is_branch and not any(row.base in _JUMPS for row in rows)


def _becomes(text: str) -> frozenset[str]:
    opcode, *words = text.split(".")
    for name, wanted, bases in _ONE_FOR_ONE:
        if name == opcode and wanted <= set(words):
            return bases
    return frozenset()


def _copies(
    rows: Sequence[SassRow], lines: Mapping[int, LineCounts], flow: Flow | None
) -> dict[int, int]:
    """How often each line of the PTX stands in the SASS; lines that do once are absent.

    Instructions that become one of the SASS are counted; the others of their block are taken to
    have been copied as often.
    """
    found: dict[int, int] = {}
    by_line = rows_by_line(rows)
    for number, line in lines.items():
        bases = _becomes(line.text)
        if bases:
            listed = by_line.get(number, ())
            count = sum(not row.rare and row.base in bases for row in listed)
            if count:
                found[number] = count
    for block in flow.blocks if flow is not None else ():
        assert flow is not None
        inside = [flow.code[at].instruction.span.line for at in range(block.start, block.stop)]
        known = [found[number] for number in inside if number in found]
        usual = statistics.median_low(known) if known else 1
        for number in inside:
            found.setdefault(number, usual)
    return {number: count for number, count in found.items() if count > 1}


def _reached_by_predicates(
    rows: Sequence[SassRow], lines: Mapping[int, LineCounts], flow: Flow | None
) -> dict[int, int]:
    """Warps that come to a branch which became predicates, by line of what it jumped over."""
    if flow is None:
        return {}
    by_line = rows_by_line(rows)
    comes_from: dict[int, list[int]] = {}
    for number, block in enumerate(flow.blocks):
        for after in block.successors:
            comes_from.setdefault(after, []).append(number)
    found: dict[int, int] = {}
    for number, block in enumerate(flow.blocks):
        last = flow.code[block.stop - 1].instruction.span.line
        line = lines.get(last)
        if line is None or not made_predicates(line, by_line.get(last, ())):
            continue
        for after in block.successors:
            if comes_from[after] == [number]:
                inside = flow.blocks[after]
                for at in range(inside.start, inside.stop):
                    found[flow.code[at].instruction.span.line] = flow.ran[number]
    return found


def rows_by_line(rows: Iterable[SassRow]) -> dict[int, list[SassRow]]:
    """The rows of each line of the PTX."""
    found: dict[int, list[SassRow]] = {}
    for row in rows:
        if row.ptx_line is not None:
            found.setdefault(row.ptx_line, []).append(row)
    return found
