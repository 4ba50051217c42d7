"""A schedule applied to a nest: its directives one after another, each a checked rewrite."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.func import FuncOp

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.schedule import Directive, Entry, Schedule
from wia_compiler.dialects.tile_points import holds_point_code
from wia_compiler.passes.nests.written_tiles import written_tiles
from wia_compiler.passes.scheduling.hints import all_loops, has_empty_array, loop_name
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.scheduling.register import find_directive
from wia_compiler.passes.tile_rewrites import IllegalRewrite


def apply_schedule(nest: ScheduledNest, schedule: Schedule) -> None:
    """Rewrite a nest as a schedule says, in place.

    Raises ``CompileError`` at the line of a directive that is unknown or would change results; the
    nest is then left half scheduled, and is of no more use.
    """
    if not nest.leaves() and not holds_point_code(nest.function):
        return  # arrays without elements: every schedule is one of nothing
    for each in schedule.directives:
        try:
            apply_directive(nest, each)
        except IllegalRewrite as refusal:
            raise at_its_line(refusal, schedule, each) from None


def at_its_line(
    refusal: IllegalRewrite, schedule: Schedule, directive: Directive | None = None
) -> CompileError:
    """A refusal as an error at the place of a schedule that asked for it."""
    line = schedule.span if directive is None else directive.span
    span = refusal.span if refusal.span and refusal.span.line else line
    where = None if schedule.source is None else span
    asked = f"{schedule.subject}: " if directive is None else f"{directive}: "
    message = f"{asked}{refusal}" if where is None else str(refusal)
    return CompileError([Diagnostic(message, where, refusal.hint, schedule.source)])


def apply_directive(nest: ScheduledNest, directive: Directive) -> None:
    """Apply one directive; ``IllegalRewrite`` says why it cannot be."""
    if check_written(nest.function, directive):
        return
    on_points = holds_point_code(nest.function)
    module = find_directive(directive.name, on_points=on_points)
    if on_points and module is find_directive(directive.name):
        _refuse_points(nest, directive)
    meant = without_units(nest, directive)
    if meant is not None:
        module.apply(nest, meant)


def check_written(nest: FuncOp, directive: Directive) -> bool:
    """Whether a ``tile`` line names the tiles that a nest was written in, which it then has.

    ``IllegalRewrite`` where it names other axes of such a nest: its loops take whole blocks.
    """
    sizes = written_tiles(nest)
    if not sizes or directive.name != "tile":
        return False
    for entry in directive.entries:
        if entry.name not in sizes or entry.number is None or entry.number < 1:
            raise IllegalRewrite(
                f"this nest is written in tiles of {', '.join(sizes)}",
                hint="write " + ", ".join(f"tile {name} {size}" for name, size in sizes.items()),
                span=entry.span,
            )
    return bool(directive.entries)


def _refuse_points(nest: ScheduledNest, directive: Directive) -> None:
    """Refuse to cut a loop that holds more than leaves: its other ops would not follow."""
    if directive.name not in ("tile", "thread_tile", "vectorize"):
        return
    for entry in directive.entries:
        for loop in nest.loops((entry.name or "").partition(".")[0]):
            if holds_point_code(loop):
                raise IllegalRewrite(
                    f"{loop.axis.data} holds a branch, or a number that iterations carry",
                    hint="unroll, pipeline and prefetch work on every loop",
                    span=entry.span,
                )


def _vanished(nest: ScheduledNest, directive: Directive) -> set[str]:
    """Names of a directive that may be axes without points: the kernel has an array of none."""
    if not has_empty_array(nest):
        return set()
    loops = {loop_name(each).partition(".")[0] for each in all_loops(nest)}
    named = {each.name.partition(".")[0] for each in directive.entries if each.name is not None}
    return named - {*nest.axes(), *nest.arrays(), *loops}


def without_units(nest: ScheduledNest, directive: Directive) -> Directive | None:
    """A directive without what it says of axes that have one point; ``None`` where nothing is left.

    One schedule then serves arguments of every size: ``tile i 32, j 32`` is ``tile j 32`` for a
    matrix of one row, and ``reorder i, j`` is nothing.
    """
    units = set(nest.unit_axes()) - set(nest.arrays()) | _vanished(nest, directive)
    if not units:
        return directive
    entries: list[Entry] = []
    for each in directive.entries:
        if each.name is not None and each.name.partition(".")[0] in units:
            continue
        at_unit = each.at is not None and each.at.partition(".")[0] in units
        entries.append(replace(each, at=None) if at_unit else each)
    needed = 2 if directive.name == "reorder" and len(entries) < len(directive.entries) else 1
    if directive.entries and len(entries) < needed:
        return None
    return replace(directive, entries=tuple(entries))
