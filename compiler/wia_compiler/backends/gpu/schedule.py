"""The default schedule: how each nest is dealt out over blocks, warps and threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.choice import Choice
from wia_compiler.backends.gpu.launch import BLOCK_SIZE, MIN_BLOCKS
from wia_compiler.backends.gpu.schedule_attention import (
    attention_as_written,
    is_attention,
    schedule_attention,
)
from wia_compiler.backends.gpu.schedule_contraction import schedule_contraction
from wia_compiler.backends.gpu.schedule_elementwise import schedule_elementwise
from wia_compiler.backends.gpu.schedule_points import schedule_points, split_phases
from wia_compiler.backends.gpu.schedule_rows import schedule_rows
from wia_compiler.backends.gpu.schedule_user import REFUSED, schedule_as_written
from wia_compiler.base.errors import Diagnostic, TargetError
from wia_compiler.base.record import Decision, Level
from wia_compiler.base.schedule import APPLIED, Schedule
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.tile_points import holds_point_code
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.schedule import nests_of, refuse_directives, user_schedules
from wia_compiler.passes.scheduling.apply import at_its_line
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite, leaves_of


@dataclass(frozen=True)
class SchedulePass:
    """Schedule every nest by what it holds: point code, a contraction, reductions, or neither.

    Each schedule gives the number of threads of a block and says in a decision what it chose and
    from which numbers.
    """

    architecture: Architecture

    name: ClassVar[str] = "schedule"
    level: ClassVar[Level] = "mid"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Rewrite each ``wia.nest`` function in place."""
        split_phases(module)
        nests = nests_of(module)
        written = user_schedules(nests, context)
        for nest in nests:
            if not is_attention(nest):
                _refuse_mixed(nest, context)
            subjects = tuple(filter(None, (context.id_of(nest),)))
            name, own = nest.sym_name.data, written.get(nest.sym_name.data)
            subject = ScheduledNest(nest, context.facts)
            if own is None or not own.directives:
                chosen = choose(nest, self.architecture)
            else:
                chosen = _as_written(subject, own, context, self.architecture)
            numbers = {"threads": chosen.threads, **chosen.numbers}
            if chosen.directives is not None:
                numbers[APPLIED] = "; ".join(map(str, chosen.directives))
            context.decisions.append(
                Decision("schedule", name, True, chosen.reason, numbers, subjects)
            )
            context.decisions += [
                Decision("warning", name, True, each, {}, subjects) for each in subject.warnings
            ]
            nest.attributes[BLOCK_SIZE] = IntegerAttr(chosen.threads, i64)
            if chosen.min_blocks is not None:
                nest.attributes[MIN_BLOCKS] = IntegerAttr(chosen.min_blocks, i64)


def _as_written(
    nest: ScheduledNest, schedule: Schedule, context: PassContext, architecture: Architecture
) -> Choice:
    """As a user's schedule says; ``CompileError`` for a line that a GPU cannot follow."""
    refuse_directives(schedule, context, REFUSED)
    try:
        if is_attention(nest.function):
            return attention_as_written(nest, schedule.directives, architecture)
        return schedule_as_written(nest, schedule.directives)
    except IllegalRewrite as refusal:
        raise at_its_line(refusal, schedule) from None


def choose(nest: FuncOp, architecture: Architecture) -> Choice:
    """Schedule one nest by what it holds."""
    kinds = {leaf.kind.data for leaf in leaves_of(nest)}
    if is_attention(nest):
        return schedule_attention(nest, architecture)
    if holds_point_code(nest):
        return schedule_points(nest)
    if kinds & {"contract", "window"}:
        return schedule_contraction(nest)
    if "reduce" in kinds:
        return schedule_rows(nest, architecture)
    return schedule_elementwise(nest, architecture)


def _refuse_mixed(nest: FuncOp, context: PassContext) -> None:
    """Raise ``TargetError`` for a nest of both sorts: its leaves' axes are not dealt out here."""
    if not holds_point_code(nest) or not leaves_of(nest):
        return
    span = next(iter(spans_of(nest)), None)
    name = nest.sym_name.data
    message = f"a gpu cannot run {name} yet: it mixes leaves with loops that compute by points"
    hint = 'build this kernel for "cpu", or keep that op in a kernel of its own'
    raise TargetError(Diagnostic(message, span, hint, context.source).render())
