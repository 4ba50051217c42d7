"""The default schedule: how each nest is dealt out over blocks, warps and threads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.launch import BLOCK_SIZE, MIN_BLOCKS
from wia_compiler.backends.gpu.schedule_contraction import schedule_contraction
from wia_compiler.backends.gpu.schedule_elementwise import schedule_elementwise
from wia_compiler.backends.gpu.schedule_points import schedule_points, split_phases
from wia_compiler.backends.gpu.schedule_rows import schedule_rows
from wia_compiler.base.errors import Diagnostic, TargetError
from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.tile_points import holds_point_code
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.tile_rewrites import leaves_of


@dataclass(frozen=True)
class SchedulePass:
    """Schedule every nest by what it holds: point code, a contraction, reductions, or neither.

    Each schedule gives the number of threads of a block and says in a decision what it chose and
    from which numbers.
    """

    architecture: Architecture

    name: ClassVar[str] = "schedule"
    level: ClassVar[Level] = "mid"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Rewrite each ``wia.nest`` function in place."""
        split_phases(module)
        for op in module.body.block.ops:
            if not isinstance(op, FuncOp) or "wia.nest" not in op.attributes:
                continue
            _refuse_mixed(op, context)
            subjects = tuple(filter(None, (context.id_of(op),)))
            decision = schedule_nest(op, self.architecture)
            context.decisions.append(replace(decision, subjects=subjects))


def schedule_nest(nest: FuncOp, architecture: Architecture) -> Decision:
    """Schedule one nest and set its ``wia.block_size``."""
    kinds = {leaf.kind.data for leaf in leaves_of(nest)}
    if holds_point_code(nest):
        chosen = schedule_points(nest)
    elif kinds & {"contract", "window"}:
        chosen = schedule_contraction(nest)
    elif "reduce" in kinds:
        chosen = schedule_rows(nest, architecture)
    else:
        chosen = schedule_elementwise(nest, architecture)
    nest.attributes[BLOCK_SIZE] = IntegerAttr(chosen.threads, i64)
    if chosen.min_blocks is not None:
        nest.attributes[MIN_BLOCKS] = IntegerAttr(chosen.min_blocks, i64)
    numbers = {"threads": chosen.threads, **chosen.numbers}
    return Decision("schedule", nest.sym_name.data, True, chosen.reason, numbers)


def _refuse_mixed(nest: FuncOp, context: PassContext) -> None:
    """Raise ``TargetError`` for a nest of both sorts: its leaves' axes are not dealt out here."""
    if not holds_point_code(nest) or not leaves_of(nest):
        return
    span = next(iter(spans_of(nest)), None)
    name = nest.sym_name.data
    message = f"a gpu cannot run {name} yet: it mixes leaves with loops that compute by points"
    hint = 'build this kernel for "cpu", or keep that op in a kernel of its own'
    raise TargetError(Diagnostic(message, span, hint, context.source).render())
