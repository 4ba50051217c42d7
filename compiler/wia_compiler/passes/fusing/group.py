"""A kernel in the making: its ops, where their values stand, the registers it takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.fusing.costs import Demand, words_of
from wia_compiler.passes.fusing.graph import users_of
from wia_compiler.passes.fusing.places import (
    Axes,
    Place,
    Shape,
    folded_axes,
    operand_place,
    reduced_place,
    whole,
)
from wia_compiler.passes.fusing.roles import Role, role_of, sweeps_of

_Pass: TypeAlias = "tuple[TensorOp | None, int]"
"""A sweep over a row: the op that makes it (``None``: results are written) and which of its sweeps
it is."""

Order: TypeAlias = "tuple[int, int]"
"""Where an op stands: its number in the block, and which of its copies it is."""


@dataclass
class Group:
    """Ops of one kernel, the last first; ``sinks`` are those whose results leave it.

    ``folded`` are the axes of ``domain`` that its reductions fold. ``before`` are the ops between
    the kernel's arguments and its contraction. ``live`` holds, for each member, the registers
    that are taken while it is computed, ``passes`` the sweeps over a row that compute it.
    """

    sinks: tuple[TensorOp, ...]
    domain: Shape = ()
    folded: tuple[int, ...] | None = None
    contraction: TensorOp | None = None
    members: dict[TensorOp, Place] = field(default_factory=dict[TensorOp, Place])
    before: set[TensorOp] = field(default_factory=set[TensorOp])
    live: list[int] = field(default_factory=list[int])
    widest: int = 1
    passes: dict[TensorOp, frozenset[_Pass]] = field(
        default_factory=dict["TensorOp", "frozenset[_Pass]"]
    )
    position: dict[TensorOp, int] = field(default_factory=dict[TensorOp, int])

    @staticmethod
    def of(op: TensorOp) -> Group:
        """The kernel of one op alone."""
        group = Group((op,), op.result_spec.shape)
        place: Place = whole(group.domain)
        if role_of(op) == "rows":
            group.domain = spec_of(op.arguments[0].type).shape
            group.folded = folded_axes(op)
            place = reduced_place(op)
        if role_of(op) == "contraction":
            group.contraction = op
        group.add(op, place)
        return group

    @property
    def sink(self) -> TensorOp:
        """The op whose result leaves the kernel; of several the last in the text."""
        return self.sinks[0]

    @property
    def role(self) -> Role:
        """What the kernel is: rows, a contraction, elementwise, only movement, or one op alone."""
        if self.folded is not None:
            return "rows"
        if self.contraction is not None:
            return "contraction"
        roles = {role_of(op) for op in self.members}
        return next(each for each in ("alone", "elementwise", "movement") if each in roles)

    def demanded(self, op: TensorOp) -> Place | None:
        """Where the members read ``op``'s result; ``None`` where they disagree."""
        places = {
            operand_place(user, self.members[user], op.result, self.domain)
            for user in users_of(op)
            if user in self.members and not self.feeds_contraction(user)
        }
        return places.pop() if len(places) == 1 else None

    def feeds_contraction(self, user: TensorOp) -> bool:
        """Whether what ``user`` reads is an operand of the group's contraction."""
        return user is self.contraction or user in self.before

    def points(self, place: Place) -> int:
        """How often the kernel computes an element of a value that stands at ``place``."""
        folded = self.folded
        if folded is None or isinstance(place, str) or any(axis in place for axis in folded):
            return math.prod(self.domain)
        return math.prod(size for axis, size in enumerate(self.domain) if axis not in folded)

    @property
    def rows(self) -> int:
        """Rows that the kernel folds; all of its points where it folds none."""
        return self.points(())

    def keeps_rows(self, facts: TargetFacts) -> bool:
        """Whether values of a row are kept for all passes over it, not computed anew in each."""
        length = math.prod(self.domain[axis] for axis in self.folded or ())
        return self.folded is not None and length <= facts.kept_row_elements

    def covers(self, place: Place) -> bool:
        """Whether a place is every axis of the domain, in order."""
        if isinstance(place, str):
            return False
        return [axis for axis in place if axis is not None] == _long(self.domain)

    def fold(self, op: TensorOp, place: Axes) -> bool:
        """Make the kernel one that folds what ``op`` folds; false where it cannot be.

        Either the reduction's input has the shape of the domain, or the domain so far is what the
        reduction leaves: then its input becomes the domain and all places are renamed.
        """
        shape, natural = spec_of(op.arguments[0].type).shape, reduced_place(op)
        if shape == self.domain and place == natural:
            self.folded = folded_axes(op)
            return True
        if not self.covers(place):
            return False
        names = dict(
            zip(
                [axis for axis in place if axis is not None],
                [axis for axis in natural if axis is not None],
                strict=True,
            )
        )
        self.domain, self.folded = shape, folded_axes(op)
        for member, each in self.members.items():
            if not isinstance(each, str):
                self.members[member] = tuple(None if a is None else names[a] for a in each)
        return True

    def demand_with(self, op: TensorOp, *, written: bool = False) -> Demand:
        """What the kernel holds once it also computes ``op``, its first op.

        ``written``: the result of ``op`` leaves the kernel too.
        """
        across = self._held_across(op, written=written)
        held = max((self.live[n] for n in across), default=0) + words_of(op.result)
        own = _demand_at(op)
        words = max(self.demand.words, held, own.words)
        return Demand(words, max(self.demand.widest, own.widest))

    @property
    def demand(self) -> Demand:
        """What the kernel holds at one point of its domain."""
        return Demand(max(self.live), self.widest)

    def times_computed(self, op: TensorOp, *, written: bool = False) -> int:
        """How often each element of ``op`` would be computed: once in each sweep that needs it."""
        return max(len(self._passes_of(op, written=written)), 1)

    def add(self, op: TensorOp, place: Place, *, before: bool = False) -> None:
        """Put an op before all others."""
        for position in self._held_across(op):
            self.live[position] += words_of(op.result)
        self.passes[op] = self._passes_of(op)
        self.position[op] = len(self.live)
        self.members[op] = place
        own = _demand_at(op)
        self.live.append(own.words)
        self.widest = max(self.widest, own.widest)
        if before:
            self.before.add(op)

    def merged(
        self, other: Group, sinks: tuple[TensorOp, ...], order: Mapping[TensorOp, Order]
    ) -> Group:
        """This kernel and one over the same domain; ``order`` is that of the text."""
        folded = other.folded if self.folded is None else self.folded
        group = Group(sinks, self.domain, folded)
        places = {**self.members, **other.members}
        for op in sorted(places, key=lambda each: order[each], reverse=True):
            group.add(op, places[op])
        return group

    def result(self, op: TensorOp) -> None:
        """Let the result of ``op``, a member, leave the kernel too."""
        self.sinks = (*self.sinks, op)

    def _passes_of(self, op: TensorOp, *, written: bool = False) -> frozenset[_Pass]:
        found: set[_Pass] = {(None, 0)} if written or op in self.sinks else set()
        for user in users_of(op):
            if user not in self.members:
                continue
            if role_of(user) == "rows":
                found |= {(user, sweep) for sweep in range(sweeps_of(user))}
            else:
                found |= self.passes[user]
        return frozenset(found)

    def _held_across(self, op: TensorOp, *, written: bool = False) -> list[int]:
        """Positions of members that run while ``op``'s result is held and that do not read it."""
        reading = {self.position[user] for user in users_of(op) if user in self.position}
        if written or op in self.sinks:
            return [n for n in range(len(self.live)) if n not in reading]
        if not reading:
            return []
        return [n for n in range(min(reading), len(self.live)) if n not in reading]


def _demand_at(op: TensorOp) -> Demand:
    """What is held while an op is computed: what it reads and its result."""
    values = [v for v in dict.fromkeys(op.arguments) if not isinstance(v.owner, ConstantOp)]
    words = [words_of(value) for value in (*values, op.result)]
    return Demand(sum(words), max(words))


def _long(shape: Shape) -> list[int]:
    return [axis for axis, size in enumerate(shape) if size != 1]
