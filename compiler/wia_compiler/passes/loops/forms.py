"""Whole numbers as sums over atoms, and how small or large such a sum can be.

An atom is a number that is not a sum of others: the variable of a loop, an argument, a minimum, an
element of an array. It knows bounds, which are sums of atoms made before it (``j < i + 1``), so
that a bound of a sum comes from replacing its newest atom by its bounds until a number is left.
What a branch says inside it (``if (i + 1 < N)``) is a ``Fact``, a sum that is not below 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

Number: TypeAlias = "int | Fraction"

MOST_STEPS = 2000
"""Replacements tried for one bound; beyond it atoms are bounded by numbers alone."""


@dataclass(eq=False)
class Atom:
    """``order`` counts the atoms of one analysis; ``low`` and ``high`` always hold."""

    name: str
    order: int
    low: int
    high: int
    lowers: tuple[Form, ...] = ()
    uppers: tuple[Form, ...] = ()


@dataclass(frozen=True)
class Form:
    """``sum(factor * atom) + constant``; the atoms in the order in which they were made."""

    terms: tuple[tuple[Atom, Number], ...] = ()
    constant: Number = 0

    @staticmethod
    def of(atom: Atom) -> Form:
        """The atom itself."""
        return Form(((atom, 1),))

    def __add__(self, other: Form | int) -> Form:
        if isinstance(other, int):
            return Form(self.terms, self.constant + other)
        factors: dict[Atom, Number] = dict(self.terms)
        for atom, factor in other.terms:
            factors[atom] = factors.get(atom, 0) + factor
        return Form(_sorted(factors), self.constant + other.constant)

    def __sub__(self, other: Form | int) -> Form:
        return self + (-other if isinstance(other, int) else other * -1)

    def __mul__(self, factor: Number) -> Form:
        if not factor:
            return Form()
        terms = tuple((atom, each * factor) for atom, each in self.terms)
        return Form(terms, self.constant * factor)

    def factor(self, atom: Atom) -> Number:
        """How often the atom counts."""
        return dict(self.terms).get(atom, 0)

    def without(self, atom: Atom) -> Form:
        """The other terms."""
        return Form(tuple(term for term in self.terms if term[0] is not atom), self.constant)

    def __str__(self) -> str:
        parts: list[str] = []
        for atom, factor in self.terms:
            size = abs(factor)
            term = atom.name if size == 1 else f"{size} * {atom.name}"
            parts.append(f"{'-' if factor < 0 else '+'} {term}")
        if self.constant or not parts:
            parts.append(f"{'-' if self.constant < 0 else '+'} {abs(self.constant)}")
        text = " ".join(parts)
        return text[2:] if text.startswith("+ ") else f"-{text[2:]}"

    @property
    def number(self) -> int | None:
        """Its value where it has no atoms."""
        return int(self.constant) if not self.terms else None


def _sorted(factors: dict[Atom, Number]) -> tuple[tuple[Atom, Number], ...]:
    kept = [(atom, factor) for atom, factor in factors.items() if factor]
    return tuple(sorted(kept, key=lambda term: term[0].order))


Fact: TypeAlias = Form
"""A sum that is 0 or more."""


@dataclass
class Bounds:
    """Bounds of sums where ``facts`` hold."""

    facts: Sequence[Fact] = ()
    _known: dict[tuple[Form, bool], Number] = field(
        default_factory=dict["tuple[Form, bool]", "Number"]
    )

    def __post_init__(self) -> None:
        self._by_atom: dict[Atom, list[Fact]] = {}
        for fact in dict.fromkeys(self.facts):
            for atom, _ in fact.terms:
                self._by_atom.setdefault(atom, []).append(fact)
        self._steps = 0

    def low(self, form: Form) -> int:
        """A number that the sum is never below."""
        return math.ceil(self._start(form, lower=True))

    def high(self, form: Form) -> int:
        """A number that the sum never exceeds."""
        return math.floor(self._start(form, lower=False))

    def _start(self, form: Form, *, lower: bool) -> Number:
        known = self._known.get((form, lower))
        if known is None:
            self._steps = 0
            known = self._known[form, lower] = self._bound(form, lower, frozenset())
        return known

    def _bound(self, form: Form, lower: bool, used: frozenset[Fact]) -> Number:
        """``used`` are facts about newer atoms that led here: each helps once."""
        if not form.terms:
            return form.constant
        self._steps += 1
        atom, factor = form.terms[-1]
        rest = Form(form.terms[:-1], form.constant)
        wants_low = (factor > 0) == lower
        best: Number | None = None
        for each, needed in self._candidates(atom, wants_low, used):
            found = self._bound(rest + each * factor, lower, needed)
            if best is None or (found > best if lower else found < best):
                best = found
        assert best is not None
        return best

    def _candidates(
        self, atom: Atom, wants_low: bool, used: frozenset[Fact]
    ) -> Iterable[tuple[Form, frozenset[Fact]]]:
        """What may take the place of an atom, and the facts that are used up then."""
        yield Form((), atom.low if wants_low else atom.high), used
        if self._steps > MOST_STEPS:
            return
        for each in atom.lowers if wants_low else atom.uppers:
            yield each, used
        for fact in self._by_atom.get(atom, ()):
            factor = fact.factor(atom)
            if (factor > 0) != wants_low or fact in used:
                continue
            inverse = Fraction(-1) / factor
            bound = fact.without(atom) * (int(inverse) if inverse.denominator == 1 else inverse)
            is_newest = fact.terms[-1][0] is atom
            yield bound, used if is_newest else used | {fact}


class Atoms:
    """Makes the atoms of one analysis."""

    def __init__(self) -> None:
        self._count = itertools.count()

    def make(
        self,
        name: str,
        low: int,
        high: int,
        lowers: Iterable[Form] = (),
        uppers: Iterable[Form] = (),
    ) -> Form:
        """A new atom as a sum; ``low`` above ``high`` says that the place is never reached."""
        return Form.of(Atom(name, next(self._count), low, high, tuple(lowers), tuple(uppers)))
