"""Which code LLVM's optimiser still has something to do for."""

from __future__ import annotations

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.ir import Operation

from wia_compiler.dialects.walk import walk

_LOOPS = (scf.ForOp, scf.ParallelOp, scf.WhileOp)


def needs_optimiser(module: ModuleOp) -> bool:
    """Whether a lowered module has innermost loops that work on scalars in memory.

    Those are vectorised, unrolled and cleared of what does not change from one turn to the next,
    which takes LLVM longer than all else. Code that is written in vectors already has its loops
    unrolled and its registers filled: it runs as fast without. So does a loop that only writes,
    to places that do not lie side by side (the border around an image).
    """
    return any(isinstance(op, _LOOPS) and _is_scalar_loop(op) for op in walk(module))


def _is_scalar_loop(loop: Operation) -> bool:
    walks_memory = False
    for op in walk(loop):
        if op is not loop and isinstance(op, _LOOPS):
            return False
        if any(isinstance(value.type, VectorType) for value in (*op.operands, *op.results)):
            return False
        walks_memory |= isinstance(op, memref.LoadOp) or (
            isinstance(op, memref.StoreOp) and _moves_along_rows(op, loop)
        )
    return walks_memory


def _moves_along_rows(store: memref.StoreOp, loop: Operation) -> bool:
    """Whether the last index is anything but a number that does not change in the loop."""
    if not store.indices:
        return False
    owner = store.indices[-1].owner
    if isinstance(owner, Operation):
        return owner.name != "arith.constant" and loop.is_ancestor(owner)
    return owner in {block for region in loop.regions for block in region.blocks}
