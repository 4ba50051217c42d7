"""The record of one compilation: plain data, all that notebooks, command line and tests look at."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from wia_compiler.base.source import Span

Level = Literal["source", "high", "mid", "low", "machine"]
Family = Literal["contraction", "elementwise", "reduction", "movement", "fusion", "loop", "other"]


@dataclass(frozen=True)
class OpRow:
    """One op of a stage.

    ``id`` is unique in its stage (``"7"``); ``origins`` are ids of the ops of the stage before
    that it came from; ``operands`` are ids of producing ops, or ``"arg:NAME"`` for a parameter.
    ``parent`` is the id of the op whose region holds it (``None`` at the top of the kernel).
    ``line`` is the line of the stage's text on which the op is printed (from 1; 0: not printed).
    ``name`` is the op's full name (``wia.conv2d``) and ``label`` what a graph shows (``conv2d``).
    ``names`` are what the text calls its results. ``block`` names the block that holds it in a
    function of several (``head``, else empty); ``successors`` the blocks that a branch leads to,
    where its condition is true first. An argument of such a block is a row too
    (``block.argument``): its operands are what branches pass for it.
    """

    id: str
    name: str
    label: str
    family: Family
    operands: tuple[str, ...] = ()
    result_type: str = ""
    spans: tuple[Span, ...] = ()
    origins: tuple[str, ...] = ()
    parent: str | None = None
    line: int = 0
    flops: int = 0
    size_bytes: int = 0
    block: str = ""
    successors: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """One choice a pass made: ``taken`` or refused, why, and the numbers it was made from.

    ``subjects`` are the ids of the ops it is about (in the stage *before* the pass) and
    ``candidate`` how a table shows them (``conv2d → add``).
    """

    kind: str
    candidate: str
    taken: bool
    reason: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict[str, float | int | str])
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage:
    """The program after one step of the pipeline.

    ``language`` says how to highlight ``text``: wia, mlir, llvm, x86, ptx, sass or tpu.
    ``changed`` is false when the step left the program as it was; ``summary`` is the few words
    the ribbon shows (``9 → 4 ops``). ``line_spans`` maps lines of ``text`` (from 1) to the source
    spans they came from, for texts that have no op table (assembly), and ``made_of`` to the line
    of the stage before, where that is known (SASS to PTX).
    """

    name: str
    level: Level
    language: str
    text: str
    time_ns: int = 0
    ops: tuple[OpRow, ...] = ()
    decisions: tuple[Decision, ...] = ()
    changed: bool = True
    summary: str = ""
    line_spans: Mapping[int, tuple[Span, ...]] = field(
        default_factory=dict[int, "tuple[Span, ...]"]
    )
    made_of: Mapping[int, int] = field(default_factory=dict[int, int])

    def op(self, id: str) -> OpRow:
        """The row with that id; raises ``KeyError`` where there is none."""
        for row in self.ops:
            if row.id == id:
                return row
        raise KeyError(id)


@dataclass(frozen=True)
class Trace:
    """An ordered record of how one kernel came about for one specialisation and target."""

    kernel: str
    signature: str
    target: str
    source: str
    stages: tuple[Stage, ...] = ()
    source_name: str = "<wia>"

    def stage(self, name: str) -> Stage:
        """The stage of that name; ``KeyError`` lists the names that exist."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        names = ", ".join(stage.name for stage in self.stages)
        raise KeyError(f"no stage {name!r}; there are: {names}")

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Every decision of every stage, in order."""
        return tuple(decision for stage in self.stages for decision in stage.decisions)

    def to_json(self) -> str:
        """The whole record as JSON; ``Trace.from_json`` reads it back to an equal record."""
        return json.dumps(self, default=vars, ensure_ascii=False, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Trace:
        """Read what ``to_json`` wrote."""
        data: dict[str, Any] = json.loads(text)
        stages = tuple(_stage(stage) for stage in data.pop("stages"))
        return Trace(stages=stages, **data)


def stages_to_json(stages: Sequence[Stage]) -> str:
    """Stages without the rest of their record; ``stages_from_json`` reads them back."""
    return json.dumps(stages, default=vars, ensure_ascii=False, separators=(",", ":"))


def stages_from_json(text: str) -> tuple[Stage, ...]:
    """Read what ``stages_to_json`` wrote."""
    return tuple(_stage(stage) for stage in json.loads(text))


def _stage(data: dict[str, Any]) -> Stage:
    ops = tuple(_op_row(row) for row in data.pop("ops"))
    decisions = tuple(_decision(decision) for decision in data.pop("decisions"))
    line_spans = {int(line): _spans(spans) for line, spans in data.pop("line_spans").items()}
    made_of = {int(line): of for line, of in data.pop("made_of", {}).items()}
    return Stage(ops=ops, decisions=decisions, line_spans=line_spans, made_of=made_of, **data)


def _op_row(data: dict[str, Any]) -> OpRow:
    return OpRow(
        spans=_spans(data.pop("spans")),
        operands=tuple(data.pop("operands")),
        origins=tuple(data.pop("origins")),
        successors=tuple(data.pop("successors", ())),
        names=tuple(data.pop("names", ())),
        **data,
    )


def _decision(data: dict[str, Any]) -> Decision:
    return Decision(subjects=tuple(data.pop("subjects")), **data)


def _spans(rows: list[list[int]]) -> tuple[Span, ...]:
    return tuple(Span(*row) for row in rows)
