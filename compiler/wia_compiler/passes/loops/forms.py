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
        for fact in self.facts:
            if fact.terms:
                self._by_atom.setdefault(fact.terms[-1][0], []).append(fact)
        self._steps = 0

    def low(self, form: Form) -> int:
        """A number that the sum is never below."""
        self._steps = 0
        return math.ceil(self._bound(form, lower=True))

    def high(self, form: Form) -> int:
        """A number that the sum never exceeds."""
        self._steps = 0
        return math.floor(self._bound(form, lower=False))

    def _bound(self, form: Form, *, lower: bool) -> Number:
        if not form.terms:
            return form.constant
        known = self._known.get((form, lower))
        if known is not None:
            return known
        self._steps += 1
        atom, factor = form.terms[-1]
        rest = Form(form.terms[:-1], form.constant)
        wants_low = (factor > 0) == lower
        best: Number | None = None
        for each in self._candidates(atom, wants_low):
            found = self._bound(rest + each * factor, lower=lower)
            if best is None or (found > best if lower else found < best):
                best = found
        assert best is not None
        if self._steps <= MOST_STEPS:
            self._known[form, lower] = best
        return best

    def _candidates(self, atom: Atom, wants_low: bool) -> Iterable[Form]:
        yield Form((), atom.low if wants_low else atom.high)
        if self._steps > MOST_STEPS:
            return
        yield from atom.lowers if wants_low else atom.uppers
        for fact in self._by_atom.get(atom, ()):
            factor = fact.terms[-1][1]
            if (factor > 0) == wants_low:
                rest = Form(fact.terms[:-1], fact.constant)
                inverse = Fraction(-1) / factor
                yield rest * (int(inverse) if inverse.denominator == 1 else inverse)


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
