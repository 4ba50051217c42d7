"""Changes of one number or line in a schedule that was applied, as text to apply next.

``build.schedule`` has a block for each nest; an edit changes the one block that has what it looks
for, and leaves the others as they are. Where several have it, or none, there is no edit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from wia_compiler.base.errors import CompileError
from wia_compiler.base.schedule import Directive, Entry, Schedule
from wia_compiler.base.source import Source
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.problems import Problems
from wia_compiler.frontend.schedules import import_schedules

Sizes = Mapping[str, int]
Edit = Callable[[Schedule], "Schedule | None"]


def read_blocks(text: str) -> tuple[Schedule, ...]:
    """The blocks of a text that ``build.schedule`` printed; none where it cannot be read."""
    try:
        tree = parse(Source(text, "<schedule>"))
        problems = Problems(tree.source)
        named = {each.kernel.text.partition(".")[0] for each in tree.schedules}
        found = import_schedules(tree.schedules, named, problems)
        problems.raise_any()
    except CompileError:
        return ()
    return found


def edited(text: str, edit: Edit) -> str | None:
    """The text with the one block changed that ``edit`` has a change for, else ``None``."""
    blocks = read_blocks(text)
    changed = [edit(block) for block in blocks]
    if sum(each is not None for each in changed) != 1:
        return None
    return "\n".join(
        str(after if after is not None else before)
        for before, after in zip(blocks, changed, strict=True)
        if (after or before).directives
    )


def sizes_of(schedule: Schedule, name: str) -> dict[str, int]:
    """The numbers of a directive by axis; those of the first line where there are several."""
    for line in schedule.directives:
        if line.name == name:
            return {each.name: each.number for each in line.entries if each.name and each.number}
    return {}


def with_sizes(schedule: Schedule, name: str, sizes: Sizes) -> Schedule:
    """The same schedule with other numbers in a directive, which is appended where it is absent."""
    made: list[Directive] = []
    found = False
    for line in schedule.directives:
        if line.name == name and not found:
            found = True
            entries = tuple(
                replace(each, number=sizes.get(each.name or "", each.number))
                for each in line.entries
            )
            line = replace(line, entries=entries)
        made.append(line)
    if not found:
        made.append(Directive(name, tuple(Entry(axis, size) for axis, size in sizes.items())))
    return replace(schedule, directives=tuple(made))


def with_line(schedule: Schedule, name: str, *entries: Entry) -> Schedule | None:
    """The same schedule with one more directive; ``None`` where it has one of that name."""
    if any(line.name == name for line in schedule.directives):
        return None
    line = Directive(name, entries)
    return replace(schedule, directives=(*schedule.directives, line))


def by_tensor_cores(schedule: Schedule, *entries: Entry) -> Schedule | None:
    """A product by matrix units, whose tiles are not those of threads: the target chooses them."""
    used = with_line(schedule, "use_tensor_cores", *entries)
    return replace(used, directives=used.directives[-1:]) if used is not None else None


def smaller_thread_tile(schedule: Schedule) -> Schedule | None:
    """Half the points of a thread along its longest axis: fewer registers, more threads.

    A block that would have more than 1024 threads then takes half as much of that axis.
    """
    each, block = sizes_of(schedule, "thread_tile"), sizes_of(schedule, "tile")
    axis = max(each, key=lambda name: each[name], default=None)
    if axis is None or each[axis] < 2:
        return None
    halved = {**each, axis: each[axis] // 2}
    made = with_sizes(schedule, "thread_tile", halved)
    if _threads(block, halved) > 1024 and axis in block:
        made = with_sizes(made, "tile", {**block, axis: block[axis] // 2})
    return made


def larger_thread_tile(schedule: Schedule) -> Schedule | None:
    """Twice the points of a thread along its shortest axis of a product: loads are used oftener.

    The block keeps its tile and has half the threads; one of a single warp takes twice the tile.
    """
    block = sizes_of(schedule, "tile")
    each = sizes_of(schedule, "thread_tile") or dict.fromkeys(list(block)[:2], 1)
    kept = [name for name in each if block.get(name, 0) >= each[name]]
    axis = min(kept, key=lambda name: each[name], default=None)
    if len(each) < 2 or axis is None or 2 * each[axis] > 16:
        return None
    doubled = {**each, axis: 2 * each[axis]}
    made = with_sizes(schedule, "thread_tile", doubled)
    if _threads(block, doubled) < 32 or block[axis] < doubled[axis]:
        made = with_sizes(made, "tile", {**block, axis: 2 * block[axis]})
    return made


def smaller_tile(schedule: Schedule) -> Schedule | None:
    """Half of a block along its longest axis that threads share: twice as many blocks."""
    block, each = sizes_of(schedule, "tile"), sizes_of(schedule, "thread_tile")
    shared = {name: size for name, size in block.items() if name in each or not each}
    fitting = {name: size for name, size in shared.items() if size >= 2 * each.get(name, 1)}
    axis = max(fitting, key=lambda name: fitting[name], default=None)
    if axis is None:
        return None
    half = block[axis] // 2
    if _threads({**shared, axis: half}, each) < 32:
        return None
    return with_sizes(schedule, "tile", {**block, axis: half})


def smaller_fold(schedule: Schedule) -> Schedule | None:
    """Half of what a block has of a folded axis at a time: half the shared memory."""
    block, each = sizes_of(schedule, "tile"), sizes_of(schedule, "thread_tile")
    folded = [name for name in block if name not in each]
    if not each or len(folded) != 1 or block[folded[0]] < 16:
        return None
    return with_sizes(schedule, "tile", {**block, folded[0]: block[folded[0]] // 2})


def wider_access(count: int) -> Edit:
    """Neighbours for each thread along the last axis: accesses of up to 16 bytes."""

    def edit(schedule: Schedule) -> Schedule | None:
        block, each = sizes_of(schedule, "tile"), sizes_of(schedule, "thread_tile")
        axis = next(reversed(block), None)
        if axis is None or len(block) > 1 or each.get(axis, 1) > 1:
            return None
        made = with_sizes(schedule, "tile", {axis: block[axis] * count})
        return with_sizes(made, "thread_tile", {axis: count})

    return edit


def along_the_last_axis(schedule: Schedule) -> Schedule | None:
    """The threads of a block along the last axis, where neighbours lie next to one another."""
    block, each = sizes_of(schedule, "tile"), sizes_of(schedule, "thread_tile")
    axes = list(block)
    longest = max(axes, key=lambda name: block[name], default=None)
    if len(axes) < 2 or each or longest is None or longest == axes[-1] or block[axes[-1]] >= 32:
        return None
    swapped = {**block, axes[-1]: block[longest], longest: block[axes[-1]]}
    return with_sizes(schedule, "tile", swapped)


def _threads(block: Sizes, each: Sizes) -> int:
    """Threads of a block: the axes that threads share, over what each takes."""
    shared = [name for name in block if name in each or not each]
    count = 1
    for name in shared:
        count *= max(1, block[name] // each.get(name, 1))
    return count
