"""SASS as a table: each instruction with its opcode, operands, predicate, unit and line of the PTX.

::

    /*00f0*/  @!P0 LDG.E.128 R4, desc[UR4][R2.64+0x10];
    SassRow(entry="k", offset=0xf0, predicate="!P0", opcode="LDG.E.128",
            operands=("R4", "desc[UR4][R2.64+0x10]"), pipe="lsu", …)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wia_compiler.base.source import Span

_INSTRUCTION = re.compile(
    r"\s+/\*(?P<offset>[0-9a-f]{4,})\*/\s+"
    r"(?:@(?P<predicate>!?U?P(?:\d+|T))\s+)?(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>.*?);$"
)
_LABEL = re.compile(r"^([\w.$]+):$")
_TARGET = re.compile(r"`?\(([\w.$]+)\)?")
_REMARK = re.compile(r"\s*\(\*.*?\*\)")
INTERNAL = "$__internal"
"""How the names of ptxas' own subroutines begin: what a division does with rare numbers."""

PIPES: Mapping[str, tuple[str, ...]] = {
    "tensor": ("HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA"),
    "fp64": ("DADD", "DFMA", "DMUL", "DSETP", "DMNMX", "CLMAD"),
    "fp16": ("HADD2", "HFMA2", "HMUL2", "HMNMX2", "HSET2", "HSETP2"),
    "fma": ("FFMA", "FADD", "FMUL", "FSWZADD", "IMAD", "IMUL", "FFMA2", "FADD2", "FMUL2"),
    "xu": (
        "MUFU", "I2F", "F2I", "F2F", "FRND", "POPC", "FLO", "BREV", "I2FP", "IDP", "F2IP",
    ),
    "lsu": (
        "LD", "LDG", "LDS", "LDL", "LDC", "LDSM", "ST", "STG", "STS", "STL", "STSM", "ATOM",
        "ATOMG", "ATOMS", "RED", "REDG", "LDGSTS", "LDGDEPBAR", "MATCH", "SHFL", "CCTL", "REDUX",
        "CREDUX", "ERRBAR", "MEMBAR", "FENCE", "LDTRAM", "QSPC", "SYNCS", "ELECT", "MOVM",
    ),
    "tma": ("UBLKCP", "UBLKPF", "UBLKRED", "UTMALDG", "UTMASTG", "UTMAPF", "UTMAREDG", "UTMACCTL"),
    "adu": ("BAR", "B2R", "R2B", "DEPBAR", "WARPSYNC", "VOTE", "S2R", "CS2R", "LEPC", "ARRIVES"),
    "cbu": (
        "BRA", "BRX", "BSSY", "BSYNC", "CALL", "EXIT", "JMP", "JMX", "RET", "BREAK", "BMOV",
        "BPT", "KILL", "NANOSLEEP", "RPCMOV", "WARPGROUP", "WARPGROUPSET", "YIELD", "ACQBULK",
    ),
    "uniform": ("R2UR", "S2UR", "VOTEU", "REDUXU"),
}  # fmt: skip
"""Opcodes by unit, named as in Nsight Compute; what is in none goes to ``alu``."""
_PIPE_OF = {opcode: pipe for pipe, opcodes in PIPES.items() for opcode in opcodes}


@dataclass(frozen=True)
class SassRow:
    """One instruction: ``offset`` bytes into its entry, ``line`` of the SASS text (from 1).

    ``predicate`` is ``P0`` or ``!P0``, empty where there is none. ``ptx_line`` is the line of the
    PTX text that it comes from (``None``: ptxas says none), ``spans`` the places of the source.
    ``labels`` stand before it: where jumps go. ``rare`` instructions are not on the
    way of ordinary numbers: subroutines of divisions and roots, and what calls them.
    """

    entry: str
    offset: int
    line: int
    predicate: str
    opcode: str
    operands: tuple[str, ...]
    pipe: str
    ptx_line: int | None = None
    spans: tuple[Span, ...] = ()
    labels: tuple[str, ...] = ()
    rare: bool = False

    @property
    def base(self) -> str:
        """The opcode without its modifiers: ``LDG``."""
        return self.opcode.partition(".")[0]

    @property
    def text(self) -> str:
        """``@!P0 LDG.E R4, [R2]``."""
        guard = f"@{self.predicate} " if self.predicate else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}".rstrip()

    def to_data(self) -> dict[str, Any]:
        """Plain data; source places as ``[line, column, end line, end column]``."""
        made = {name: getattr(self, name) for name in _PLAIN}
        made["operands"] = list(self.operands)
        made["labels"] = list(self.labels)
        made["spans"] = [list(span) for span in self.spans]
        return made


