"""Parts of a result that a nest each writes: margins and middle of a pad, operands of a concat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir.affine import AffineExpr

from wia_compiler.passes.nests.movement import Index
from wia_compiler.passes.nests.places import Cut
from wia_compiler.passes.nests.plan import Axis, fresh_name


@dataclass(frozen=True)
class Part:
    """Elements of one axis: ``size`` of them from ``start``, ``step`` apart."""

    start: int
    step: int
    size: int

    def divided(self, cut: Cut) -> list[Part]:
        """The parts that a cut makes, in terms of this part's own positions."""
        if cut.step == 1:
            after = Part(self.start + cut.at * self.step, self.step, self.size - cut.at)
            return [Part(self.start, self.step, cut.at), after]
        return [
            Part(self.start + rest * self.step, self.step * cut.step, size)
            for rest in range(cut.step)
            if (size := -(-(self.size - rest) // cut.step)) > 0
        ]


@dataclass(frozen=True)
class Piece:
    """A part of a result: of each axis some elements."""

    parts: tuple[Part, ...]

    @staticmethod
    def whole(shape: Sequence[int]) -> Piece:
        """Every element of an array."""
        return Piece(tuple(Part(0, 1, size) for size in shape))

    @property
    def num_elements(self) -> int:
        """Product of the sizes."""
        return math.prod(part.size for part in self.parts)

    def divided(self, cut: Cut) -> list[Piece]:
        """The pieces that a cut of a nest over this piece makes."""
        axis = [n for n, part in enumerate(self.parts) if part.size != 1][cut.axis]
        return [
            Piece((*self.parts[:axis], part, *self.parts[axis + 1 :]))
            for part in self.parts[axis].divided(cut)
        ]

    def axes(self) -> list[Axis]:
        """An axis of a nest for each axis with more than one element."""
        made: list[Axis] = []
        for part in self.parts:
            if part.size != 1:
                made.append(Axis(fresh_name([each.name for each in made]), part.size))
        return made

    def index(self) -> Index:
        """The index of the piece's elements in the result, over its axes."""
        index: list[AffineExpr] = []
        axis = 0
        for part in self.parts:
            if part.size == 1:
                index.append(AffineExpr.constant(part.start))
                continue
            place = AffineExpr.dimension(axis)
            place = place if part.step == 1 else place * part.step
            index.append(place + part.start if part.start else place)
            axis += 1
        return tuple(index)
