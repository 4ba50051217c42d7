"""Composite ops that the mid level can take whole: a nest made for them beats their steps."""

from __future__ import annotations

from collections.abc import Callable

from wia_compiler.dialects.wia.ops import TensorOp

KEPT: dict[str, Callable[[TensorOp], bool]] = {}
"""For each such op, which of its calls its nest can express; the others are decomposed."""


def is_kept_whole(op: TensorOp) -> bool:
    """Whether a composite op reaches the mid level as it is."""
    can_express = KEPT.get(op.declaration.name)
    return can_express is not None and can_express(op)