_PLAIN = ("entry", "offset", "line", "predicate", "opcode", "pipe", "ptx_line", "rare")


def pipe_of(opcode: str) -> str:
    """The unit that an opcode goes to, as Nsight Compute calls it: ``alu``, ``fma``, ``lsu`` …"""
    base = opcode.partition(".")[0]
    if base in _PIPE_OF:
        return _PIPE_OF[base]
    return "uniform" if base.startswith("U") else "alu"


def sass_rows(
    text: str,
    ptx_lines: Mapping[int, int],
    spans: Mapping[int, tuple[Span, ...]] | None = None,
) -> tuple[SassRow, ...]:
    """The rows of a SASS text as ``parse_sass`` leaves it.

    ``ptx_lines`` gives the line of the PTX for lines of the text, ``spans`` places of the source.
    """
    places = spans or {}
    rows: list[SassRow | str] = []
    entry, labels = "", list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _LABEL.match(line):
            labels.append(found[1])
            rows.append(found[1])
            if not found[1].startswith((".L_", INTERNAL)):
                entry = found[1]
        elif found := _INSTRUCTION.match(line):
            rows.append(
                SassRow(
                    entry,
                    int(found["offset"], 16),
                    number,
                    found["predicate"] or "",
                    found["opcode"],
                    tuple(split_operands(_REMARK.sub("", found["operands"]))),
                    pipe_of(found["opcode"]),
                    ptx_lines.get(number),
                    places.get(number, ()),
                    tuple(labels),
                )
            )
            labels.clear()
    return tuple(_marked(rows))


def split_operands(text: str) -> Iterator[str]:
    """``R4, desc[UR4][R2.64], c[0x0][0x28]`` in parts; commas within brackets are none."""
    depth, part = 0, ""
    for character in text:
        depth += (character in "[({") - (character in "])}")
        if character == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += character
    if part.strip():
        yield part.strip()


def target_of(row: SassRow) -> str | None:
    """The label that a jump or call goes to; ``None`` for other instructions."""
    if row.base not in ("BRA", "CALL", "BSSY", "JMP") or not row.operands:
        return None
    found = _TARGET.search(row.operands[-1])
    return found[1] if found else None


def _marked(listed: Sequence[SassRow | str]) -> Iterator[SassRow]:
    """Mark what only rare numbers reach: ptxas' subroutines, and regions that call them.

    Such a region is what a branch jumps over, the smallest one that holds the call of a subroutine:
    a branch around all that a part of the code does may stand outside of it.
    """
    rare: set[int] = set()
    regions: list[range] = []
    calls: list[int] = []
    places = {each: number for number, each in enumerate(listed) if isinstance(each, str)}
    inside = False
    for number, each in enumerate(listed):
        if isinstance(each, str):
            inside = each.startswith(INTERNAL) or (inside and each.startswith(".L_"))
            continue
        if inside:
            rare.add(number)
        if each.base == "CALL" and INTERNAL in (target_of(each) or ""):
            calls.append(number)
        label = target_of(each) if each.base == "BRA" and each.predicate else None
        regions.append(range(number + 1, places.get(label, 0) if label else 0))
    for call in calls:
        around = [region for region in regions if call in region]
        rare.update(min(around, key=len, default=range(0)))
    for number, each in enumerate(listed):
        if isinstance(each, SassRow):
            yield replace(each, rare=True) if number in rare else each
