"""SASS text from what nvdisasm prints, with the PTX line that each instruction came from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_PTX_LINE = re.compile(r'//## File "\.nv_debug_ptx_txt", line (\d+)')
_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*$")
_LABEL = re.compile(r"^\s*(\.L_\w+|[\w$]+):\s*$")
_SELF_BRANCH = re.compile(r"BRA\s+`?\(?(\.L_\w+)")


@dataclass(frozen=True)
class Sass:
    """``text`` as shown, and for its lines (from 1) the line of the PTX text."""

    text: str
    ptx_lines: Mapping[int, int]


def parse_sass(disassembly: str) -> Sass:
    """Keep labels and instructions of ``nvdisasm -c -gp``; drop the padding after the last one.

    A cubin's code ends in a branch to itself and NOPs, which nothing ever reaches.
    """
    lines: list[str] = []
    ptx_lines: dict[int, int] = {}
    section: list[tuple[str, int | None]] = []
    current: int | None = None

    def close() -> None:
        for text, ptx_line in _without_padding(section):
            lines.append(text)
            if ptx_line is not None:
                ptx_lines[len(lines)] = ptx_line
        section.clear()

    for line in disassembly.splitlines():
        if found := _PTX_LINE.search(line):
            current = int(found[1])
        elif found := _INSTRUCTION.match(line):
            section.append((f"        /*{found[1]}*/  {found[2]};", current))
        elif line.startswith("//-----"):
            close()
            current = None
        elif found := _LABEL.match(line):
            section.append((f"{found[1]}:", None))
    close()
    return Sass("\n".join(lines) + "\n" if lines else "", ptx_lines)


def _without_padding(section: list[tuple[str, int | None]]) -> list[tuple[str, int | None]]:
    kept = list(section)
    while kept and (kept[-1][0].endswith("NOP;") or kept[-1][0].endswith(":")):
        kept.pop()
    if len(kept) >= 2 and (found := _SELF_BRANCH.search(kept[-1][0])):
        target = f"{found[1]}:"
        if kept[-2][0] == target:
            kept = kept[:-2]
    return kept
