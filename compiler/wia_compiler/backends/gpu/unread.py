"""Takes away what straight code made needless: buffers nobody reads, arithmetic nobody uses."""

from __future__ import annotations

from xdsl.dialects import memref
from xdsl.ir import Block, Operation

from wia_compiler.passes.tile_rewrites import scope_of


def remove_unread(body: Block) -> None:
    """Erase register buffers that are only written, and arithmetic whose result nothing takes."""
    ops = [op for each in body.ops for op in each.walk()]
    for op in ops:
        if isinstance(op, memref.AllocaOp) and scope_of(op.memref) == "register":
            _remove_buffer(op)
    # Uses come after what they use: from the last op backwards, one pass finds all.
    for op in reversed(ops):
        if op.name.startswith("arith.") and all(r.first_use is None for r in op.results):
            _erase(op)


def _remove_buffer(buffer: memref.AllocaOp) -> None:
    users = [use.operation for use in buffer.memref.uses]
    if not all(isinstance(user, memref.StoreOp) for user in users):
        return
    for user in users:
        _erase(user)
    _erase(buffer)


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()
