"""What an op is to a kernel: which part of one nest it can become.

The answer follows from the op's family and from what ``passes.nests`` can plan; an op that no part
of a shared nest can express is ``alone``: it gets a nest, or several, of its own.
"""

from __future__ import annotations

from typing import Final, Literal

from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.nests.movement import MOVEMENT
from wia_compiler.passes.nests.rows import FOLDS

Role = Literal["elementwise", "movement", "rows", "contraction", "alone"]

_MOVES: Final = frozenset({*MOVEMENT, "transpose", "flatten"})
_FOLDS: Final = frozenset({*FOLDS, "reduce_mean"})
_ROW_OPS: Final = frozenset({"softmax", "layer_norm", "rms_norm"})
"""Ops that fold rows and keep the shape; they are decomposed into folds of the same rows."""
_PRODUCTS: Final = frozenset({"matmul", "conv2d"})


def role_of(op: TensorOp) -> Role:
    """The part that ``op`` can play in a kernel of several ops."""
    name, family = op.declaration.name, op.declaration.family
    if family == "elementwise":
        return "elementwise"
    if name in _MOVES:
        return "movement"
    if name in _FOLDS or name in _ROW_OPS:
        return "rows"
    return "contraction" if name in _PRODUCTS else "alone"


def keeps_shape(op: TensorOp) -> bool:
    """Whether an op that folds rows gives a value for each element, not for each row."""
    return op.declaration.name in _ROW_OPS
