"""What an op is to a kernel: which part of one nest it can become.

The answer follows from how the op's declaration says that it reads its operands, and from what
``passes.nests`` can plan; an op that no part of a shared nest can express is ``alone``: it gets a
nest, or several, of its own.
"""

from __future__ import annotations

from typing import Final, Literal

from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.nests.movement import MOVEMENT

Role = Literal["elementwise", "movement", "rows", "contraction", "alone"]

_INDEX_MAPS: Final = frozenset({*MOVEMENT, "transpose", "flatten", "squeeze", "unsqueeze"})
"""Ops that move elements by an affine index of one operand, or decompose into one that does."""
_SWEEPS: Final = {"rms_norm": 2, "variance": 2, "std": 2, "logsumexp": 2}
"""How often ops read their rows, where that is not once; those that keep the shape do 3 times."""


def role_of(op: TensorOp) -> Role:
    """The part that ``op`` can play in a kernel of several ops."""
    declaration = op.declaration
    match declaration.access:
        case "pointwise":
            return "elementwise"
        case "view":
            return "movement" if declaration.name in _INDEX_MAPS else "alone"
        case "rows":
            return "rows"
        case "contraction":
            return "contraction"
        case _:
            return "alone"


def keeps_shape(op: TensorOp) -> bool:
    """Whether an op that folds rows gives a value for each element, not for each row.

    Softmax and the norms do; they decompose into folds of the same rows.
    """
    return "keepdim" not in op.values


def sweeps_of(op: TensorOp) -> int:
    """How often an op that folds rows reads them: softmax for the largest, the sum, the result."""
    return _SWEEPS.get(op.declaration.name, 3 if keeps_shape(op) else 1)
