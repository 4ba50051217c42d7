"""Copies of tiles to shared memory by ``cp.async``, past the registers; they arrive later."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType

from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.leaf import Leaf
from wia_compiler.backends.gpu.tile_copy import VECTOR_BYTES, TileCopy
from wia_compiler.dialects.nvgpu import DeviceAsyncCopyOp
from wia_compiler.dialects.tile import YieldOp
from wia_compiler.passes.llvm.types import size_bytes

ASYNC = "wia.async"
"""Attribute of a ``copy`` leaf of a block: the architecture can copy it without registers."""
MOST_CARRIED = 48
"""Elements of a tile that a thread holds beside its sums; more would be spilled."""
ASYNC_BYTES = (4, 8, 16)
"""What one ``cp.async`` copies."""


class AsyncTileCopy(TileCopy):
    """A ``copy`` leaf whose chunks are 4, 8 or 16 certain bytes, in the code of one turn.

    What lies outside of the source is written as 0 by the copy itself.
    """

    @property
    def is_async(self) -> bool:
        """Whether the leaf copies without computing, in pieces that ``cp.async`` takes."""
        first = self.op.body.block.first_op
        is_plain = isinstance(first, YieldOp) and len(self.op.inputs) == 1
        size = self.width * size_bytes(element_type(self.buffer))
        return ASYNC in self.op.attributes and is_plain and size in ASYNC_BYTES

    @property
    def is_carried(self) -> bool:
        """Whether registers hold a thread's share while the block computes: not too much of it."""
        return not self.is_async and self.slots * self.width <= MOST_CARRIED

    def issue(self) -> None:
        """Start the copies at the place where the loops are now."""
        leaf = Leaf(self.op, self.kernel)
        for slot in range(self.slots):
            exists = leaf.builder.within(self._chunk(slot), self.chunks)
            leaf.builder.when(exists, lambda n=slot: self._copy(leaf, n))

    def _copy(self, leaf: Leaf, slot: int) -> None:
        builder = leaf.builder
        axes = self._axes(slot)
        inside = builder.all_of([builder.within(*test) for test in self._tests(leaf, axes)])
        given = None
        if inside is not None:
            whole, none = (builder.number(each, IndexType()) for each in (self.width, 0))
            given = builder.add(arith.SelectOp(inside, whole, none)).result
        op = DeviceAsyncCopyOp(
            leaf.inputs[0],
            [builder.index(each) for each in leaf.place(0, axes)],
            leaf.outputs[0],
            [builder.index(each) for each in leaf.output_place(0, axes)],
            self.width,
            given=given,
            bypasses_l1=self.width * size_bytes(element_type(self.buffer)) == VECTOR_BYTES,
        )
        builder.add(op)
