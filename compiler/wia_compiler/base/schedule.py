"""A schedule as data: what a ``schedule`` block of a text says, and what a target chose by itself.

``str(schedule)`` prints it as the language reads it, so that what a compiler chose can be pasted
into a cell and changed::

    schedule mm {
        tile i 128, j 128, k 32 @block;
        pack B at k.0;
    }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wia_compiler.base.record import Decision
from wia_compiler.base.source import Source, Span

APPLIED = "schedule"
"""The number of a decision of stage ``schedule`` that holds the directives, on one line."""
NOWHERE = Span(0, 0, 0, 0)
"""Where a directive stands that nobody wrote: a target chose it."""


@dataclass(frozen=True)
class Entry:
    """``i 128``, ``A``, ``4``, ``B at k.0``: what one part of a directive names, and its number.

    ``at`` names the loop where it is to happen. At least one of ``name`` and ``number`` is given.
    """

    name: str | None = None
    number: int | None = None
    span: Span = field(default=NOWHERE, compare=False)
    at: str | None = None

    def __str__(self) -> str:
        parts = [self.name, None if self.number is None else str(self.number)]
        place = None if self.at is None else f"at {self.at}"
        return " ".join(part for part in (*parts, place) if part is not None)


@dataclass(frozen=True)
class Directive:
    """``tile i 128, j 128 @block``: a line of a schedule; ``level`` is what stands after ``@``."""

    name: str
    entries: tuple[Entry, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    level: str | None = None

    def __str__(self) -> str:
        entries = ", ".join(map(str, self.entries))
        level = None if self.level is None else f"@{self.level}"
        return " ".join(part for part in (self.name, entries, level) if part)


@dataclass(frozen=True)
class Schedule:
    """The directives of one nest of a kernel, in the order in which they are applied.

    ``nest`` is ``None`` where the block names the kernel alone, which speaks of its only nest.
    ``span`` is where the block names them, ``source`` the text that it stands in (``None``: nobody
    wrote it).
    """

    kernel: str
    directives: tuple[Directive, ...] = ()
    nest: str | None = None
    source: Source | None = field(default=None, compare=False)
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def subject(self) -> str:
        """What the block names: ``KERNEL`` or ``KERNEL.NEST``."""
        return self.kernel if self.nest is None else f"{self.kernel}.{self.nest}"

    def __str__(self) -> str:
        if not self.directives:
            return f"schedule {self.subject} {{}}"
        lines = "\n".join(f"    {directive};" for directive in self.directives)
        return f"schedule {self.subject} {{\n{lines}\n}}"


def directive(
    name: str, *entries: Entry | str | Mapping[str, int], level: str | None = None
) -> Directive:
    """A directive that a target writes.

    A text is a name without a number, a mapping gives names their numbers:
    ``directive("tile", {"i": 128, "j": 128})`` is ``tile i 128, j 128`` and
    ``directive("reorder", "j", "i")`` is ``reorder j, i``.
    """
    listed: list[Entry] = []
    for each in entries:
        if isinstance(each, Mapping):
            listed += [Entry(axis, number) for axis, number in each.items()]
        else:
            listed.append(Entry(each) if isinstance(each, str) else each)
    return Directive(name, tuple(listed), level=level)


def schedule_text(kernel: str, decisions: Sequence[Decision]) -> str:
    """What was applied to each nest of a kernel, as blocks that the language reads.

    A reason stands above its block; warnings are comments in it. A nest that a target schedules
    without directives is a comment alone.
    """
    nests = [each for each in decisions if each.kind == "schedule"]
    blocks: list[str] = []
    for each in nests:
        comment = f"# {each.candidate}: {each.reason}\n" if each.reason else ""
        if APPLIED not in each.numbers:
            blocks.append(comment.rstrip())
            continue
        applied = str(each.numbers[APPLIED])
        # A nest that another was fused into was not the only one.
        is_only = len(nests) == 1 and "fuse_at" not in applied
        subject = kernel if is_only else f"{kernel}.{each.candidate}"
        told = [
            f"    # {other.reason}"
            for other in decisions
            if other.kind == "warning" and other.candidate == each.candidate
        ]
        lines = [f"    {line};" for line in applied.split("; ") if line]
        body = "\n".join([*told, *lines])
        blocks.append(
            f"{comment}schedule {subject} {{\n{body}\n}}"
            if body
            else f"{comment}schedule {subject} {{}}"
        )
    return "\n\n".join(filter(None, blocks))
