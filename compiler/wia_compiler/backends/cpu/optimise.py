"""Which code LLVM's optimiser still has something to do for."""

from __future__ import annotations

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.ir import Operation

from wia_compiler.dialects.walk import walk


def needs_optimiser(module: ModuleOp) -> bool:
    """Whether a lowered module has innermost loops that work on scalars in memory.

    Those are vectorised, unrolled and cleared of what does not change from one turn to the next,
    which takes LLVM longer than all else. Code that is written in vectors already has its loops
    unrolled and its registers filled: it runs as fast without.
    """
    return any(isinstance(op, _LOOPS) and _is_scalar_loop(op) for op in walk(module))


_LOOPS = (scf.ForOp, scf.WhileOp)


def _is_scalar_loop(loop: Operation) -> bool:
    touches_memory = False
    for op in walk(loop):
        if op is not loop and isinstance(op, _LOOPS):
            return False
        if any(isinstance(value.type, VectorType) for value in (*op.operands, *op.results)):
            return False
        touches_memory |= isinstance(op, memref.LoadOp | memref.StoreOp)
    return touches_memory
