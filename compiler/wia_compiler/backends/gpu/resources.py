"""What ptxas says a kernel takes, and the occupancy that follows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.cubin import INSTRUCTION_BYTES, instruction_count
from wia_compiler.backends.gpu.launch import Launch
from wia_compiler.backends.gpu.occupancy import occupancy

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_BARRIERS = re.compile(r"used (\d+) barriers")
_WARNING = re.compile(r"(?:warning\s*:|info\s*:\s*(?=\(C\d+\)))\s*(.*)")
"""Warnings, and remarks with a number: of serialised ``wgmma`` ptxas tells as information."""

_PEAKS = (
    "registers", "shared_bytes", "static_shared_bytes", "dynamic_shared_bytes", "stack_bytes",
)  # fmt: skip


@dataclass(frozen=True)
class EntryUsage:
    """One entry of a cubin: registers a thread, shared bytes a block, other bytes a thread."""

    registers: int = 0
    shared_bytes: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    barriers: int = 0


def parse_usage(log: str) -> tuple[dict[str, EntryUsage], tuple[str, ...]]:
    """Read the log of ``ptxas -v``: usage for each entry, and the warnings."""
    fields: dict[str, dict[str, int]] = {}
    warnings: list[str] = []
    current: dict[str, int] = {}
    for line in log.splitlines():
        if found := _ENTRY.search(line):
            current = fields.setdefault(found[1], {})
        elif found := _STACK.search(line):
            names = ("stack_bytes", "spill_store_bytes", "spill_load_bytes")
            current.update(zip(names, map(int, found.groups()), strict=True))
        elif found := _USED.search(line):
            current["registers"] = int(found[1])
            for name, pattern in (("shared_bytes", _SHARED), ("barriers", _BARRIERS)):
                if value := pattern.search(line):
                    current[name] = int(value[1])
        elif found := _WARNING.search(line):
            warnings.append(found[1].strip())
    return {name: EntryUsage(**values) for name, values in fields.items()}, tuple(warnings)


def resources_of(
    architecture: Architecture,
    launches: Sequence[Launch],
    log: str | None,
    *,
    cubin: bytes | None = None,
) -> dict[str, Any]:
    """What ``build.resources`` shows: the worst of all entries on top, each entry below.

    An entry's ``blocks`` are those of one of its ``launches``, which are all alike.

    ``log`` is what ptxas printed, ``None`` where it is absent: then only what the compiler itself
    knows is there. ``cubin`` adds the size of the code.
    """
    shown: dict[str, Any] = {
        "architecture": architecture.name,
        "kernels": len(launches),
        "threads_per_block": max((launch.threads for launch in launches), default=0),
        "blocks": sum(launch.blocks for launch in launches),
    }
    if log is None:
        return shown
    usage, warnings = parse_usage(log)
    counts = Counter(launch.entry for launch in launches)
    entries = {
        launch.entry: {
            **_entry(architecture, launch, usage[launch.entry]),
            "launches": counts[launch.entry],
        }
        for launch in launches
    }
    if entries:
        rows = list(entries.values())
        for name in _PEAKS:
            shown[name] = max(row[name] for row in rows)
        for name in ("spill_store_bytes", "spill_load_bytes"):
            shown[name] = sum(row[name] for row in rows)
        worst = min(rows, key=lambda row: row["occupancy"])
        for name in ("occupancy", "occupancy_limiter", "ctas_per_sm"):
            shown[name] = worst[name]
    if cubin is not None:
        shown["instructions"] = instruction_count(cubin)
        shown["code_bytes"] = shown["instructions"] * INSTRUCTION_BYTES
    shown["warnings"] = list(warnings)
    shown["entries"] = entries
    return shown


def _entry(architecture: Architecture, launch: Launch, usage: EntryUsage) -> dict[str, Any]:
    shared = usage.shared_bytes + launch.dynamic_shared_bytes
    held = occupancy(architecture, launch.threads, registers=usage.registers, shared_bytes=shared)
    return {
        "registers": usage.registers,
        "shared_bytes": shared,
        "static_shared_bytes": usage.shared_bytes,
        "dynamic_shared_bytes": launch.dynamic_shared_bytes,
        "stack_bytes": usage.stack_bytes,
        "spill_store_bytes": usage.spill_store_bytes,
        "spill_load_bytes": usage.spill_load_bytes,
        "barriers": usage.barriers,
        "threads_per_block": launch.threads,
        "blocks": launch.blocks,
        "occupancy": held.ratio,
        "occupancy_limiter": held.limiter,
        "ctas_per_sm": held.ctas_per_sm,
        "warps_per_sm": held.warps_per_sm,
        "limits": held.limits,
        **_parts(launch),
    }


def _parts(launch: Launch) -> dict[str, str]:
    """``merged``: the kernels of a merged launch and their blocks; nothing of any other."""
    if not launch.parts:
        return {}
    return {"merged": ", ".join(f"{part.entry} {part.blocks}" for part in launch.parts)}
