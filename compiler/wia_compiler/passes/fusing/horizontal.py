"""Kernels side by side: independent ones over the same points become one launch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.fusing.costs import Estimate
from wia_compiler.passes.fusing.graph import leads_to
from wia_compiler.passes.fusing.group import Group, Order
from wia_compiler.passes.fusing.legality import Refusal, axes_text
from wia_compiler.passes.fusing.report import (
    Report,
    numbers_of,
    refused_reason,
    saving_text,
    unless,
)

_NEIGHBOURS = 4
"""Kernels before one in the text, of its kind, that it is compared with."""
_MOST_OPS = 48
"""Ops of a joint kernel: few share what they read, and time to compile grows with their square."""


@dataclass
class Horizontal:
    """Merges kernels that do not wait for each other; ``groups`` is kept up to date."""

    groups: dict[TensorOp, Group]
    order: dict[TensorOp, Order]
    report: Report
    facts: TargetFacts

    def merge_readers(self, readers: Sequence[Group]) -> list[Group]:
        """Kernels that read one value, merged where they can be: it is then read once."""
        left: list[Group] = []
        for reader in readers:
            self._merge_into(left, reader)
        return left

    def merge_neighbours(self, ops: Sequence[TensorOp]) -> None:
        """Merge what is left, in order of the text, each kernel with the few before it."""
        left: dict[str, list[Group]] = {}
        found = dict.fromkeys(id(self.groups[op]) for op in sorted(ops, key=self.order.__getitem__))
        kernels = {id(group): group for group in self.groups.values()}
        for each in found:
            self._merge_into(left.setdefault(kernels[each].role, []), kernels[each])

    def _merge_into(self, left: list[Group], group: Group) -> None:
        """Merge a kernel into the one of those that saves most, else add it to them."""
        best: tuple[Group, Group, Estimate] | None = None
        for other in reversed(left[-_NEIGHBOURS:]):
            if other.role != group.role or other.role not in ("elementwise", "rows"):
                continue
            if leads_to(other, group, self.groups) or leads_to(group, other, self.groups):
                continue
            joint = self._joint(other, group)
            if joint is not None and (best is None or joint[1].benefit > best[2].benefit):
                best = (other, *joint)
        if best is None:
            left.append(group)
            return
        other, merged, numbers = best
        self._record(other, group, numbers)
        left[left.index(other)] = merged
        for op in merged.members:
            self.groups[op] = merged

    def _joint(self, one: Group, other: Group) -> tuple[Group, Estimate] | None:
        """The joint kernel and its numbers, where there may be one and it pays; else recorded."""
        refusal = _refusal(one, other)
        if refusal is not None:
            row = {**refusal.numbers, **unless([refusal.unless])}
            self.report.horizontal(self._sinks(one, other), False, refusal.reason, row)
            return None
        sinks = sorted((*one.sinks, *other.sinks), key=self.order.__getitem__, reverse=True)
        merged = one.merged(other, tuple(sinks), self.order)
        numbers = self._estimate(one, other, merged)
        if numbers.taken:
            return merged, numbers
        self._record(one, other, numbers)
        return None

    def _record(self, one: Group, other: Group, numbers: Estimate) -> None:
        row = {**numbers_of(numbers, []), **unless(numbers.conditions)}
        names = ", ".join(value.name_hint or "a value" for value in _shared(one, other))
        how = f"both read {names}" if names else "both run over the same points"
        reason = f"{how}: {saving_text(numbers)}" if numbers.taken else refused_reason(numbers)
        self.report.horizontal(self._sinks(one, other), numbers.taken, reason, row)

    def _sinks(self, *groups: Group) -> list[list[TensorOp]]:
        return [sorted(group.sinks, key=self.order.__getitem__) for group in groups]

    def _estimate(self, one: Group, other: Group, merged: Group) -> Estimate:
        more = merged.demand.words - max(one.demand.words, other.demand.words)
        return Estimate(
            merged.demand.registers(self.facts),
            self.facts.register_capacity,
            saved_bytes=sum(spec_of(value.type).size_bytes for value in _shared(one, other)),
            launch_cost_bytes=self.facts.launch_cost_bytes,
            risked_bytes=2 * 4 * max(more, 0) * math.prod(merged.domain),
        )


def _refusal(one: Group, other: Group) -> Refusal | None:
    ops = len(one.members) + len(other.members)
    if ops > _MOST_OPS:
        return Refusal(
            f"together they have {ops} ops, kernels of up to {_MOST_OPS} are merged",
            f"they had {_MOST_OPS} ops or fewer, not {ops}",
        )
    if one.domain != other.domain:
        shapes = [_shape_text(each.domain) for each in (one, other)]
        points = [math.prod(each.domain) for each in (one, other)]
        return Refusal(
            f"one nest runs over one domain, here are {shapes[0]} and {shapes[1]}",
            f"both ran over {shapes[points.index(max(points))]}",
            {"points": max(points), "fewer_points": min(points)},
        )
    if one.folded != other.folded:
        axes = [axes_text(each.folded or (), each.domain) for each in (one, other)]
        return Refusal(
            f"one kernel folds one set of axes, here are {axes[0]} and {axes[1]}",
            f"both folded {axes[0]}",
        )
    return None


def _shared(one: Group, other: Group) -> list[SSAValue]:
    """What both kernels read from memory."""
    theirs = set(_read(other))
    return [value for value in _read(one) if value in theirs]


def _read(group: Group) -> list[SSAValue]:
    inside = {op.result for op in group.members}
    read = dict.fromkeys(value for op in group.members for value in op.arguments)
    return [v for v in read if v not in inside and not isinstance(v.owner, ConstantOp)]


def _shape_text(shape: tuple[int, ...]) -> str:
    return "x".join(str(size) for size in shape) or "a scalar"
