"""What is assumed of a whole number that a loop carries, until the loop's body confirms it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from wia_compiler.passes.loops.forms import Bounds, Form


@dataclass(frozen=True)
class Progress:
    """How far a ``for`` has come: its variable, where that starts, and its step."""

    variable: Form
    first: Form
    step: int

    def form(self, start: Form, growth: int) -> Form:
        """What starts from ``start`` and grows by a constant in each iteration."""
        per_step = Fraction(growth, self.step)
        factor = int(per_step) if per_step.denominator == 1 else per_step
        return start + (self.variable - self.first) * factor


class Carried:
    """One number: ``lows`` and ``highs`` are bounds still to be tried, the tightest first.

    First it is taken to stay where it starts from, then half of its dtype (so that adding a little
    does not wrap, and what the loop's condition says of it holds), then anything of its dtype.
    ``exact`` is the sum that it is where it grows by a constant, ``growth`` that constant.
    """

    def __init__(self, name: str, start: Form, here: Bounds, limits: tuple[int, int]):
        self.name = name
        self.start = start
        self.first = here.low(start), here.high(start)
        least, most = limits
        lows = {self.first[0], least // 2, least} if least else {self.first[0], 0}
        highs = {self.first[1], most // 2, most}
        self.lows = sorted((each for each in lows if each <= self.first[0]), reverse=True)
        self.highs = sorted(each for each in highs if each >= self.first[1])
        self.exact: Form | None = None
        self.growth: int | None = None

    @property
    def low(self) -> int:
        """The lower bound that is assumed."""
        return self.lows[0]

    @property
    def high(self) -> int:
        """The upper bound that is assumed."""
        return self.highs[0]

    def give_up(self) -> None:
        """Assume nothing."""
        self.lows, self.highs, self.exact = self.lows[-1:], self.highs[-1:], None

    def refute(
        self, current: Form, following: Form, bounds: Bounds, progress: Progress | None
    ) -> bool:
        """Whether an iteration does not keep what is assumed; then less is assumed from here on.

        ``current`` is the number in an iteration and ``following`` the one that it yields.
        """
        step = (following - current).number
        if self.exact is not None:
            if step == self.growth:
                return False
            self.give_up()  # it might wrap: what it is after some iterations is not known
            return True
        too_low, too_high = bounds.low(following) < self.low, bounds.high(following) > self.high
        if (too_low or too_high) and progress is not None and step and self.growth is None:
            self.growth, self.exact = step, progress.form(self.start, step)
            return True
        if too_low:
            self.lows = self.lows[1:]
        if too_high:
            self.highs = self.highs[1:]
        return too_low or too_high

    def after(self, trips: int | None) -> tuple[int, int]:
        """Bounds of the number when the loop, of ``trips`` iterations at most, has ended."""
        if self.exact is None or self.growth is None or trips is None:
            return self.low, self.high
        grown = self.growth * trips
        low, high = self.first[0] + min(grown, 0), self.first[1] + max(grown, 0)
        return max(low, self.lows[-1]), min(high, self.highs[-1])
