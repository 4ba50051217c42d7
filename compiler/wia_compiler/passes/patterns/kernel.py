"""``fused_…`` in a rewrite: the ops that were matched become one kernel of that name."""

from __future__ import annotations

from dataclasses import dataclass

from wia_compiler.dialects.wia.ops import FusedOp
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.fusing.build import fuse
from wia_compiler.passes.fusing.costs import Estimate
from wia_compiler.passes.fusing.graph import sort_block, users_of, written_for
from wia_compiler.passes.fusing.group import Group
from wia_compiler.passes.fusing.legality import Refusal, join, place_in, writable
from wia_compiler.passes.fusing.report import Numbers, numbers_of, refused_reason, saving_text
from wia_compiler.passes.patterns.matching import Match, NearMiss
from wia_compiler.passes.patterns.pattern import Pattern


@dataclass(frozen=True)
class MadeKernel:
    """The kernel, what it saves in numbers, and the sentence for the decision."""

    op: FusedOp
    numbers: Numbers
    reason: str


def make_kernel(pattern: Pattern, match: Match, context: PassContext) -> MadeKernel | NearMiss:
    """Fuse the matched ops; a near miss where one kernel cannot hold them or it does not pay.

    The rule is that of fusion (WIA-AI-011, 5.3.1) for the whole match: registers, benefit, cost.
    """
    if pattern.kernel is None:
        raise ValueError("the rewrite of the pattern names no kernel")
    name = pattern.kernel.kernel_name.data
    group = _as_group(pattern, match, context)
    if isinstance(group, Refusal):
        return NearMiss(match.ops, f"{name} is not one kernel: {group.reason}", group.unless)
    inside = [op for op in match.ops if op not in group.sinks]
    saved = 2 * sum(op.result_spec.size_bytes for op in inside)
    numbers = Estimate(
        group.demand.registers(context.facts),
        context.facts.register_capacity,
        saved,
        context.facts.launch_cost_bytes,
        risked_bytes=saved,
        launches_saved=len(match.ops) - 1,
    )
    if numbers.launches_saved and not numbers.taken:
        unless = "; or ".join(numbers.conditions)
        return NearMiss(match.ops, f"{name} does not pay: {refused_reason(numbers)}", unless)
    block = match.ops[0].parent_block()
    if block is None:
        raise ValueError("ops that a pattern matches stand in a block")
    names = {op.kernel_name.data for op in block.ops if isinstance(op, FusedOp)}
    sinks = [op for op in match.ops if op in group.sinks]
    listed = ", ".join(op.declaration.name for op in match.ops)
    fused = fuse(match.ops, sinks, names, name=name)
    sort_block(block)
    return MadeKernel(fused, numbers_of(numbers, []), f"{listed} → {name}: {saving_text(numbers)}")


def _as_group(pattern: Pattern, match: Match, context: PassContext) -> Group | Refusal:
    """The kernel that matched ops make, where one kernel can hold them."""
    leaving = {match.values[value].owner for value in pattern.results}
    group = Group.of(match.ops[-1])
    for op in reversed(match.ops[:-1]):
        if not any(user in group.members for user in users_of(op)):
            name = op.declaration.name
            return Refusal(f"{name} leads to no other op of it", f"{name} led to another op of it")
        place = place_in(group, op, context.facts)
        if isinstance(place, Refusal):
            return place
        if op in leaving:
            written = written_for(op)
            needed = written[0] if written else "what others read"
            refusal = writable(group, op, place, needed)
            if refusal is not None:
                return refusal
            group.result(op)
        join(group, op, place)
    return group
