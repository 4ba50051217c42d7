"""Fusion: ops become kernels, vertically along the data and horizontally beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from wia_compiler.base.record import Level
from wia_compiler.dialects.wia.ops import ConstantOp, FusedOp
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.fusing.build import fuse
from wia_compiler.passes.fusing.fold import fold_batch_norms
from wia_compiler.passes.fusing.graph import sort_block
from wia_compiler.passes.fusing.grouping import Grouping
from wia_compiler.passes.fusing.projections import join_projections
from wia_compiler.passes.kernel_function import kernel_function


@dataclass(frozen=True)
class Fusion:
    """Groups ops into ``wia.fused`` kernels whose intermediates stay in registers.

    ``%1 = wia.conv2d %x, %w``, ``%2 = wia.add %1, %b``, ``%3 = wia.relu %2`` →
    ``%3 = wia.fused @fused_conv2d_add_relu (%x, %w, %b) { … }``.

    Each block of a function with branches is grouped by itself. Every edge from a producer to a
    consumer is recorded as a decision of kind ``vertical``, every pair of independent kernels that
    was compared as one of kind ``horizontal``, every batch_norm behind a convolution as one of kind
    ``fold``, taken or refused.
    """

    name: ClassVar[str] = "fusion"
    level: ClassVar[Level] = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Group the ops of the context's kernel."""
        function = kernel_function(module, context.kernel)
        names = {op.kernel_name.data for op in function.walk() if isinstance(op, FusedOp)}
        for block in function.body.blocks:
            fold_batch_norms(block, context)
            join_projections(block, context)
            grouping = Grouping.of(block, context)
            context.decisions += grouping.report.in_order()
            _build(grouping, block, names)


def _build(grouping: Grouping, block: Block, names: set[str]) -> None:
    for group, ops in grouping.kernels():
        has_constant = any(isinstance(v.owner, ConstantOp) for op in ops for v in op.arguments)
        if len(ops) > 1 or has_constant:
            fuse(ops, [op for op in ops if op in group.sinks], names)
    if any(len(group.sinks) > 1 for group, _ in grouping.kernels()):
        sort_block(block)
