"""Which iterations of a nest's loops touch the same elements: what a change of order would break.

A dependence is a pair of accesses to one array, one of them a store, that may reach the same
element in two iterations. Its *distance* along each loop around both is how many iterations lie
between, where the indices say it: ``C[i]`` and ``C[i - 1]`` are 1 apart along ``i``. A loop that
the indices do not mention, or whose indices are no sums over loops, is any distance apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import func, memref, scf
from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.dialects import tile
from wia_compiler.dialects.location import spans_of
from wia_compiler.passes.loops.forms import Atom, Form
from wia_compiler.passes.points.forms import Access, Loop, PointForms
from wia_compiler.passes.points.loop_axes import axis_name

Signs: TypeAlias = "tuple[int, ...]"


@dataclass(frozen=True)
class Dependence:
    """Two accesses of one array, and how many iterations of each of ``loops`` (those around both,
    outermost first) lie between them; ``None`` is any number.
    """

    source: Access
    sink: Access
    loops: tuple[Loop, ...]
    distances: tuple[int | None, ...]

    def is_carried_by(self, loop: Loop) -> bool:
        """Whether the two may lie in different iterations of a loop, alike in those around."""
        place = self.loops.index(loop)
        return self.distances[place] != 0 and not any(self.distances[:place])

    def signs(self) -> Iterable[Signs]:
        """The directions in which the later of the two may lie, seen from the earlier."""
        ways = [(-1, 0, 1) if each is None else (_sign(each),) for each in self.distances]
        for signs in itertools.product(*ways):
            first = next((sign for sign in signs if sign), 0)
            if first:
                yield tuple(sign * first for sign in signs)

    def text(self, forms: PointForms, loop: Loop) -> str:
        """The dependence in words: array, indices, lines and the distance along a loop."""
        name = axis_name(loop)
        distance = self.distances[self.loops.index(loop)]
        source, sink = _told(self.source, forms), _told(self.sink, forms)
        if distance is None or self.source is self.sink:
            both = source if source == sink else f"{source} and {sink}"
            return f"{both} may touch the same element in several iterations of {name}"
        if distance < 0:
            source, sink, distance = sink, source, -distance
            first, second = self.sink, self.source
        else:
            first, second = self.source, self.sink
        count = "1 iteration" if distance == 1 else f"{distance} iterations"
        verbs = {True: "writes", False: "reads"}
        doing, done = (isinstance(each, memref.StoreOp) for each in (second, first))
        touched = "wrote" if done else "read"
        return f"{sink} {verbs[doing]} what {source} {touched} {count} of {name} before"


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _told(access: Access, forms: PointForms) -> str:
    name = access.memref.name_hint or "an array"
    indices = ", ".join(str(form) for form in forms.accesses[access])
    span = next(iter(spans_of(access)), None)
    line = f" (line {span.line})" if span is not None else ""
    return f"{name}[{indices}]{line}"


def dependences(nest: func.FuncOp, forms: PointForms) -> list[Dependence]:
    """All dependences of a nest between iterations of its loops."""
    accesses: dict[SSAValue, list[Access]] = {}
    for op in nest.walk():
        if isinstance(op, memref.LoadOp | memref.StoreOp):
            accesses.setdefault(op.memref, []).append(op)
    found: list[Dependence] = []
    for array, same in accesses.items():
        for number, one in enumerate(same):
            for other in same[number:]:
                if isinstance(one, memref.StoreOp) or isinstance(other, memref.StoreOp):
                    between = _between(one, other, _around(one, other, array), forms)
                    found += [] if between is None else [between]
    return found


def why_in_order(loop: Loop) -> str | None:
    """The dependence by which the iterations of a loop must run in order; ``None`` without one."""
    if isinstance(loop, scf.ForOp) and loop.results:
        names = ", ".join(each.name_hint or "a value" for each in loop.body.block.args[1:])
        return f"{axis_name(loop)} carries {names} from one iteration to the next"
    nest: Operation = loop
    while (parent := nest.parent_op()) is not None and not isinstance(nest, func.FuncOp):
        nest = parent
    assert isinstance(nest, func.FuncOp)
    forms = PointForms(nest)
    for each in dependences(nest, forms):
        if loop in each.loops and each.is_carried_by(loop):
            return each.text(forms, loop)
    return None


def _around(one: Operation, other: Operation, array: SSAValue) -> tuple[Loop, ...]:
    """The loops around both, outermost first; those inside of which the array is made are one."""
    made = array.owner
    home = made.parent_op() if isinstance(made, Operation) else _parent(made)
    loops: list[Loop] = []
    parent = one.parent_op()
    while parent is not None and parent is not home:
        if isinstance(parent, tile.ForOp | scf.ForOp) and parent.is_ancestor(other):
            loops.append(parent)
        parent = parent.parent_op()
    return tuple(reversed(loops))


def _parent(block: Block) -> Operation | None:
    return block.parent_op()


def _between(
    one: Access, other: Access, loops: Sequence[Loop], forms: PointForms
) -> Dependence | None:
    """The dependence of two accesses; ``None`` where they never reach the same element."""
    distances: dict[Atom, int | None] = {forms.atoms[loop]: None for loop in loops}
    pairs = zip(forms.accesses[one], forms.accesses[other], strict=True)
    for first, second in pairs:
        solved = _solve(first, second, distances, forms)
        if solved is None:
            return None
        for atom, distance in solved.items():
            if distances[atom] not in (None, distance):
                return None
            distances[atom] = distance
    made: list[int | None] = []
    for loop in loops:
        atom, step = forms.atoms[loop], _step(loop, forms)
        apart = distances[atom]
        if apart is None and _is_tile_of(atom, distances, forms):
            apart = 0
        if apart and step is not None:
            if apart % step or abs(apart) > atom.high - atom.low:
                return None
            apart //= step
        made.append(None if apart and step is None else apart)
    if not any(each is None or each for each in made):
        return None  # the same iteration of every loop: their order in the text stays
    return Dependence(one, other, tuple(loops), tuple(made))


def _solve(
    first: Form, second: Form, loops: Iterable[Atom], forms: PointForms
) -> dict[Atom, int] | None:
    """What equal indices say of the distances along loops; ``None``: they are never equal."""
    shared = set(loops)
    own = {atom: factor for atom, factor in first.terms}
    others = {atom: factor for atom, factor in second.terms}
    uniform = own == others and set(own) <= shared and all(isinstance(f, int) for f in own.values())
    gap = first.constant - second.constant
    if not uniform:
        low, high = forms.low(first - second), forms.high(first - second)
        apart = not set(own) & set(others) & shared and (low > 0 or high < 0)
        return None if apart else {}
    if not own:
        return {} if gap == 0 else None
    if len(own) > 1:
        return {}
    ((atom, factor),) = own.items()
    if gap % factor:
        return None
    return {atom: int(gap // factor)}


def _step(loop: Loop, forms: PointForms) -> int | None:
    if isinstance(loop, tile.ForOp):
        return loop.step.value.data
    return forms.constant(loop.step)


def _is_tile_of(atom: Atom, distances: dict[Atom, int | None], forms: PointForms) -> bool:
    """Whether a loop walks tiles, and the loop over their points is in the same iteration."""
    step = _step(forms.loops[atom], forms)
    return any(
        distance == 0
        and Form.of(atom) in point.lowers
        and step is not None
        and any((upper - Form.of(atom) - (step - 1)).number == 0 for upper in _uppers(point))
        for point, distance in distances.items()
    )


def _uppers(atom: Atom) -> Iterable[Form]:
    """The sums that an atom never exceeds, those of a minimum among them."""
    for upper in atom.uppers:
        yield upper
        if upper.terms and upper.terms[-1][0].name == "min" and upper.terms[-1][1] == 1:
            rest = upper.without(upper.terms[-1][0])
            yield from (each + rest for each in upper.terms[-1][0].uppers)
