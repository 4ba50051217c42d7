"""Whether threads may share a loop: what two of its iterations would both write."""

from __future__ import annotations

from xdsl.dialects import memref
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineSymExpr

from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.dialects.tile_check import CheckOp
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.tile_rewrites.levels import is_folded
from wia_compiler.passes.tile_rewrites.nest import scope_of


def why_not_shared(loop: ForOp) -> str | None:
    """Why threads that share memory may not share a loop's iterations; ``None`` where they may.

    The iterations of a ``tile.for`` may run in any order, but for a folded axis. To run at once
    they must also write different elements: a buffer that was made outside the loop is one for all
    of them. And of the checks that fail the first in order is reported, so that loops that check
    indices as they run stay on one thread.
    """
    name = loop.axis.data
    if is_folded(loop):
        return f"{name} walks a folded axis: its iterations add to the same elements"
    for op in loop.walk():
        if isinstance(op, CheckOp):
            return f"{name} checks indices as it runs, and the first that fails is reported"
        for buffer in _overwritten(op, loop):
            buffer_name = buffer.name_hint or "a buffer"
            return f"every iteration of {name} writes the same elements of {buffer_name}"
    return None


def _overwritten(op: Operation, loop: ForOp) -> list[SSAValue]:
    """What was made outside the loop and is written by an op where no index follows the loop."""
    if isinstance(op, memref.StoreOp):
        follows = any(_follows(index, loop) for index in op.indices)
        # Point code in main memory: whoever made this a tile loop has looked at its indices.
        is_shared = scope_of(op.memref) != "" and not _is_inside(op.memref, loop)
        return [op.memref] if is_shared and not follows else []
    if not isinstance(op, ComputeOp):
        return []
    found: list[SSAValue] = []
    for target, each in zip(op.outputs, op.output_maps, strict=True):
        read = {
            op.ivs[atom.position]
            for result in each.results
            for atom in atoms(result)
            if isinstance(atom, AffineSymExpr)
        }
        if loop.induction_variable not in read and not _is_inside(target, loop):
            found.append(target)
    return found


def _follows(index: SSAValue, loop: ForOp) -> bool:
    """Whether an index is computed from the loop's variable."""
    pending, seen = [index], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value is loop.induction_variable:
            return True
        if value not in seen and isinstance(value.owner, Operation):
            seen.add(value)
            pending += value.owner.operands
    return False


def _is_inside(value: SSAValue, loop: ForOp) -> bool:
    owner = value.owner
    parent = owner.parent_op() if isinstance(owner, Block) else owner
    return parent is not None and loop.is_ancestor(parent)
