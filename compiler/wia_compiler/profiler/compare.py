"""Two runs side by side, or one run's counters simulated beside measured: tables with ratios."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wia_compiler.base.errors import TargetError

if TYPE_CHECKING:
    from wia_compiler.profiler.profile import Profile

Value = int | float | str | None

MEASURED_NAMES: Mapping[str, str] = {
    "ptx_branches_divergent": "smsp__sass_branch_targets_threads_divergent.sum",
    "sass_inst_predicted": "smsp__inst_executed.sum",
}
"""What Nsight Compute calls that which is nearest to a count of ours under another name.

Counters of memory have the same names on both sides.
"""
_SHARED = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_"
_ATTRIBUTED = "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_"
_SAME = ("l1tex__t_requests", "l1tex__t_sectors", "l1tex__data_pipe_lsu_wavefronts")
_RESOURCES = (
    "registers", "shared_bytes", "spill_store_bytes", "spill_load_bytes", "occupancy",
    "occupancy_limiter", "threads_per_block", "blocks", "kernels", "instructions",
)  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """One quantity on both sides; ``ratio`` is right over left, ``None`` where that says nothing.

    ``group`` is ``time``, ``estimate``, ``resources`` or ``counters``; the sources say who counted.
    """

    group: str
    name: str
    left: Value
    right: Value
    left_source: str
    right_source: str

    @property
    def ratio(self) -> float | None:
        """Right over left."""
        left, right = self.left, self.right
        if not isinstance(left, int | float) or not isinstance(right, int | float) or not left:
            return None
        return right / left

    def to_data(self) -> dict[str, Any]:
        """Plain data."""
        return {**vars(self), "ratio": self.ratio}


@dataclass(frozen=True)
class Comparison:
    """A table: ``left`` and ``right`` name its sides, ``note`` says what is missing and why."""

    left: str
    right: str
    rows: tuple[Compared, ...]
    note: str = ""

    def __getitem__(self, name: str) -> Compared:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    def __str__(self) -> str:
        head = ["", self.left, self.right, "ratio"]
        body: list[list[str]] = []
        group = ""
        for row in self.rows:
            if row.group != group:
                group = row.group
                body.append([group, *_sources(row), ""])
            ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
            body.append([f"  {row.name}", _shown(row.left), _shown(row.right), ratio])
        widths = [max(len(row[at]) for row in (head, *body)) for at in range(4)]
        lines = [
            "  ".join(
                cell.ljust(width) if at == 0 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in (head, *body)
        ]
        return "\n".join([*lines, self.note] if self.note else lines)

    def to_data(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "left": self.left,
            "right": self.right,
            "rows": [row.to_data() for row in self.rows],
            "note": self.note,
        }

    def to_json(self) -> str:
        """``to_data`` as text."""
        return json.dumps(self.to_data(), ensure_ascii=False)


def compare_profiles(left: Profile, right: Profile) -> Comparison:
    """Time, the model's estimate, resources and counters of two runs."""
    rows: list[Compared] = []

    def add(group: str, ours: Mapping[str, Value], theirs: Mapping[str, Value], *by: str) -> None:
        for name in dict.fromkeys((*ours, *theirs)):
            rows.append(Compared(group, name, ours.get(name), theirs.get(name), *by))

    if left.time is not None or right.time is not None:
        times = ({"seconds": left.time}, {"seconds": right.time})
        add("time", *times, left.source, right.source)
    if left.estimate is not None and right.estimate is not None:
        add("estimate", _estimated(left), _estimated(right), "model", "model")
    add("resources", _resources(left), _resources(right), "ptxas", "ptxas")
    ours, theirs = ({"flops": each.flops, "bytes": each.bytes} for each in (left, right))
    add("needed by definition", ours, theirs, "IR", "IR")
    if left.counters or right.counters:
        add("counters", left.counters, right.counters, left.source, right.source)
    names = (f"{left.kernel} on {left.target}", f"{right.kernel} on {right.target}")
    if names[0] == names[1]:
        names = (names[0], "the other")
    return Comparison(*names, tuple(rows))


def compare_sources(profile: Profile) -> Comparison:
    """The counters of one run: what a simulator counts or predicts beside what a GPU counts.

    Only counters that mean the same are set beside each other: traffic of memory, divergent
    branches, and the instructions that were predicted of the SASS. Instructions of the PTX have no
    partner. Where one side is missing the note says why.
    """
    evidence = profile.evidence
    if evidence is None:
        raise TargetError(
            f"{profile.kernel} on {profile.target}: there are no counters to compare; profile a "
            "build for a GPU"
        )
    notes: list[str] = []
    simulated: dict[str, int | float] = {}
    measured: Mapping[str, int | float] = {}
    try:
        simulated = dict(evidence.simulated())
        predicted = evidence.lines().totals["sass_inst_predicted"]
        if predicted is not None:
            simulated["sass_inst_predicted"] = predicted
    except TargetError as error:
        notes.append(f"not simulated: {error}")
    try:
        measured = evidence.measured()
    except TargetError as error:
        notes.append(f"not measured: {error}")
    rows = tuple(_paired(simulated, measured))
    name = f"{profile.kernel} on {profile.target}"
    return Comparison(f"{name}, simulated", "measured", rows, "\n".join(notes))


def measured_name(name: str) -> str | None:
    """Nsight Compute's metric for a count of ours; ``None`` where it counts another thing."""
    if name in MEASURED_NAMES:
        return MEASURED_NAMES[name]
    if name.startswith(_SHARED):
        return name.replace(_SHARED, _ATTRIBUTED)
    return name if name.startswith(_SAME) and name.endswith(".sum") else None


def _paired(
    simulated: Mapping[str, int | float], measured: Mapping[str, int | float]
) -> Iterable[Compared]:
    partners: dict[str, str | None] = {name: measured_name(name) for name in simulated}
    for name, partner in partners.items():
        if partner is not None:
            source = "predicted" if name == "sass_inst_predicted" else "simulated"
            yield Compared(
                "counters", partner, simulated[name], measured.get(partner), source, "measured"
            )
    for name in measured:
        if name not in partners.values():
            yield Compared("counters", name, None, measured[name], "simulated", "measured")


def _estimated(profile: Profile) -> dict[str, Value]:
    estimate = profile.estimate
    if estimate is None:
        return {}
    parts = {f"{name} (seconds)": each for name, each in estimate.parts.items()}
    return {
        "device": estimate.device,
        "seconds": estimate.time,
        "limiter": estimate.limiter,
        **parts,
    }


def _resources(profile: Profile) -> dict[str, Value]:
    return {name: profile.resources[name] for name in _RESOURCES if name in profile.resources}


def _sources(row: Compared) -> tuple[str, str]:
    return f"({row.left_source})", f"({row.right_source})"


def _shown(value: Value) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.6g}"
