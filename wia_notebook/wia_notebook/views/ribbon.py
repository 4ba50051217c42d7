"""The pipeline as a row of steps, in the order data flows."""

from __future__ import annotations

from dataclasses import dataclass

from wia_compiler.base.record import Stage, Trace

from wia_notebook.views import units

_TITLES = {
    "ptx": "PTX",
    "sass": "SASS",
    "llvm": "LLVM",
    "x86": "x86",
    "aarch64": "AArch64",
    "tpu": "TPU",
    "cse": "CSE",
    "dce": "DCE",
}


@dataclass(frozen=True)
class Step:
    """One box: title, the level it opens (else empty), what it did and how long it took."""

    name: str
    title: str
    level: str
    opens_level: str
    detail: str
    time: str
    changed: bool


def steps(trace: Trace) -> list[Step]:
    """One step for each stage."""
    made: list[Step] = []
    previous = ""
    for stage in trace.stages:
        made.append(
            Step(
                stage.name,
                title(stage.name),
                stage.level,
                stage.level if stage.level != previous else "",
                detail(stage),
                units.duration(stage.time_ns) if stage.time_ns else "",
                stage.changed,
            )
        )
        previous = stage.level
    return made


def title(stage_name: str) -> str:
    """``infer-shapes`` → ``infer shapes``; ``ptx`` → ``PTX``."""
    return _TITLES.get(stage_name, stage_name.replace("-", " ").replace("_", " "))


def detail(stage: Stage) -> str:
    """What the step did, in a few words."""
    if not stage.changed:
        return "no change"
    return stage.summary or units.plural(stage.text.count("\n"), "line")
