"""Computes at compile time what depends on constants alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from wia_compiler.base.record import Level
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import OPS, ConstantOp, TensorOp
from wia_compiler.passes.block_rules import simplify_blocks
from wia_compiler.passes.canonical_rules import CANONICAL
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.kernel_function import kernel_function, update_function_type
from wia_compiler.passes.rules import FunctionRule, Rewriter, apply_rules, splat
from wia_compiler.reference.meaning import evaluate

_LARGEST_FOLD = 1 << 16
"""Elements that a fold of a constant may visit at compile time: below a millisecond."""


@dataclass(frozen=True)
class FoldConstants:
    """Replaces an op whose operands are constants by the constant that the reference computes.

    ``%1 = wia.mul %two, %half : tensor<f16>`` → ``%1 = wia.constant 1.0``, with the rounding of the
    op's dtype. What a constant makes possible (``x * 1``, a branch that is always taken) is
    rewritten too.
    """

    name: ClassVar[str] = "fold-constants"
    level: ClassVar[Level] = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Fold the context's kernel from its first op to its last."""
        function = kernel_function(module, context.kernel)
        apply_rules(function, (_FOLD, *CANONICAL), context)
        while simplify_blocks(function, context):  # a join of one value may be a constant now
            apply_rules(function, (_FOLD, *CANONICAL), context)
        update_function_type(function)


def fold(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """The constant that an op of constants yields, as every element of it is the same number."""
    numbers = [splat(value) for value in op.arguments]
    access = op.declaration.access
    if access not in ("pointwise", "view", "rows") or any(number is None for number in numbers):
        return None
    specs = [spec_of(value.type) for value in op.arguments]
    if access == "view":
        return rewriter.constant(*[number for number in numbers if number is not None])
    if access == "rows" and specs[0].num_elements > _LARGEST_FOLD:
        return None
    operands = {
        name: np.full(
            spec.shape if access == "rows" else (1,) * spec.rank, number, spec.dtype.numpy
        )
        for name, number, spec in zip(op.given, numbers, specs, strict=True)
    }
    result = evaluate(op.declaration.name, operands, op.values)
    if result.size == 0:
        return None
    rewriter.matched += [v.owner for v in op.arguments if isinstance(v.owner, ConstantOp)]
    return rewriter.constant(result.reshape(-1)[0].item())


_FOLD = FunctionRule("op of constants → constant", tuple(OPS), fold)
