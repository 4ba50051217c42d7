"""What a kernel takes of its machine, as gauges and rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from wia_notebook.views import units

MAX_REGISTERS = 255  # of one thread on every GPU since sm_35
_SHARED_LIMITS = {"sm_80": 163, "sm_86": 99, "sm_89": 99, "sm_90": 227, "sm_100": 227, "sm_120": 99}
"""KiB of shared memory for one block (CUDA C++ Programming Guide, technical specifications)."""


@dataclass(frozen=True)
class Gauge:
    """``Registers per thread`` 54 of 255; ``fraction`` (0 to 1) fills the bar, ``None``: no bar."""

    label: str
    value: str
    of: str = ""
    fraction: float | None = None
    warning: bool = False


def gauges(resources: Mapping[str, Any]) -> list[Gauge]:
    """The resources people ask for first, each with its limit where there is one."""
    shown: list[Gauge] = []
    registers = resources.get("registers")
    if registers is not None:
        shown.append(
            Gauge(
                "Registers per thread",
                str(registers),
                f"of {MAX_REGISTERS}",
                registers / MAX_REGISTERS,
            )
        )
    shared = resources.get("shared_bytes")
    if shared is not None:
        limit = _SHARED_LIMITS.get(str(resources.get("architecture", "")).removeprefix("gpu:"))
        value = f"{shared / 1024:.3g} KiB"
        of = f"of {limit} KiB a block" if limit else "a block"
        shown.append(Gauge("Shared memory", value, of, shared / 1024 / limit if limit else None))
    occupancy = resources.get("occupancy")
    if occupancy is not None:
        limiter = resources.get("occupancy_limiter")
        of = f"limited by {limiter}" if limiter and occupancy < 1 else ""
        shown.append(Gauge("Occupancy", f"{100 * occupancy:.3g} %", of, float(occupancy)))
    spills = [resources.get(key) for key in ("spill_store_bytes", "spill_load_bytes")]
    if spills[0] is not None:
        total = sum(value or 0 for value in spills)
        text = units.size(total) if total else "none"
        shown.append(Gauge("Spills", text, "", None, bool(total)))
    return [*shown, *_of_capacities(resources), *_plain(resources)]


def _of_capacities(resources: Mapping[str, Any]) -> list[Gauge]:
    """What is there with its capacity: ``vmem_bytes`` of ``vmem_capacity_bytes``."""
    shown: list[Gauge] = []
    for key, limit in resources.items():
        used = resources.get(key.replace("_capacity", ""))
        if "_capacity" not in key or used is None or not limit:
            continue
        name = key.partition("_capacity")[0]
        label = {"vmem": "VMEM", "hbm": "HBM"}.get(name, name.replace("_", " ").capitalize())
        noun = "" if key.endswith("bytes") else key.rpartition("_")[2]
        of = f"of {value_text(key, limit)} {noun}".rstrip()
        shown.append(Gauge(label, value_text(key, used), of, used / limit))
    return shown


def _plain(resources: Mapping[str, Any]) -> list[Gauge]:
    """What has no limit to be held against."""
    cards = (("code_bytes", "Code", ""), ("vector_bits", "Vectors", "bits"))
    return [
        Gauge(label, value_text(key, resources[key]), of)
        for key, label, of in cards
        if resources.get(key) is not None
    ]


_GAUGED = {
    "registers",
    "shared_bytes",
    "occupancy",
    "occupancy_limiter",
    "spill_store_bytes",
    "spill_load_bytes",
    "code_bytes",
    "vector_bits",
}


def _is_gauged(key: str, resources: Mapping[str, Any]) -> bool:
    name, _, unit = key.replace("_capacity", "").rpartition("_")
    return key in _GAUGED or f"{name}_capacity_{unit}" in resources


def rows(resources: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Everything else, by name; nested tables are left to ``entry_table``."""
    return [
        (key.replace("_", " "), value_text(key, value))
        for key, value in resources.items()
        if not _is_gauged(key, resources) and not isinstance(value, Mapping | list | tuple)
    ] + [("warning", str(warning)) for warning in resources.get("warnings", ())]


def entry_table(resources: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """One row for each launched kernel: column titles and cells; empty where there are none."""
    entries: Mapping[str, Mapping[str, Any]] = resources.get("entries") or {}
    flat = [key for row in entries.values() for key, v in row.items() if not isinstance(v, Mapping)]
    keys = list(dict.fromkeys(flat))
    if not entries or not keys:
        return [], []
    cells = [
        [name, *(value_text(k, row.get(k, "–")) for k in keys)] for name, row in entries.items()
    ]
    return ["kernel", *(key.replace("_", " ") for key in keys)], cells


def value_text(key: str, value: Any) -> str:
    """One value with the unit that its name states."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if key.endswith("bytes"):
            return units.size(value)
        if key.endswith("_ns"):
            return units.duration(value)
        if key == "occupancy":
            return f"{100 * value:.3g} %"
        return units.number(value)
    return str(value)


def resources_html(resources: Mapping[str, Any]) -> str:
    """Gauges and rows as one table, entries as a second."""
    lines = [(g.label, f"{g.value} {g.of}".strip()) for g in gauges(resources)] + rows(resources)
    body = "".join(f"<tr><td>{escape(k)}</td><td>{escape(v)}</td></tr>" for k, v in lines)
    head, cells = entry_table(resources)
    if not cells:
        return f"<table>{body}</table>"
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    table = "".join(
        "<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in cells
    )
    return f"<table>{body}</table><table><tr>{titles}</tr>{table}</table>"
