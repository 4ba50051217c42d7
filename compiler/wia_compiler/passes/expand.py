"""Writes out ops that stand for several kernels, so that fusion sees their steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.wia.ops import FusedOp, TensorOp
from wia_compiler.passes.control_flow import walk_ops
from wia_compiler.passes.decomposing.kept import is_kept_whole, why_written_out
from wia_compiler.passes.decomposing.rows import is_written_out
from wia_compiler.passes.decomposing.write_out import write_out
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.kernel_function import kernel_function


@dataclass(frozen=True)
class Expand:
    """Replaces composite ops that are no single kernel by their steps.

    ``%1 = wia.linear %x, %w, %b`` → ``wia.permute %w``, ``wia.matmul``, ``wia.add``. Ops that
    fusion takes whole (softmax, gelu, layer_norm …) stay, and so do those that the mid level can
    express with a nest of their own (``decomposing.kept``): a decision says why one of these is
    written out where the target has such nests.
    """

    name: ClassVar[str] = "expand"
    level: ClassVar[Level] = "high"

    def applies(self, module: ModuleOp, context: PassContext) -> bool:
        """Whether the kernel has an op to write out; where it has none there is no such stage."""
        return bool(composites(module, context))

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Write out the ops of the context's kernel."""
        for op in composites(module, context):
            reason = why_written_out(op, context.facts)
            if reason:
                subjects = tuple(filter(None, (context.id_of(op),)))
                name = op.declaration.name
                context.decisions.append(Decision("nest", name, False, reason, subjects=subjects))
            write_out(op, is_written_out)


def composites(module: ModuleOp, context: PassContext) -> list[TensorOp]:
    """The ops of a kernel that the pass writes out."""
    found: list[TensorOp] = []
    for op in walk_ops(kernel_function(module, context.kernel)):
        inside = op.body.block.ops if isinstance(op, FusedOp) else (op,)
        found += [each for each in inside if isinstance(each, TensorOp) and is_written_out(each)]
    return [op for op in found if not is_kept_whole(op, context.facts)]
