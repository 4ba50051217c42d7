"""Nsight Compute's command line: how it is asked for counters, and how its CSV is read.

``ncu --csv`` prints a row for each launch and metric, ``--page source`` one for each instruction of
the SASS. Numbers come with separators of thousands; lines that begin with ``==`` are its remarks.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wia_compiler.base.errors import TargetError
from wia_compiler.base.settings import Settings

METRICS: tuple[str, ...] = (
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "smsp__thread_inst_executed_pred_on.sum",
    "smsp__sass_branch_targets_threads_divergent.sum",
    *(
        f"l1tex__t_{what}_pipe_lsu_mem_{space}_op_{op}.sum"
        for what in ("requests", "sectors")
        for space in ("global", "local")
        for op in ("ld", "st")
    ),
    *(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st")),
    *(
        f"smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum"
        for op in ("ld", "st", "ldsm")
    ),
    "lts__t_sectors.sum",
    "dram__bytes.sum",
    "gpu__time_duration.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__cycles_elapsed.avg.per_second",
)
"""What is asked of a launch."""
FORBIDDEN = "ERR_NVGPUCTRPERM"
PERMISSION = (
    "this user may not read the GPU's counters: the administrator allows it with the module option "
    "NVreg_RestrictProfilingToAdminUsers=0 (developer.nvidia.com/ERR_NVGPUCTRPERM)"
)
_EXECUTED = ("Instructions Executed", "inst_executed")
# Metrics that say a rate, a share or a duration of one launch: several are no sum.
_NO_SUM = ("pct", "ratio", "per_second", ".avg", ".max", ".min")
_UNITS = {
    "nsecond": 1e-9, "ns": 1e-9, "usecond": 1e-6, "us": 1e-6, "msecond": 1e-3, "ms": 1e-3,
    "second": 1.0, "s": 1.0, "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9,
    "hz": 1.0, "Khz": 1e3, "Mhz": 1e6, "Ghz": 1e9,
    "cycle/second": 1.0, "cycle/usecond": 1e6, "cycle/nsecond": 1e9, "cycle/msecond": 1e3,
}  # fmt: skip
"""Units to seconds, bytes and hertz."""


@dataclass
class MeasuredLaunch:
    """One launch: its kernel, and its metrics in seconds, bytes, hertz, percent or counts."""

    kernel: str
    metrics: dict[str, float] = field(default_factory=dict[str, float])


def require_ncu() -> str:
    """Where ``ncu`` is; ``TargetError`` where it is not."""
    home = Settings.read().cuda_home
    found = shutil.which("ncu") or (shutil.which("ncu", path=str(home / "bin")) if home else None)
    if found is None:
        raise TargetError(
            "counters of a GPU need Nsight Compute's ncu, which was not found on PATH or in "
            "CUDA_HOME; it comes with the CUDA toolkit"
        )
    return found


def ncu_command(ncu: str, program: Sequence[str], *, by_instruction: bool) -> list[str]:
    """The command that runs a program and prints its launches' counters, or those of the SASS."""
    command = [ncu, "--csv", "--target-processes", "all", "--kernel-name-base", "function"]
    if by_instruction:
        command += ["--section", "SourceCounters", "--page", "source", "--print-source", "sass"]
    else:
        command += ["--metrics", ",".join(METRICS), "--page", "details", "--print-units", "base"]
    return [*command, *program]


def parse_metrics(text: str) -> tuple[MeasuredLaunch, ...]:
    """The launches of ``ncu --csv --page details``, in their order.

    ``TargetError`` where the text has no such table: its remarks say why.
    """
    rows = _rows(text)
    header = next((row for row in rows if "Metric Name" in row and "ID" in row), None)
    if header is None:
        raise TargetError(f"ncu printed no metrics: {remarks_of(text)}")
    place = {name: at for at, name in enumerate(header)}
    launches: dict[str, MeasuredLaunch] = {}
    for row in rows:
        if len(row) != len(header) or row == header or not row[place["Metric Name"]]:
            continue
        number = row[place["ID"]]
        launch = launches.setdefault(number, MeasuredLaunch(row[place["Kernel Name"]]))
        value = number_of(row[place["Metric Value"]])
        if value is not None:
            unit = _UNITS.get(row[place["Metric Unit"]], 1.0)
            launch.metrics[row[place["Metric Name"]]] = value * unit
    return tuple(launches.values())


def sums_of(launches: Sequence[MeasuredLaunch]) -> dict[str, float]:
    """Metrics of a run: sums over launches; rates and shares only where there is one launch."""
    found: dict[str, float] = {}
    for launch in launches:
        for name, value in launch.metrics.items():
            if len(launches) == 1 or not any(part in name for part in _NO_SUM):
                found[name] = found.get(name, 0.0) + value
    return found


def parse_instructions(text: str) -> Mapping[tuple[str, int], int]:
    """Warps that executed each instruction, by kernel and offset, of ``--page source``.

    A table for each launch: a row with the kernel's name, a header, a row for each instruction with
    its address; offsets are counted from the first. Launches of one kernel are added up.
    ``TargetError`` where there is no table.
    """
    found: dict[tuple[str, int], int] = {}
    kernel, first = "", 0
    header: list[str] = []
    column = -1
    for row in _rows(text):
        if row[0] == "Kernel Name":
            kernel, header = row[1].partition("(")[0].strip(), []
        elif "Address" in row and "Source" in row:
            header, first = row, -1
            column = next((row.index(name) for name in _EXECUTED if name in row), -1)
            if column < 0:
                raise TargetError(f"ncu's table of instructions has no column {_EXECUTED[0]!r}")
        elif header and len(row) == len(header):
            address = _address(row[header.index("Address")])
            value = number_of(row[column])
            if address is None or value is None:
                continue
            first = address if first < 0 else first
            key = (kernel, address - first)
            found[key] = found.get(key, 0) + int(value)
    if not found:
        raise TargetError(f"ncu printed no instructions: {remarks_of(text)}")
    return found


def remarks_of(text: str) -> str:
    """What ncu said beside its tables, in a line; the permission that is missing by its name."""
    if FORBIDDEN in text:
        return PERMISSION
    remarks = [line.strip() for line in text.splitlines() if line.startswith("==")]
    return " ".join(remarks[-3:]) or "it printed nothing"


def number_of(text: str) -> float | None:
    """``1,234.5``; ``None`` for ``n/a`` and the like."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _address(text: str) -> int | None:
    try:
        return int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        return None


def _rows(text: str) -> Iterator[list[str]]:
    lines = (line for line in text.splitlines() if line.startswith('"'))
    return iter([row for row in csv.reader(lines) if row])
