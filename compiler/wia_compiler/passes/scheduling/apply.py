"""A schedule applied to a nest: its directives one after another, each a checked rewrite."""

from __future__ import annotations

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.schedule import Directive, Schedule
from wia_compiler.dialects.tile_points import holds_point_code
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.scheduling.register import find_directive
from wia_compiler.passes.tile_rewrites import IllegalRewrite


def apply_schedule(nest: ScheduledNest, schedule: Schedule) -> None:
    """Rewrite a nest as a schedule says, in place.

    Raises ``CompileError`` at the line of a directive that is unknown or would change results; the
    nest is then left half scheduled, and is of no more use.
    """
    for each in schedule.directives:
        try:
            apply_directive(nest, each)
        except IllegalRewrite as refusal:
            span = refusal.span if refusal.span and refusal.span.line else each.span
            where = None if schedule.source is None else span
            message = f"{each}: {refusal}" if where is None else str(refusal)
            told = Diagnostic(message, where, refusal.hint, schedule.source)
            raise CompileError([told]) from None


def apply_directive(nest: ScheduledNest, directive: Directive) -> None:
    """Apply one directive; ``IllegalRewrite`` says why it cannot be."""
    on_points = holds_point_code(nest.function)
    find_directive(directive.name, on_points=on_points).apply(nest, directive)
