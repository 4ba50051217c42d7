"""Copies to shared memory by a whole block, where they stand in the code: 16 bytes a thread."""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr

from wia_compiler.backends.gpu.async_copy import ASYNC, AsyncTileCopy
from wia_compiler.backends.gpu.builder import Builder
from wia_compiler.backends.gpu.leaf import Kernel, Leaf
from wia_compiler.dialects.nvgpu import DeviceAsyncCreateGroupOp, DeviceAsyncWaitOp
from wia_compiler.dialects.tile import ComputeOp

CHUNKS = "wia.chunks"
"""Unit attribute of a leaf of one input: threads take chunks of neighbours, not single points."""

CHUNKS_HELD = 4
"""Chunks that a thread loads before it stores them: 16 registers, and as many loads in flight."""


def mark_chunks(op: ComputeOp, *, is_async: bool) -> None:
    """Let a copy go in chunks; ``is_async``: without registers where nothing is computed."""
    op.attributes[CHUNKS] = UnitAttr()
    if is_async:
        op.attributes[ASYNC] = UnitAttr()


def copies_asynchronously(op: ComputeOp) -> bool:
    """Whether a marked leaf may leave copies on their way."""
    return CHUNKS in op.attributes and ASYNC in op.attributes


def lower_chunks(op: ComputeOp, kernel: Kernel) -> None:
    """Emit a marked leaf; what is asynchronous is on its way until ``wait_for_copies``."""
    copy = _ChunkCopy(op, kernel)
    if copy.is_async:
        copy.issue()
    else:
        copy.run()


class _ChunkCopy(AsyncTileCopy):
    """A copy that is done at once, a few chunks in registers at a time."""

    def run(self) -> None:
        """Load some chunks, store them, load the next."""
        leaf = Leaf(self.op, self.kernel)
        for first in range(0, self.slots, CHUNKS_HELD):
            slots = range(first, min(first + CHUNKS_HELD, self.slots))
            for slot, read in [(slot, self._read(leaf, slot)) for slot in slots]:
                exists = leaf.builder.within(self._chunk(slot), self.chunks)
                leaf.builder.when(exists, lambda n=slot, r=read: self._put(leaf, n, r))


def wait_for_copies(builder: Builder) -> None:
    """Until all copies of this thread have arrived; a barrier then shows them to the block."""
    group = builder.add(DeviceAsyncCreateGroupOp())
    builder.add(DeviceAsyncWaitOp(group.asyncToken, 0))
