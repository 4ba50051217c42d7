"""Composite ops that a nest of their own can hold: it beats the nests of their steps."""

from __future__ import annotations

from collections.abc import Callable

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.nests.attention_tiles import block_tiles


def _attention(op: TensorOp, facts: TargetFacts) -> str | None:
    """Why an ``attention`` is no nest: it walks no elements, or its tiles have no place."""
    if not facts.keeps_tiles and not facts.shared_bytes:
        return ""
    specs = [op.result_spec, *(spec_of(value.type) for value in op.arguments)]
    if not all(spec.num_elements for spec in specs):
        return ""
    if facts.keeps_tiles:
        return None
    try:
        block_tiles(op, facts)
    except ValueError as reason:
        return str(reason)
    return None


KEPT: dict[str, Callable[[TensorOp, TargetFacts], str | None]] = {"attention": _attention}
"""For each such op, why a call of it is written out on a target; ``None`` where a nest holds it."""


def is_kept_whole(op: TensorOp, facts: TargetFacts) -> bool:
    """Whether a composite op reaches the mid level as it is."""
    refuse = KEPT.get(op.declaration.name)
    return refuse is not None and refuse(op, facts) is None


def why_written_out(op: TensorOp, facts: TargetFacts) -> str:
    """What keeps a composite op from being one nest on a target that has such nests; else empty."""
    refuse = KEPT.get(op.declaration.name)
    return (refuse(op, facts) or "") if refuse is not None else ""
