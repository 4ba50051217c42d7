"""Finds the ops of a pattern in a kernel, and says what is in the way where it nearly does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Block, SSAValue

from wia_compiler.dialects.types import Value, spec_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp, label_of
from wia_compiler.passes.fusing.graph import (
    depends_on,
    opaque_users,
    users_of,
    written_for,
)
from wia_compiler.passes.patterns.pattern import Pattern, is_literal, literal_value
from wia_compiler.passes.rules import COMMUTATIVE

_Goal = tuple[SSAValue, SSAValue]
"""A value of the pattern and the value of the kernel that it should be."""
_MOST_TRIES = 2_000
"""Combinations tried at one root; patterns whose ops have nothing in common could try more."""


@dataclass(frozen=True)
class Match:
    """Ops of a kernel that are those of a pattern.

    ``values`` has the kernel's value for each of the pattern's; ``ops`` stand in the order of the
    text.
    """

    values: dict[SSAValue, SSAValue]
    ops: tuple[TensorOp, ...]


@dataclass(frozen=True)
class NearMiss:
    """A place at which a good part of a pattern was found, and what is otherwise there."""

    ops: tuple[TensorOp, ...]
    reason: str
    unless: str


@dataclass
class Matcher:
    """One search, from one op of a kernel that may be the pattern's last."""

    pattern: Pattern
    root: TensorOp
    best: tuple[int, NearMiss | None] = (0, None)
    tries: int = 0

    def find(self) -> Match | NearMiss | None:
        """The match; else the nearest miss, if half of the ops and more were there; or nothing."""
        if self.root.name != self.pattern.root.name:
            return None
        goal = (self.pattern.root.result, self.root.result)
        for values in self._solve((goal,), {}):
            if len({values[each] for each in self.pattern.results}) < len(self.pattern.results):
                continue
            match = Match(values, self._ops_in(values))
            blocked = self._blocked(match)
            if blocked is None:
                return match
            self._note(len(self.pattern.ops) + 1, values, *blocked)
        depth, miss = self.best
        return miss if 2 * depth >= len(self.pattern.ops) else None

    def _solve(
        self, goals: tuple[_Goal, ...], values: dict[SSAValue, SSAValue]
    ) -> Iterator[dict[SSAValue, SSAValue]]:
        """Every way to meet the goals and to find the ops that they do not reach."""
        self.tries += 1
        if self.tries > _MOST_TRIES:
            return
        if not goals:
            yield from self._seek_rest(values)
            return
        (wanted, found), *rest = goals
        known = values.get(wanted)
        if known is not None:
            if known is found:
                yield from self._solve(tuple(rest), values)
            else:
                name = f"%{wanted.name_hint or 'a value'}"
                one, other = _text(known), _text(found)
                self._note(
                    self._count(values),
                    values,
                    f"{name} stands for one value, here are two: {one} and {other}",
                    f"{one} and {other} were the same value",
                )
            return
        if is_literal(wanted):
            if self._is_number(wanted, found, values):
                yield from self._solve(tuple(rest), values)
            return
        now = {**values, wanted: found}
        op = wanted.owner
        if not isinstance(op, TensorOp):
            yield from self._solve(tuple(rest), now)
            return
        other = found.owner
        if not self._is_op(op, found, values) or not isinstance(other, TensorOp):
            return
        orders = [list(other.arguments)]
        if op.declaration.name in COMMUTATIVE:
            orders.append(orders[0][::-1])
        for order in orders:
            pairs = tuple(zip(op.arguments, order, strict=True))
            yield from self._solve((*pairs, *rest), now)

    def _seek_rest(self, values: dict[SSAValue, SSAValue]) -> Iterator[dict[SSAValue, SSAValue]]:
        """Ops of the pattern that no operand leads to: other users of what was found."""
        left = [op for op in self.pattern.ops if op.result not in values]
        if not left:
            yield values
            return
        reached = [op for op in left if any(each in values for each in op.arguments)]
        op = (reached or left)[-1]
        for candidate in self._candidates(op, values):
            yield from self._solve(((op.result, candidate.result),), values)

    def _candidates(self, op: TensorOp, values: dict[SSAValue, SSAValue]) -> list[TensorOp]:
        block, name = self.root.parent_block(), op.name
        for each in op.arguments:
            if each in values:
                users = (use.operation for use in values[each].uses)
                alike = (u for u in users if isinstance(u, TensorOp) and u.name == name)
                return [user for user in dict.fromkeys(alike) if user.parent is block]
        if block is None:
            return []
        return [each for each in block.ops if isinstance(each, TensorOp) and each.name == name]

    def _is_op(self, op: TensorOp, found: SSAValue, values: dict[SSAValue, SSAValue]) -> bool:
        """Whether a value's maker is an op like that, its attributes included."""
        other, depth, name = found.owner, self._count(values), op.declaration.name
        if not isinstance(other, TensorOp) or other.name != op.name:
            reader = self._reader(op, values)
            self._note(
                depth,
                values,
                f"{reader} reads {_text(found)} where the pattern has {name}",
                f"{reader} read the result of {name}",
            )
            return False
        if other.parent is not self.root.parent:
            self._note(
                depth, values, f"{name} stands in another block", f"{name} stood in the same block"
            )
            return False
        if op.given != other.given or len(op.arguments) != len(other.arguments):
            theirs, ours = (_listed(each.given) for each in (other, op))
            self._note(
                depth + 1,
                {**values, op.result: found},
                f"{name} is given {theirs}, in the pattern {ours}",
                f"{name} were given {ours}",
            )
            return False
        rank = spec_of(other.arguments[0].type).rank if other.arguments else 0
        theirs = other.values
        for key, wanted in op.values.items():
            if not _same_attribute(key, wanted, theirs.get(key), rank):
                self._note(
                    depth + 1,
                    {**values, op.result: found},
                    f"{name} has {key}={_shown(theirs.get(key))}, the pattern {_shown(wanted)}",
                    f"{key} of {name} were {_shown(wanted)}",
                )
                return False
        return True

    def _is_number(
        self, wanted: SSAValue, found: SSAValue, values: dict[SSAValue, SSAValue]
    ) -> bool:
        owner = found.owner
        dtype = spec_of(found.type).dtype
        number = literal_value(wanted, dtype)
        if isinstance(owner, ConstantOp):
            with np.errstate(all="ignore"):
                held = np.asarray(owner.number).astype(dtype.numpy)
            if held.tobytes() == number.tobytes() or bool(held != held and number != number):
                return True
        self._note(
            self._count(values),
            values,
            f"the pattern has the number {number} where {_text(found)} is read",
            f"{_text(found)} were {number}",
        )
        return False

    def _blocked(self, match: Match) -> tuple[str, str] | None:
        """Why ops that match may not be replaced, if they may not."""
        inside = set(match.ops)
        for op in self.pattern.internal:
            found = match.values[op.result].owner
            if not isinstance(found, TensorOp):
                raise ValueError("ops of a pattern match ops")
            others = [u.declaration.name for u in users_of(found) if u not in inside]
            others += [*opaque_users(found), *written_for(found)]
            if others:
                name = f"%{op.result.name_hint or op.declaration.name}"
                return (
                    f"{name} is inside of the match and has another consumer, {others[0]}",
                    f"nothing but the match read {name}",
                )
        for value in self.pattern.free:
            if value in match.values and depends_on(match.values[value], inside):
                name = value.name_hint or "a value"
                return (
                    f"%{name} is computed from a result of the match",
                    f"%{name} did not need a result of the match",
                )
        return None

    def _reader(self, op: TensorOp, values: dict[SSAValue, SSAValue]) -> str:
        readers = [u for u in users_of(op) if u.result in values]
        return readers[0].declaration.name if readers else "the kernel"

    def _count(self, values: dict[SSAValue, SSAValue]) -> int:
        return sum(1 for op in self.pattern.ops if op.result in values)

    def _ops_in(self, values: dict[SSAValue, SSAValue]) -> tuple[TensorOp, ...]:
        owners = (values[op.result].owner for op in self.pattern.ops if op.result in values)
        found = list(dict.fromkeys(op for op in owners if isinstance(op, TensorOp)))
        position = _positions(self.root.parent_block())
        return tuple(sorted(found, key=lambda op: position[op]))

    def _note(self, depth: int, values: dict[SSAValue, SSAValue], reason: str, unless: str) -> None:
        if depth > self.best[0]:
            self.best = (depth, NearMiss(self._ops_in(values) or (self.root,), reason, unless))


