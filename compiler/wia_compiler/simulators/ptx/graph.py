"""The blocks of an entry and the order in which a warp whose threads part ways runs them.

Of the threads of a warp, those at the block of the lowest rank run; the others wait. Ranks are a
weak topological order (Bourdoncle, "Efficient chaotic iteration strategies with widenings", 1993):
the blocks of a loop lie together, what comes after it has a higher rank, so that threads meet again
where a stack of immediate post-dominators would join them. The order of the text would not do:
compilers put the exit of a loop before its body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.source import Source
from wia_compiler.simulators.ptx.syntax import Entry, Instruction, Symbol

ENDINGS = ("bra", "brx", "ret", "exit", "trap")
BARRIERS = ("bar", "barrier")
WMMA = ("wmma.load", "wmma.mma", "wmma.store")
WHOLE_WARP = ("mma", "ldmatrix", "stmatrix", "movmatrix", "wgmma", *WMMA)
GATHERINGS = ("shfl", "vote", "match", "redux", "elect", *WHOLE_WARP)


@dataclass(frozen=True)
class BasicBlock:
    """Instructions that run one after the other: numbers ``start`` to ``stop`` (exclusive).

    ``successors`` are block numbers: of a branch, where it goes, then what follows it. ``rank``
    says who runs first.
    """

    start: int
    stop: int
    successors: tuple[int, ...]
    rank: int


def gathers(instruction: Instruction) -> bool:
    """Whether threads of a warp wait for one another here: ``shfl.sync`` …, ``bar.warp.sync``."""
    if instruction.opcode in BARRIERS:
        return "warp" in instruction.modifiers
    return instruction.opcode in GATHERINGS


def waits_for_block(instruction: Instruction) -> bool:
    """Whether it is a barrier of the threads of a block."""
    words = instruction.modifiers
    return instruction.opcode in BARRIERS and "warp" not in words and "cluster" not in words


def waits_for_phase(instruction: Instruction) -> bool:
    """Whether threads wait here for a phase of an mbarrier, or for their cluster."""
    words = instruction.modifiers
    if instruction.opcode == "mbarrier":
        return "test_wait" in words or "try_wait" in words
    return instruction.opcode == "barrier" and "cluster" in words and "wait" in words


def blocks_of(entry: Entry, source: Source) -> tuple[BasicBlock, ...]:
    """The blocks of an entry, in the order of the text; ``CompileError`` for an unknown label."""
    code = entry.instructions
    starts = _starts(entry)
    number = {start: index for index, start in enumerate(starts)}
    stops = [*starts[1:], len(code)]
    successors = [
        _successors(entry, code[stop - 1], index, number, source)
        for index, stop in enumerate(stops)
    ]
    ranks = {block: rank for rank, block in enumerate(weak_topological_order(successors))}
    return tuple(
        # What nothing leads to never runs; its rank does not matter.
        BasicBlock(start, stop, tuple(after), ranks.get(index, len(starts)))
        for index, (start, stop, after) in enumerate(zip(starts, stops, successors, strict=True))
    )


def _starts(entry: Entry) -> list[int]:
    code = entry.instructions
    starts = {0, *(place for place in entry.labels.values() if place < len(code))}
    for place, instruction in enumerate(code):
        if instruction.opcode in ENDINGS or waits_for_block(instruction):
            starts.add(place + 1)
        elif gathers(instruction) or waits_for_phase(instruction):
            starts.add(place)
    return sorted(start for start in starts if start < len(code))


def _successors(
    entry: Entry, last: Instruction, index: int, number: dict[int, int], source: Source
) -> list[int]:
    following = [index + 1] if index + 1 < len(number) else []

    def target(name: str) -> list[int]:
        place = entry.labels.get(name)
        if place is None:
            message = f"no label {name!r} in {entry.name}"
            raise CompileError([Diagnostic(message, last.span, None, source)])
        return [number[place]] if place in number else []

    if last.opcode == "bra":
        (label,) = (each for each in last.operands if isinstance(each, Symbol))
        return [*target(label.name), *(following if last.predicate else [])]
    if last.opcode == "brx":
        table = last.operands[1]
        assert isinstance(table, Symbol)
        ways = [block for name in entry.tables[table.name] for block in target(name)]
        return [*ways, *(following if last.predicate else [])]
    if last.opcode in ENDINGS:
        return following if last.predicate else []
    return following


def weak_topological_order(successors: Sequence[Sequence[int]]) -> list[int]:
    """Block numbers in a weak topological order from block 0; unreachable ones are left out."""
    order: list[int] = []
    if not successors:
        return order
    # A task is a set of blocks to put in order and where it is entered, or a block to note.
    pending: list[tuple[frozenset[int], list[int]] | int] = [
        (frozenset(range(len(successors))), [0])
    ]
    heads: set[int] = set()
    while pending:
        task = pending.pop()
        if isinstance(task, int):
            order.append(task)
            continue
        nodes, starts = task

        def follow(block: int, nodes: frozenset[int] = nodes) -> list[int]:
            return [each for each in successors[block] if each in nodes and each not in heads]

        tasks: list[tuple[frozenset[int], list[int]] | int] = []
        for head, component in _components(starts, follow):
            tasks.append(head)
            rest = component - {head}
            if rest:
                # Without the edges back to its head, a loop falls apart into smaller parts.
                heads.add(head)
                tasks.append((rest, [each for each in successors[head] if each in rest]))
        pending += reversed(tasks)
    return order


def _components(
    starts: Sequence[int], follow: Callable[[int], list[int]]
) -> list[tuple[int, frozenset[int]]]:
    """Strongly connected components reached from blocks, in topological order (Tarjan, 1972).

    Each comes with the block by which it was entered.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[tuple[int, frozenset[int]]] = []

    def open_block(block: int) -> tuple[int, list[int]]:
        index[block] = low[block] = len(index)
        stack.append(block)
        on_stack.add(block)
        return block, follow(block)

    path: list[tuple[int, list[int]]] = []
    roots = list(reversed(starts))
    while path or roots:
        if not path:
            root = roots.pop()
            if root not in index:
                path.append(open_block(root))
            continue
        block, waiting = path[-1]
        if waiting:
            after = waiting.pop()
            if after not in index:
                path.append(open_block(after))
            elif after in on_stack:
                low[block] = min(low[block], index[after])
            continue
        path.pop()
        if path:
            low[path[-1][0]] = min(low[path[-1][0]], low[block])
        if low[block] == index[block]:
            place = stack.index(block)
            members = stack[place:]
            del stack[place:]
            on_stack.difference_update(members)
            found.append((block, frozenset(members)))
    return list(reversed(found))
