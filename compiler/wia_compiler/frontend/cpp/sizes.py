"""How large arrays are, from the ranges of the indices that their elements are named with.

In ``for (int i = 0; i < N; i++) c[i] = a[i];`` both have N elements. An index ``i + 3`` of a loop
below N reaches to N + 3 at most, which names no size; another access has to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.context import Access, Loop

Dim = int | str | None

# How far bounds of bounds are followed: tiles of tiles of tiles of tiles.
_DEEPEST = 8


@dataclass(frozen=True)
class Linear:
    """``sum of coefficient * name, plus number``."""

    terms: tuple[tuple[str, int], ...]
    number: int

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """``self + factor * other``."""
        terms = dict(self.terms)
        for name, coefficient in other.terms:
            terms[name] = terms.get(name, 0) + factor * coefficient
        kept = tuple(sorted((name, each) for name, each in terms.items() if each))
        return Linear(kept, self.number + factor * other.number)


@dataclass(frozen=True)
class Extent:
    """What the accesses of one axis of an array say about its size.

    ``names`` are the sizes that an index runs up to, ``number`` the largest index plus one where
    all of them are numbers.
    """

    names: tuple[str, ...]
    number: int | None


def extents(
    accesses: Sequence[Access], array: str, rank: int, sizes: Collection[str]
) -> list[Extent]:
    """The extent of each axis of an array; ``sizes`` are the names that may be sizes."""
    found: list[Extent] = []
    for axis in range(rank):
        names: dict[str, None] = {}
        numbers: list[int] = []
        is_known = True
        for access in accesses:
            if access.array != array or access.subscripts is None:
                continue
            limits = list(_limits(access.subscripts[axis], access.loops))
            plain = [x.terms[0][0] for x in limits if x.number == 0 and _is_name(x, sizes)]
            names |= dict.fromkeys(plain)
            constants = [each.number for each in limits if not each.terms]
            numbers += constants[:1]
            is_known = is_known and bool(constants)
        found.append(Extent(tuple(names), max(numbers) if numbers and is_known else None))
    return found


def linear(node: syntax.Expression) -> Linear | None:
    """An index as a sum, or ``None`` for what is none."""
    match node:
        case syntax.Number():
            return Linear((), int(node.value))
        case syntax.Name():
            return Linear(((node.text, 1),), 0)
        case syntax.Group():
            return linear(node.inner)
        case syntax.Unary() if node.operator.text == "-":
            inner = linear(node.operand)
            return None if inner is None else Linear((), 0).plus(inner, -1)
        case syntax.Call(syntax.Name("tensor.cast"), (first, _)):
            return linear(first.value)
        case syntax.Binary():
            return _linear_binary(node)
        case _:
            return None


def _linear_binary(node: syntax.Binary) -> Linear | None:
    left, right = linear(node.left), linear(node.right)
    if left is None or right is None:
        return None
    match node.operator.text:
        case "+":
            return left.plus(right)
        case "-":
            return left.plus(right, -1)
        case "*" if not left.terms:
            return Linear((), 0).plus(right, left.number)
        case "*" if not right.terms:
            return Linear((), 0).plus(left, right.number)
        case _:
            return None


def _is_name(limit: Linear, sizes: Collection[str]) -> bool:
    return len(limit.terms) == 1 and limit.terms[0][1] == 1 and limit.terms[0][0] in sizes


def _limits(index: syntax.Expression, loops: tuple[Loop, ...]) -> Iterator[Linear]:
    """Bounds that an index stays below, each as far as it can be said without loop variables."""
    for form in _alternatives(index):
        # An index stays below itself plus one.
        yield from _resolved(form.plus(Linear((), 1)), loops, 0)


def _resolved(limit: Linear, loops: tuple[Loop, ...], depth: int) -> Iterator[Linear]:
    by_name = {loop.name: loop for loop in loops}
    inner = [(name, factor) for name, factor in limit.terms if name in by_name]
    if not inner:
        yield limit
        return
    if depth > _DEEPEST or any(factor < 1 for _, factor in inner):
        return
    # The innermost loop's bound may hold the variables of the others.
    name, factor = max(inner, key=lambda term: [loop.name for loop in loops].index(term[0]))
    for stop in _alternatives(by_name[name].stop):
        largest = stop.plus(Linear((), -1))
        rest = limit.plus(Linear(((name, 1),), 0), -factor)
        yield from _resolved(rest.plus(largest, factor), loops, depth + 1)


def _alternatives(node: syntax.Expression) -> Iterator[Linear]:
    """The sums of which the value is the smallest: both sides of ``min``, else the value itself."""
    match node:
        case syntax.Group():
            yield from _alternatives(node.inner)
        case syntax.Call(syntax.Name("tensor.min"), (first, second)):
            yield from _alternatives(first.value)
            yield from _alternatives(second.value)
        case syntax.Call(syntax.Name("tensor.cast"), (first, _)):
            yield from _alternatives(first.value)
        case _:
            found = linear(node)
            if found is not None:
                yield found
