"""What an op costs by its declaration, and what such a count means in a kernel that branches."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from wia_compiler.base.record import Decision
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.control_flow import has_loop
from wia_compiler.passes.framework import PassContext


def flops_of(function: FuncOp) -> int:
    """The operations of a specialised function: those of each of its ops, once.

    A branch that is not taken is counted too, and the body of a loop once: how often they run is
    not known before the data are.
    """
    return sum(_flops(op) for op in function.body.walk())


def _flops(op: Operation) -> int:
    return op.flops if isinstance(op, TensorOp) else 0


def counting_note(function: FuncOp, context: PassContext) -> list[Decision]:
    """For the record of a kernel that branches: what its number of FLOPs counts."""
    blocks = len(function.body.blocks)
    if blocks == 1:
        return []
    loops = "the body of a loop is counted once, " if has_loop(function.body) else ""
    reason = (
        f"every op is counted once, on both ways of a branch; {loops}how often a block runs "
        "depends on the data"
    )
    flops = flops_of(function)
    return [Decision("count", "FLOPs", True, reason, {"flops": flops, "blocks": blocks})]
