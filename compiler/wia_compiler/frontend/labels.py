"""The blocks of a func by their labels: which lead where, and in which order to read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wia_compiler.frontend import syntax
from wia_compiler.frontend.problems import Problems


@dataclass(frozen=True)
class Labels:
    """Blocks by number, 0 being the entry.

    ``order`` holds those that control reaches, each after its ``closest``: the last block that
    every way to it passes, whose values are in sight.
    """

    numbers: Mapping[str, int]
    order: tuple[int, ...]
    closest: Mapping[int, int]


def labels_of(blocks: Sequence[syntax.Block], problems: Problems) -> Labels:
    """The labels of a func; one that stands twice and blocks nothing leads to are reported."""
    numbers: dict[str, int] = {}
    for number, block in enumerate(blocks):
        if block.label is None:
            continue
        first = numbers.setdefault(block.label.text, number)
        if first != number:
            label = blocks[first].label
            line = label.span.line if label is not None else 0
            problems.report(
                f"label ^{block.label.text} stands twice; the first is on line {line}",
                block.label.span,
                "give one of them another name",
            )
    following = [_following(block, numbers) for block in blocks]
    order = _order(following)
    if _all_known(blocks, numbers):
        _report_unreached(blocks, numbers, order, problems)
    return Labels(numbers, tuple(order), _closest(order, following))


def _all_known(blocks: Sequence[syntax.Block], numbers: Mapping[str, int]) -> bool:
    """Whether every block ends and goes to labels that exist; else that is what is said."""
    targets = (node for node in syntax.walk(blocks) if isinstance(node, syntax.Target))
    ends = (block.lines and not isinstance(block.lines[-1], syntax.Operation) for block in blocks)
    return all(ends) and all(target.label.text in numbers for target in targets)


def _report_unreached(
    blocks: Sequence[syntax.Block],
    numbers: Mapping[str, int],
    order: Sequence[int],
    problems: Problems,
) -> None:
    for number, block in enumerate(blocks):
        label = block.label
        if number in order or label is None or numbers[label.text] != number:
            continue
        hint = f"branch to it: br ^{label.text}, or remove it"
        problems.report(f"nothing leads to ^{label.text}", label.span, hint)


def _following(block: syntax.Block, numbers: Mapping[str, int]) -> list[int]:
    for line in block.lines:
        match line:
            case syntax.Branch():
                targets = [line.target]
            case syntax.ConditionalBranch():
                targets = [line.first, line.second]
            case syntax.Return():
                return []
            case _:
                continue
        found = (numbers.get(target.label.text) for target in targets)
        return [number for number in found if number is not None]
    return []


def _order(following: Sequence[Sequence[int]]) -> list[int]:
    """Reverse post-order from the entry."""
    finished: list[int] = []
    seen = {0}
    pending: list[tuple[int, list[int]]] = [(0, list(following[0]))]
    while pending:
        number, rest = pending[-1]
        if not rest:
            finished.append(number)
            pending.pop()
            continue
        each = rest.pop()
        if each not in seen:
            seen.add(each)
            pending.append((each, list(following[each])))
    return finished[::-1]


def _closest(order: Sequence[int], following: Sequence[Sequence[int]]) -> dict[int, int]:
    """Immediate dominators; Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm (2001)."""
    place = {number: index for index, number in enumerate(order)}
    sources: dict[int, list[int]] = {number: [] for number in order}
    for number in order:
        for each in following[number]:
            sources[each].append(number)
    found = {0: 0}

    def common(one: int, other: int) -> int:
        while one != other:
            while place[one] > place[other]:
                one = found[one]
            while place[other] > place[one]:
                other = found[other]
        return one

    changed = True
    while changed:
        changed = False
        for number in order[1:]:
            known = [each for each in sources[number] if each in found]
            closest = known[0]
            for each in known[1:]:
                closest = common(closest, each)
            if found.get(number) != closest:
                found[number] = closest
                changed = True
    return {number: closest for number, closest in found.items() if number}
