"""Composite ops that a nest of their own can hold: it beats the nests of their steps."""

from __future__ import annotations

from collections.abc import Callable

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.facts import TargetFacts


def _has_elements(op: TensorOp, facts: TargetFacts) -> bool:
    """Whether an ``attention`` walks elements, on a target that keeps tiles of them."""
    specs = [op.result_spec, *(spec_of(value.type) for value in op.arguments)]
    return facts.keeps_tiles and all(spec.num_elements for spec in specs)


KEPT: dict[str, Callable[[TensorOp, TargetFacts], bool]] = {"attention": _has_elements}
"""For each such op, which of its calls its nest can express on a target."""


def is_kept_whole(op: TensorOp, facts: TargetFacts) -> bool:
    """Whether a composite op reaches the mid level as it is."""
    can_express = KEPT.get(op.declaration.name)
    return can_express is not None and can_express(op, facts)
