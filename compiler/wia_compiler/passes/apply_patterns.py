"""``pattern`` blocks: what they match is rewritten, and it is said where they nearly do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter

from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.patterns import PatternDeclaration
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.kernel_function import kernel_function
from wia_compiler.passes.patterns.firings import Firings
from wia_compiler.passes.patterns.pattern import Pattern
from wia_compiler.passes.patterns.rewriting import PatternRewrite


@dataclass(frozen=True)
class ApplyPatterns:
    """Applies the patterns of a program, in order of the text, until none of them matches.

    ``%1 = wia.conv2d %x, %w``, ``%2 = wia.add %1, %b``, ``%3 = wia.relu %2``, with the chapter's
    ``ConvBiasRelu`` → ``%3 = wia.fused @fused_conv_bias_relu (%x, %w, %b) { … }``.

    Before a rewrite fires, it is compared with its match through the reference, for the shapes and
    dtypes at hand (``patterns.soundness``). Raises ``CompileError`` at the pattern where it
    computes something else, changes a shape or dtype, or fires on what it made without end. Each
    firing and each near miss is a decision of kind ``pattern``.
    """

    patterns: tuple[PatternDeclaration, ...] = ()

    name: ClassVar[str] = "patterns"
    level: ClassVar[Level] = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Rewrite the context's kernel."""
        function = kernel_function(module, context.kernel)
        firings = Firings.of(len(_tensor_ops(function)), len(self.patterns))
        patterns = [Pattern(declaration) for declaration in self.patterns]
        rewrites = [PatternRewrite(pattern, context, firings) for pattern in patterns]
        while _sweep(function, rewrites):
            pass
        for rewrite in rewrites:
            rewrite.note_misses = True
        _sweep(function, rewrites)
        for rewrite in rewrites:
            if not rewrite.fired and not rewrite.missed:
                _record_nowhere(rewrite.pattern, function, context)


def _sweep(function: FuncOp, rewrites: list[PatternRewrite]) -> bool:
    """Offer every op of the function's blocks to every pattern; whether any of them fired."""
    fired = False
    pending: list[Operation] = [*reversed(_tensor_ops(function))]
    while pending:
        op = pending.pop()
        for rewrite in rewrites:
            if op.parent_op() is not function:
                break
            rewriter = PatternRewriter(op)
            rewriter.operation_insertion_handler = [pending.append]
            rewrite.match_and_rewrite(op, rewriter)
            fired |= rewriter.has_done_action
    return fired


def _tensor_ops(function: FuncOp) -> list[TensorOp]:
    blocks = function.body.blocks
    return [op for block in blocks for op in block.ops if isinstance(op, TensorOp)]


def _record_nowhere(pattern: Pattern, function: FuncOp, context: PassContext) -> None:
    present = {op.declaration.name for op in _tensor_ops(function)}
    wanted = list(dict.fromkeys(op.declaration.name for op in pattern.ops))
    absent = [name for name in wanted if name not in present]
    if absent:
        reason = f"matches nothing: the kernel has no {' and no '.join(absent)}"
    else:
        reason = f"matches nothing: nowhere is {wanted[-1]} reached as the pattern says"
    context.decisions.append(Decision("pattern", pattern.title, False, reason))
