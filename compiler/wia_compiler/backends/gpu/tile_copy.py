"""Copies of tiles to shared memory in two halves: what a thread reads, and where it puts that.

Between the halves a block can compute with the tile that it has: the loads are then under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, MemRefType, NoneAttr
from xdsl.ir import Attribute, SSAValue

from wia_compiler.backends.gpu.builder import element_type, shape_of
from wia_compiler.backends.gpu.index import Index, delinearize
from wia_compiler.backends.gpu.leaf import Kernel, Leaf
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.llvm.types import size_bytes, strides_of

VECTOR_BYTES = 16
"""What one thread reads at once."""
SECTOR_BYTES = 32
"""What memory sends at least: neighbouring threads read all of it."""


@dataclass(frozen=True)
class Read:
    """What one chunk of a thread's share holds: elements, and whether they lie inside.

    ``inside`` is ``None`` where they always do; an element outside is to be taken as 0.
    """

    elements: tuple[SSAValue, ...]
    inside: SSAValue | None


class TileCopy:
    """A ``copy`` leaf of a block: chunk ``c`` of the tile is with thread ``c % threads``.

    A chunk is as many neighbours of the last axis as 16 bytes hold, where the source is dense along
    it, aligned, and inside or outside of its edges as one; else a single element. Chunks go along
    the last axis first; where the buffer is turned against the source, only two chunks (one sector
    of 32 bytes) of a row stand side by side, then come rows: with 4 elements of padding a row their
    elements then fall into 32 different banks. Rows that are no whole sectors come one by one.
    """

    def __init__(self, op: ComputeOp, kernel: Kernel):
        self.op = op
        self.kernel = kernel
        self.buffer = op.outputs[0]
        self.sizes = op.sizes
        self.width = 1
        self.width = self._width()
        chunks = prod(self.sizes) // self.width
        self.chunks = chunks
        self.slots = -(-chunks // kernel.threads)

    def read(self) -> list[Read]:
        """The first half: load this thread's chunks at the place where the loops are now."""
        leaf = Leaf(self.op, self.kernel)
        return [self._read(leaf, slot) for slot in range(self.slots)]

    def _read(self, leaf: Leaf, slot: int) -> Read:
        builder = leaf.builder
        exists = builder.within(self._chunk(slot), self.chunks)
        axes = self._axes(slot)
        place = leaf.place(0, axes)
        asked = [builder.within(*bound) for bound in self._tests(leaf, axes)]
        inside = builder.all_of(asked)
        certain = builder.all_of([exists, inside])
        if 0 in shape_of(leaf.inputs[0]):
            zero = builder.number(0, element_type(leaf.inputs[0]))
            return Read((zero,) * self.width, None)
        start = [builder.index(each) for each in place]
        if certain is not None:
            origin = builder.number(0, IndexType())
            start = [builder.add(arith.SelectOp(certain, each, origin)).result for each in start]
        elements: list[SSAValue] = []
        moving = self._moving(0)
        for number in range(self.width):
            indices = list(start)
            if number and moving is not None:
                offset = builder.number(number, IndexType())
                indices[moving] = builder.add(arith.AddiOp(start[moving], offset)).result
            elements.append(builder.add(memref.LoadOp.get(leaf.inputs[0], indices)).res)
        return Read(tuple(elements), inside)

    def put(self, reads: Sequence[Read]) -> None:
        """The second half: write chunks to the buffer, 0 for what lies outside."""
        leaf = Leaf(self.op, self.kernel)
        for slot, each in enumerate(reads):
            exists = leaf.builder.within(self._chunk(slot), self.chunks)
            leaf.builder.when(exists, lambda n=slot, read=each: self._put(leaf, n, read))

    def _put(self, leaf: Leaf, slot: int, read: Read) -> None:
        builder = leaf.builder
        zero = builder.number(0, element_type(self.op.outputs[0]))
        axes = self._axes(slot)
        for number, element in enumerate(read.elements):
            (value,) = leaf.compute([element])
            if read.inside is not None:
                value = builder.add(arith.SelectOp(read.inside, value, zero)).result
            point = [*axes[:-1], axes[-1] + number]
            builder.store(value, leaf.outputs[0], leaf.output_place(0, point))

    def _chunk(self, slot: int) -> Index:
        return self.kernel.thread + slot * self.kernel.threads

    def _axes(self, slot: int) -> tuple[Index, ...]:
        """The first point of a chunk."""
        chunk, last = self._chunk(slot), self.sizes[-1] // self.width
        run = max(1, SECTOR_BYTES // (size_bytes(element_type(self.op.inputs[0])) * self.width))
        if not self._is_turned():
            (*rows, column) = delinearize(chunk, (*self.sizes[:-1], last))
        elif last % run:
            (column, *rows) = delinearize(chunk, (last, *self.sizes[:-1]))
        else:
            sizes = (last // run, *self.sizes[:-1], run)
            (outer, *rows, inner) = delinearize(chunk, sizes)
            column = outer * run + inner
        return (*rows, column * self.width)

    def _is_turned(self) -> bool:
        """Whether neighbours of the source are no neighbours in the buffer."""
        return self._moving(1) != len(shape_of(self.buffer)) - 1

    def _moving(self, operand: int) -> int | None:
        """The dimension of an operand that the last axis moves along, an element a point.

        ``None`` where there is no such one.
        """
        last = len(self.sizes) - 1
        results = self.op.maps.data[operand].data.results
        found = [n for n, result in enumerate(results) if last in result.used_dims()]
        return found[0] if len(found) == 1 else None

    def _tests(self, leaf: Leaf, axes: Sequence[Index]) -> list[tuple[Index, int]]:
        """What must hold at a point: bounds of the leaf, and edges of what is read as padded."""
        tests = leaf.bounds(axes)
        if self.op.is_padded[0]:
            tests += zip(leaf.place(0, axes), shape_of(leaf.inputs[0]), strict=True)
        return tests

    def _width(self) -> int:
        """Elements of a chunk."""
        leaf = Leaf(self.op, self.kernel)
        source = leaf.inputs[0]
        type = cast("MemRefType[Attribute]", source.type)
        moving = self._moving(0)
        if not isinstance(type.layout, NoneAttr) or moving is None or self._moving(1) is None:
            return 1
        width = VECTOR_BYTES // size_bytes(type.element_type)
        while width > 1 and not self._is_whole(leaf, width, moving):
            width //= 2
        return max(width, 1)

    def _is_whole(self, leaf: Leaf, width: int, moving: int) -> bool:
        """Whether ``width`` neighbours lie in one aligned vector, which is inside or is not."""
        if self.sizes[-1] % width:
            return False
        self.width = width
        slots = -(-prod(self.sizes) // (width * self.kernel.threads))
        points = [self._axes(slot) for slot in range(slots)]
        self.width = 1
        return all(self._is_whole_at(leaf, axes, width, moving) for axes in points)

    def _is_whole_at(self, leaf: Leaf, axes: Sequence[Index], width: int, moving: int) -> bool:
        """The same of the chunks that begin at ``axes``: threads may have other rows in each."""
        first, second = (leaf.place(0, (*axes[:-1], axes[-1] + n)) for n in (0, 1))
        if second != (*first[:moving], first[moving] + 1, *first[moving + 1 :]):
            return False
        address = Index()
        strides = strides_of(cast("MemRefType[Attribute]", leaf.inputs[0].type))
        for each, stride in zip(first, strides, strict=True):
            address += each * stride
        if not _is_multiple(address, width):
            return False
        tests = self._tests(leaf, axes)
        last = self._tests(leaf, (*axes[:-1], axes[-1] + (width - 1)))
        return all(_same_answer(*each) for each in zip(tests, last, strict=True))


def _is_multiple(index: Index, factor: int) -> bool:
    return index.constant % factor == 0 and all(each % factor == 0 for _, each in index.terms)


def _same_answer(first: tuple[Index, int], last: tuple[Index, int]) -> bool:
    """Whether two tests that differ by a constant give one answer, as those between them do."""
    (low, limit), (high, _) = first, last
    if low == high:
        return True
    smallest, largest = low.range[0], high.range[1]
    if smallest >= 0 and largest < limit:
        return True
    common = gcd(*(factor for _, factor in low.terms)) if low.terms else 1
    if low.terms != high.terms or common <= 1:
        return False
    return (low.constant // common, (limit - low.constant % common + common - 1) // common) == (
        high.constant // common,
        (limit - high.constant % common + common - 1) // common,
    )
