"""Launch bounds that cost more than they bring: where ptxas would spill for them they are lowered.

A schedule asks for so many blocks on an SM (``.minnctapersm``), which bounds a thread's registers,
or bounds these (``.maxnreg``). What it knows of registers is an estimate; ptxas, which knows, keeps
to the bound and spills. One block fewer, or 16 registers more, is then the better bargain.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from wia_compiler.backends.gpu.architecture import MAX_REGISTERS_PER_THREAD, Architecture
from wia_compiler.backends.gpu.machine_code import assembled
from wia_compiler.backends.gpu.resources import parse_usage

MOST_TRIES = 6
"""Steps by which a bound is lowered one by one; then it goes."""
_ENTRY = re.compile(r"\.entry\s+([\w$.]+)")
_BOUND = re.compile(r"^\.(minnctapersm|maxnreg)\s+(\d+)\s*$")
_THREADS = re.compile(r"^\.maxntid\s+\d+\s*$")
_MORE_REGISTERS = 16


def relax_bounds(ptx: str, log: str, architecture: Architecture) -> str:
    """The PTX with bounds lowered until no entry spills for one; its lines stay in place.

    ``log`` is what ``ptxas -v`` said of it. Without a bound ptxas chooses one by itself, and
    spills for it now and then: ``.minnctapersm 1`` leaves it all registers.
    """
    for tried in range(MOST_TRIES + 1):
        spilling = {name for name, used in parse_usage(log)[0].items() if used.spill_store_bytes}
        lowered = _lowered(ptx, spilling, drop=tried == MOST_TRIES)
        if lowered == ptx:
            return ptx
        ptx, log = lowered, assembled(lowered, architecture.name).log
    return ptx


def _lowered(ptx: str, entries: Collection[str], *, drop: bool) -> str:
    """One step less for some entries, or (``drop``, and where there is none left) no bound."""
    lines = ptx.split("\n")
    entry = ""
    for number, line in enumerate(lines):
        if found := _ENTRY.search(line):
            entry = found[1]
        elif entry in entries and _THREADS.match(line) and not _BOUND.match(lines[number + 1]):
            lines[number] = f"{line} .minnctapersm 1"
        elif entry in entries and (bound := _BOUND.match(line)):
            name, value = bound[1], int(bound[2])
            value = value - 1 if name == "minnctapersm" else value + _MORE_REGISTERS
            ends = value < 1 or value > MAX_REGISTERS_PER_THREAD
            lines[number] = "" if drop or ends else f".{name} {value}"
    return "\n".join(lines)
