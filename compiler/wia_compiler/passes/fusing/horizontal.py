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
        """Merge a kernel into one of those, the nearest first, or add it to them."""
        for other in reversed(left[-_NEIGHBOURS:]):
            if not _is_candidate(other, group):
                continue
            if leads_to(other, group, self.groups) or leads_to(group, other, self.groups):
                continue
            merged = self._merged(other, group)
            if merged is not None:
                left[left.index(other)] = merged
                return
        left.append(group)

    def _merged(self, one: Group, other: Group) -> Group | None:
        """The joint kernel, where there may be one and it pays; recorded either way."""
        sinks = sorted((*one.sinks, *other.sinks), key=self.order.__getitem__, reverse=True)
        named = [sorted(each.sinks, key=self.order.__getitem__) for each in (one, other)]
        refusal = _refusal(one, other)
        if refusal is not None:
            row = {**refusal.numbers, **unless([refusal.unless])}
            self.report.horizontal(named, False, refusal.reason, row)
            return None
        merged = one.merged(other, tuple(sinks), self.order)
        numbers = self._estimate(one, other, merged)
        if not numbers.taken:
            row = {**numbers_of(numbers, []), **unless(numbers.conditions)}
            self.report.horizontal(named, False, refused_reason(numbers), row)
            return None
        shared = _shared(one, other)
        names = ", ".join(value.name_hint or "a value" for value in shared)
        how = f"both read {names}" if shared else "both run over the same points"
        reason = f"{how}: {saving_text(numbers)}"
        self.report.horizontal(named, True, reason, numbers_of(numbers, []))
        for op in merged.members:
            self.groups[op] = merged
        return merged

    def _estimate(self, one: Group, other: Group, merged: Group) -> Estimate:
        more = merged.demand.words - max(one.demand.words, other.demand.words)
        return Estimate(
            merged.demand.registers(self.facts),
            self.facts.register_capacity,
            saved_bytes=sum(spec_of(value.type).size_bytes for value in _shared(one, other)),
            launch_cost_bytes=self.facts.launch_cost_bytes,
            risked_bytes=2 * 4 * max(more, 0) * math.prod(merged.domain),
        )


def _is_candidate(one: Group, other: Group) -> bool:
    """Whether merging two kernels is worth a thought: of one kind, and not mere index maps."""
    return one.role == other.role and one.role in ("elementwise", "rows")


def _refusal(one: Group, other: Group) -> Refusal | None:
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
