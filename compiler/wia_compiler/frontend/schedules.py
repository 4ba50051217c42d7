"""``schedule`` blocks as data: which kernel they are for, and the directives with their places."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from wia_compiler.base.schedule import Directive, Entry, Schedule
from wia_compiler.frontend import syntax
from wia_compiler.frontend.problems import Problems
from wia_compiler.frontend.suggestions import did_you_mean
from wia_compiler.frontend.vocabulary import DIRECTIVES


def import_schedules(
    written: Sequence[syntax.Schedule], kernels: Collection[str], problems: Problems
) -> tuple[Schedule, ...]:
    """The schedules of a text; kernels and directives that there are not are reported.

    Axes, loops and arrays are known only once a kernel meets its arguments: they are looked up when
    it is built.
    """
    found: dict[str, Schedule] = {}
    for block in written:
        schedule = _schedule(block, problems)
        if schedule.kernel not in kernels:
            near = did_you_mean(schedule.kernel, kernels)
            hint = near or f"the text has {', '.join(kernels) or 'none'}"
            problems.report(f"no kernel {schedule.kernel!r} to schedule", block.kernel.span, hint)
        first = found.setdefault(schedule.subject, schedule)
        if first is not schedule:
            problems.report(
                f"{schedule.subject} has two schedules; the first is on line {first.span.line}",
                block.kernel.span,
                "join their lines in one block",
            )
    return tuple(found.values())


def _schedule(block: syntax.Schedule, problems: Problems) -> Schedule:
    kernel, _, nest = block.kernel.text.partition(".")
    directives = tuple(_directive(each, problems) for each in block.directives)
    return Schedule(kernel, directives, nest or None, problems.source, block.kernel.span)


def _directive(line: syntax.Directive, problems: Problems) -> Directive:
    name = line.name.text
    if name not in DIRECTIVES:
        near = did_you_mean(name, DIRECTIVES) or f"there are {', '.join(sorted(DIRECTIVES))}"
        problems.report(f"no directive {name!r}", line.name.span, near)
    entries = tuple(
        Entry(
            None if each.name is None else each.name.text,
            None if each.number is None else int(each.number.value),
            each.span,
            None if each.at is None else each.at.text,
        )
        for each in line.entries
    )
    return Directive(name, entries, line.span, None if line.level is None else line.level.text)