def _positions(block: Block | None) -> dict[object, int]:
    return {op: number for number, op in enumerate(block.ops)} if block is not None else {}


_AXES = ("dim", "dim0", "dim1", "start_dim", "end_dim")
_PAIRS = ("stride", "padding", "dilation", "kernel_size")


def _same_attribute(name: str, one: Value, other: Value, rank: int) -> bool:
    """Whether two attributes say the same: ``dim=-1`` is the last axis, ``stride=2`` both ways."""
    if one == other and type(one) is type(other):
        return True
    if name in _AXES and rank:
        return _axes(one, rank) is not None and _axes(one, rank) == _axes(other, rank)
    if name in _PAIRS and one is not None and other is not None:
        length = max(len(each) for each in (one, other, (0,)) if isinstance(each, tuple))
        pair = [each if isinstance(each, tuple) else (each,) * length for each in (one, other)]
        return pair[0] == pair[1]
    return False


def _axes(value: Value, rank: int) -> tuple[int, ...] | None:
    listed = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(each, int) for each in listed):
        return None
    return tuple(each % rank for each in listed if isinstance(each, int))


def _text(value: SSAValue) -> str:
    owner = value.owner
    if isinstance(owner, ConstantOp):
        return str(owner.number)
    if isinstance(owner, Block):
        return value.name_hint or "an argument"
    return value.name_hint or label_of(owner)


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def _shown(value: Value) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_shown(each) for each in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)
