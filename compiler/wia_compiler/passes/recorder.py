"""Runs passes and keeps what each of them did: text, op table, decisions, time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from wia_compiler.base.record import Decision, Level, OpRow, Stage
from wia_compiler.base.signature import KernelSignature
from wia_compiler.dialects.text import LinePrinter
from wia_compiler.passes.framework import Pass, PassContext
from wia_compiler.passes.recording.provenance import OpsBefore
from wia_compiler.passes.recording.rows import TypeTexts, count_ops, line_spans, op_table
from wia_compiler.passes.recording.source_stage import source_stage
from wia_compiler.passes.verifier import verify_high_level
from wia_compiler.passes.verify_tile import verify_tile

if TYPE_CHECKING:
    from wia_compiler.passes.stage_check import StageCheck

_Fingerprint: TypeAlias = "tuple[Any, ...]"


@dataclass
class Recorder:
    """The stages of one compilation so far; ``module`` is rewritten in place by ``run``.

    ``verify_always`` verifies the IR after every pass; otherwise where ``run`` is told to.
    ``check`` runs what each pass leaves, once it is there. Without ``records`` there are no stages:
    passes are run, and that is all.
    """

    module: ModuleOp
    context: PassContext
    verify_always: bool = False
    stages: list[Stage] = field(default_factory=list[Stage])
    check: StageCheck | None = None
    records: bool = True

    def __post_init__(self) -> None:
        self._before = OpsBefore()
        self._fingerprint: _Fingerprint = ()
        self._types = TypeTexts()

    def begin(self, signature: KernelSignature) -> None:
        """Record the kernel's own text and what was imported from it."""
        if self.records:
            self.stages.append(source_stage(signature))
            self.note("import", "high")

    def note(self, name: str, level: Level, time_ns: int = 0) -> Stage:
        """Record the module as it stands, as the stage ``name``."""
        fingerprint = _fingerprint(self.module)
        last = self.stages[-1] if self.stages else None
        if last is not None and fingerprint == self._fingerprint and last.level == level:
            stage = self._unchanged(last, name, time_ns)
        else:
            stage = self._changed(last, name, level, time_ns)
        self._fingerprint = fingerprint
        self.stages.append(stage)
        self._clear()
        return stage

    def run(self, step: Pass, *, verify: bool = False) -> None:
        """Run a pass and record what it left; only the pass itself is timed.

        An error of the pass carries the name of the stage in its notes.
        """
        started = time.perf_counter_ns()
        try:
            step.run(self.module, self.context)
        except Exception as error:
            error.add_note(f"in stage {step.name!r} of kernel {self.context.kernel!r}")
            raise
        time_ns = time.perf_counter_ns() - started
        if self.verify_always or (verify and self.records):
            self._verify(step.name, step.level)
        if not self.records:
            self._clear()
            return
        if self.check is not None:
            self.context.decisions += self.check.after(step.name, step.level, self.module)
        self.note(step.name, step.level, time_ns)

    def _clear(self) -> None:
        self.context.decisions.clear()
        self.context.copied_tokens.clear()

    def _verify(self, name: str, level: Level) -> None:
        try:
            self.module.verify()
            if level == "high":
                verify_high_level(self.module, self.context.kernel, name)
            elif level == "mid":
                verify_tile(self.module)
        except VerifyException as error:
            error.add_note(f"stage {name!r} of kernel {self.context.kernel!r} left invalid IR")
            raise

    def _unchanged(self, last: Stage, name: str, time_ns: int) -> Stage:
        rows = tuple(replace(row, origins=(row.id,)) for row in last.ops)
        decisions = tuple(self.context.decisions)
        return Stage(
            name,
            last.level,
            last.language,
            last.text,
            time_ns,
            rows,
            decisions,
            changed=False,
            summary="no change",
            line_spans=last.line_spans,
        )

    def _changed(self, last: Stage | None, name: str, level: Level, time_ns: int) -> Stage:
        printer = LinePrinter()
        printer.print_op(self.module)
        self._before.copied_tokens = dict(self.context.copied_tokens)
        table = op_table(
            self.module, self.context.kernel, level, printer, self._before, self._types
        )
        self._before = OpsBefore(table.ids, table.parents, arguments=table.arguments)
        self.context.ids = {id(op): number for op, number in table.ids.items()}
        decisions = tuple(self.context.decisions)
        return Stage(
            name,
            level,
            "mlir",
            printer.text,
            time_ns,
            table.rows,
            decisions,
            changed=True,
            summary=summary(last, level, table.rows, decisions),
            line_spans={} if level == "high" else line_spans(printer.lines),
        )


def summary(
    last: Stage | None, level: Level, rows: Sequence[OpRow], decisions: Sequence[Decision]
) -> str:
    """The few words that a ribbon shows: ``9 → 4 ops``, ``2 loops``."""
    if level != "high":
        return _nest_summary(rows)
    count = count_ops(rows)
    before = count_ops(last.ops) if last is not None and last.level == "high" else count
    if count != before:
        return f"{before} → {_counted(count, 'op')}"
    rewrites = sum(1 for decision in decisions if decision.kind == "rewrite")
    return _counted(rewrites, "rewrite") if rewrites else _counted(count, "op")


def _nest_summary(rows: Sequence[OpRow]) -> str:
    names = Counter(row.name for row in rows)
    loops = sum(1 for row in rows if row.family == "loop")
    leaves = names["tile.compute"]
    parts = [_counted(loops, "loop")]
    if leaves:
        parts.append(f"{leaves} leaf" if leaves == 1 else f"{leaves} leaves")
    if not loops and not leaves:
        parts = [_counted(len(rows), "op")]
    return ", ".join(parts)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _fingerprint(module: ModuleOp) -> _Fingerprint:
    """Equal for two states of a module only if nothing that is printed changed in between.

    Ops are compared by identity: the fingerprint holds them, so none is taken for another.
    """
    return tuple(_op_state(op) for op in module.walk())


def _op_state(op: Operation) -> _Fingerprint:
    return (
        op,
        tuple(op.operands),
        tuple(result.type for result in op.results),
        tuple(op.properties.values()),
        tuple(op.attributes.values()),
        tuple(arg.type for region in op.regions for block in region.blocks for arg in block.args),
        op.parent,
        tuple(op.successors),
    )
