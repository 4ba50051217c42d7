"""What an op costs by its declaration, and what such a count means in a kernel that branches."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from wia_compiler.base.record import Decision
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.wia.ops import AnyTensorType, FusedOp, TensorOp
from wia_compiler.passes.control_flow import has_loop
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.loops.flops import nest_flops


def flops_of(function: FuncOp) -> int:
    """The operations of a specialised function: those of each of its ops, once.

    A branch that is not taken is counted too, and the body of a loop once: how often they run is
    not known before the data are. Loops over elements count as often as they run.
    """
    return sum(flops_of_op(op) for block in function.body.blocks for op in block.ops)


def flops_of_op(op: Operation) -> int:
    """The operations of one op of a kernel: its own, those of a fused group or of a nest."""
    match op:
        case TensorOp():
            return op.flops if op.is_specialized else 0
        case FusedOp():
            return sum(flops_of_op(inner) for inner in op.body.block.ops)
        case NestOp() if all(each.type != AnyTensorType() for each in op.outputs):
            return nest_flops(op)
        case _:
            return 0


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
