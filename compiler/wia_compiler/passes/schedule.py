"""The stage ``schedule`` as every target runs it: the user's blocks, or what the target chooses."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.record import Decision
from wia_compiler.base.schedule import APPLIED, Directive, Schedule
from wia_compiler.dialects.tile import YieldOp
from wia_compiler.dialects.tile_points import holds_point_code
from wia_compiler.dialects.walk import walk
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.nests.writer import NEST
from wia_compiler.passes.nests.written_tiles import PARTS, written_tiles
from wia_compiler.passes.scheduling.apply import apply_schedule
from wia_compiler.passes.scheduling.fit import warn_of_limits
from wia_compiler.passes.scheduling.nest import CPU_MEMORY, MemoryNames, ScheduledNest
from wia_compiler.passes.tile_rewrites import leaves_of

Numbers = Mapping[str, float | int | str]


@dataclass(frozen=True)
class Chosen:
    """What a target chose for a nest: its directives, why, and the numbers it chose from.

    A nest that stays as it is has no directives, and the reason says why.
    """

    directives: tuple[Directive, ...] = ()
    reason: str = ""
    numbers: Numbers = field(default_factory=dict[str, float | int | str])


def nests_of(module: ModuleOp) -> list[FuncOp]:
    """The nest functions of a module, in order."""
    return [op for op in module.body.block.ops if isinstance(op, FuncOp) and NEST in op.attributes]


def schedule_nests(
    module: ModuleOp,
    context: PassContext,
    choose: Callable[[FuncOp], Chosen],
    *,
    finish: Callable[[FuncOp], Sequence[Directive]] | None = None,
    memory: MemoryNames = CPU_MEMORY,
    refused: Mapping[str, str] | None = None,
) -> None:
    """Schedule every nest of a module in place.

    A block of the user's takes the place of what ``choose`` gives for a nest and ``finish`` for the
    nest as that leaves it; both are applied by the same code. ``refused`` maps names of directives
    that the target cannot follow to the reason. Each nest leaves a decision with the directives,
    and one more for each warning. ``CompileError`` where a block names no nest, or one of its lines
    is illegal.
    """
    nests = nests_of(module)
    written = user_schedules(nests, context)
    for nest in _fusing_first(nests, written):
        own = written.get(nest.sym_name.data)
        if nest.parent is None:
            _refuse_absorbed(nest, own)
            continue
        chosen = Chosen(own.directives, "as the schedule says") if own else choose(nest)
        schedule = own or Schedule(context.kernel, chosen.directives, nest.sym_name.data)
        if own is not None and refused:
            refuse_directives(own, context, refused)
        subjects = tuple(filter(None, (context.id_of(nest),)))
        name = nest.sym_name.data
        subject = ScheduledNest(nest, context.facts, memory)
        apply_schedule(subject, schedule)
        if own is None and finish is not None:
            last = Schedule(context.kernel, tuple(finish(nest)), name)
            apply_schedule(subject, last)
            schedule = replace(last, directives=schedule.directives + last.directives)
        if own is not None:
            warn_of_limits(subject)
        numbers = {**chosen.numbers, APPLIED: "; ".join(map(str, schedule.directives))}
        taken = bool(schedule.directives)
        context.decisions.append(
            Decision("schedule", name, taken, chosen.reason, numbers, subjects)
        )
        for warning in subject.warnings:
            context.decisions.append(Decision("warning", name, True, warning, {}, subjects))


def _fusing_first(nests: Sequence[FuncOp], written: Mapping[str, Schedule]) -> Sequence[FuncOp]:
    """Nests that take others into them come first: those are then still as they were written."""
    fusing = {
        name
        for name, each in written.items()
        if any(line.name == "fuse_at" for line in each.directives)
    }
    return sorted(nests, key=lambda nest: nest.sym_name.data not in fusing)


def _refuse_absorbed(nest: FuncOp, own: Schedule | None) -> None:
    """A nest that another computes inside of itself has no schedule of its own."""
    if own is None:
        return
    raise CompileError(
        [
            Diagnostic(
                f"{nest.sym_name.data} is computed inside of another nest by fuse_at",
                own.span if own.source is not None else None,
                "write its lines after fuse_at, with the array's name before its axes: x_i",
                own.source,
            )
        ]
    )


def user_schedules(nests: Sequence[FuncOp], context: PassContext) -> dict[str, Schedule]:
    """The user's blocks by the names of the nests that they are for.

    ``CompileError`` where a block names a nest that there is not, or the kernel alone where it has
    several. Nests that only fill or copy an array (the zeros that an output begins as), or join the
    parts that another one leaves, do not count beside one that computes.
    """
    names = [nest.sym_name.data for nest in nests]
    alone = [nest.sym_name.data for nest in nests if _computes(nest)]
    alone = alone if len(alone) == 1 else names
    found: dict[str, Schedule] = {}
    faults: list[Diagnostic] = []
    for schedule in context.options.schedules:
        if schedule.nest is None and not schedule.directives:
            found |= dict.fromkeys(names, schedule)  # the loops as they are, all of them
            continue
        name = alone[0] if schedule.nest is None and len(alone) == 1 else schedule.nest
        fault = _fault(schedule, name, names, found)
        if fault is not None:
            faults.append(fault)
        elif name is not None:
            found[name] = schedule
    if faults:
        raise CompileError(faults)
    return found


def _computes(nest: FuncOp) -> bool:
    """Whether a nest does more than fill an array with a number, copy one, or join parts."""
    if "parts" in written_tiles(nest, PARTS):
        return False
    return holds_point_code(nest) or any(
        leaf.folds or any(op.operands and not isinstance(op, YieldOp) for op in walk(leaf.body))
        for leaf in leaves_of(nest)
    )


def _fault(
    schedule: Schedule, name: str | None, names: Sequence[str], found: Mapping[str, Schedule]
) -> Diagnostic | None:
    kernel = schedule.kernel
    listed = ", ".join(f"{kernel}.{each}" for each in names)
    span = schedule.span if schedule.source is not None else None
    if not names:
        return Diagnostic(f"{kernel} has no loops to schedule", span, None, schedule.source)
    if name is None:
        message = f"{kernel} runs as {len(names)} nests: which of them is meant?"
        return Diagnostic(message, span, f"name one: {listed}", schedule.source)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {kernel}.{near[0]}?" if near else f"there are {listed}"
        return Diagnostic(f"{kernel} has no nest {name!r}", span, hint, schedule.source)
    if name in found:
        message = f"nest {name!r} has two schedules"
        return Diagnostic(message, span, "join their lines in one block", schedule.source)
    return None


def refuse_directives(schedule: Schedule, context: PassContext, refused: Mapping[str, str]) -> None:
    """Raise ``CompileError`` for every directive that a target cannot follow, with its reason."""
    faults = [
        Diagnostic(
            f"{each.name}: {refused[each.name]}",
            each.span if schedule.source is not None else None,
            f"leave the line out, or build for another target than {context.facts.name}",
            schedule.source,
        )
        for each in schedule.directives
        if each.name in refused
    ]
    if faults:
        raise CompileError(faults)
