"""Writes composite ops in the primitives that the mid level knows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from wia_compiler.base.record import Level
from wia_compiler.dialects.wia.ops import FusedOp, TensorOp
from wia_compiler.passes.control_flow import walk_ops
from wia_compiler.passes.decomposing.kept import is_kept_whole
from wia_compiler.passes.decomposing.rows import decomposition_of
from wia_compiler.passes.decomposing.write_out import write_out
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.fusing.build import fuse
from wia_compiler.passes.kernel_function import kernel_function


@dataclass(frozen=True)
class Decompose:
    """Replaces every op that is not primitive by primitives, as ``decomposing.rows`` says.

    ``%1 = wia.softmax %x`` →
    ``wia.fused @softmax (%x) { reduce_max … sub … exp … reduce_sum … div }``.
    An op of a block that no kernel holds yet is put into one of its own, so that what it becomes
    stays together. Folds of f16 and bf16 are carried in f32 and rounded once.
    """

    name: ClassVar[str] = "decompose"
    level: ClassVar[Level] = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Decompose the ops of the context's kernel."""
        function = kernel_function(module, context.kernel)
        names = {op.kernel_name.data for op in function.walk() if isinstance(op, FusedOp)}
        for op in walk_ops(function):
            if isinstance(op, FusedOp):
                if not _is_whole(op.body.block.ops, context.facts):
                    _decompose_all(op.body.block.ops)
            elif isinstance(op, TensorOp) and is_kept_whole(op, context.facts):
                continue
            elif isinstance(op, TensorOp) and decomposition_of(op) is not None:
                if op.declaration.family == "movement" or op.parent_op() is not function:
                    _decompose_all([op])
                else:
                    _decompose_all(fuse([op], [op], names).body.block.ops)


def _is_whole(ops: Iterable[Operation], facts: TargetFacts) -> bool:
    """Whether the ops of a kernel are one op that nests are made of as it is."""
    made = [op for op in ops if isinstance(op, TensorOp)]
    return len(made) == 1 and is_kept_whole(made[0], facts)


def _decompose_all(ops: Iterable[Operation]) -> None:
    for op in list(ops):
        if isinstance(op, TensorOp):
            write_out(op, lambda each: decomposition_of(each) is not None)
