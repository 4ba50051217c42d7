"""``schedule=``: what a caller may give, as the schedules of one kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from wia_compiler.base.errors import ArgumentError, CompileError, Diagnostic
from wia_compiler.base.schedule import Schedule as Schedule
from wia_compiler.base.source import Source, Span

GivenSchedule: TypeAlias = "str | Schedule | Sequence[Schedule] | None"

DEFAULT = "default"
"""What leaves it to the target, whatever the text says."""
_BLOCK = re.compile(r"^\s*schedule\b", re.MULTILINE)
_NAME = "<schedule>"


def read_schedules(given: GivenSchedule, kernel: str) -> tuple[Schedule, ...] | None:
    """The schedules of a kernel; ``None`` where nothing is given.

    ``given`` is a text of ``schedule`` blocks or of directives alone, a ``Schedule`` or several, or
    ``"default"``. ``ArgumentError`` where blocks are for other kernels alone, ``CompileError`` with
    every fault of a text.
    """
    if given is None:
        return None
    found = _read(given, kernel)
    own = tuple(each for each in found if each.kernel == kernel)
    if found and not own:
        others = ", ".join(sorted({each.kernel for each in found}))
        raise ArgumentError(
            f"schedule=: it is for {others}, this kernel is {kernel}\n"
            f"  help: write schedule {kernel} {{ … }}, or the directives alone"
        )
    return own


def read_program_schedules(
    given: GivenSchedule, kernels: Sequence[str]
) -> dict[str, tuple[Schedule, ...]]:
    """The schedules of each kernel of a program that some are given for.

    Directives alone are for the only kernel; ``ArgumentError`` where there are several.
    """
    if given is None:
        return {}
    if given == DEFAULT:
        return dict.fromkeys(kernels, ())
    is_lines = isinstance(given, str) and not _BLOCK.search(given)
    if is_lines and len(kernels) != 1:
        raise ArgumentError(
            f"schedule=: directives for which of {', '.join(kernels)}?\n"
            "  help: write schedule KERNEL { … }"
        )
    found = _read(given, kernels[0], kernels)
    for each in found:
        if each.kernel not in kernels:
            raise ArgumentError(
                f"schedule=: no kernel {each.kernel!r}, expected one of {', '.join(kernels)}"
            )
    return {
        name: tuple(each for each in found if each.kernel == name)
        for name in dict.fromkeys(each.kernel for each in found)
    }


def _read(
    given: str | Schedule | Sequence[Schedule], kernel: str, kernels: Sequence[str] = ()
) -> tuple[Schedule, ...]:
    if isinstance(given, Schedule):
        return (given,)
    if isinstance(given, str):
        return () if given == DEFAULT else _parse(given, kernel, kernels)
    listed = tuple(given) if isinstance(given, Sequence) else ()  # pyright: ignore[reportUnnecessaryIsInstance]
    if not listed or not all(isinstance(each, Schedule) for each in listed):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(
            f"schedule=: got a {type(given).__name__}, expected text or wia.Schedule\n"
            '  help: write schedule="tile i 128, j 128", or "default"'
        )
    return listed


def _parse(text: str, kernel: str, kernels: Sequence[str]) -> tuple[Schedule, ...]:
    """The schedules of a text; lines alone stand in a block that is put around them."""
    from wia_compiler.frontend.dsl import parse
    from wia_compiler.frontend.problems import Problems
    from wia_compiler.frontend.schedules import import_schedules

    is_block = bool(_BLOCK.search(text)) or not text.strip()
    down = 0 if is_block else 1
    whole = text if is_block else f"schedule {kernel} {{\n{text}\n}}"
    written = Source(text, _NAME)
    if not text.strip():
        return (Schedule(kernel, source=written),)
    try:
        tree = parse(Source(whole, _NAME))
        problems = Problems(tree.source)
        named = {each.kernel.text.partition(".")[0] for each in tree.schedules}
        found = import_schedules(tree.schedules, {*named, *kernels}, problems)
        problems.raise_any()
    except CompileError as error:
        raise CompileError(
            [_moved_fault(each, written, down) for each in error.diagnostics]
        ) from None
    return tuple(_moved(each, written, down) for each in found)


def _moved_fault(fault: Diagnostic, source: Source, down: int) -> Diagnostic:
    span = None if fault.span is None else _up(fault.span, down)
    return replace(fault, span=span, source=source)


def _moved(schedule: Schedule, source: Source, down: int) -> Schedule:
    """A schedule whose places are those of the text that was given."""
    directives = tuple(
        replace(
            each,
            span=_up(each.span, down),
            entries=tuple(replace(entry, span=_up(entry.span, down)) for entry in each.entries),
        )
        for each in schedule.directives
    )
    span = directives[0].span if down and directives else schedule.span
    return replace(schedule, directives=directives, source=source, span=span)


def _up(span: Span, lines: int) -> Span:
    line = max(1, span.line - lines)
    return Span(line, span.column, max(line, span.end_line - lines), span.end_column)
