"""Results of a warpgroup's product, from its accumulators to memory in vectors of 16 bytes.

The four lanes of a quad have two neighbours each of every 8 columns of a row: 4 bytes of 16-bit
results. Of four such groups of columns beside one another, each lane takes one whole::

    lane 0 has a0 b0 c0 d0          lane 0 stores a0 a1 a2 a3     16 bytes
    lane 1     a1 b1 c1 d1    →     lane 1        b0 b1 b2 b3
    lane 2     a2 b2 c2 d2          lane 2        c0 c1 c2 c3
    lane 3     a3 b3 c3 d3          lane 3        d0 d1 d2 d3

by two exchanges with the lane that differs in one bit. Nothing goes through shared memory, which is
full of the next tiles by then. Results of 32 bits fill whole sectors as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import IntegerAttr, MemRefType, NoneAttr, VectorType, i16, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr

from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.exchange import exchange
from wia_compiler.backends.gpu.index import Index
from wia_compiler.backends.gpu.layouts import Digit, Fragment
from wia_compiler.backends.gpu.leaf import Leaf
from wia_compiler.backends.gpu.leaf_fragment import lower_fragment_leaf
from wia_compiler.dialects.vector_elements import FromElementsOp
from wia_compiler.passes.llvm.types import size_bytes, strides_of

QUAD = 4
"""Lanes that share a row of an accumulator."""
GROUP = 8
"""Columns that a quad has side by side: 16 bytes of 16-bit results."""


def lower_hopper_results(leaf: Leaf) -> None:
    """Emit a map of sums in accumulators, by vectors where its result is one of 16 bits."""
    found = _Rows.of(leaf)
    if found is None:
        lower_fragment_leaf(leaf)
    else:
        found.write()


class _Rows:
    """A map whose one output is written in groups of 8 columns.

    ``number`` is the input that lies in accumulators; ``axes`` has the leaf's axis of each
    dimension of it.
    """

    def __init__(self, leaf: Leaf, number: int, layout: Fragment, axes: Sequence[int | None]):
        self.leaf = leaf
        self.number = number
        self.layout = layout
        self.axes = axes
        (self.columns,) = (
            digit.dimension for digit in layout.slot_digits[:1] if digit.dimension is not None
        )

    @staticmethod
    def of(leaf: Leaf) -> _Rows | None:
        """``None`` where vectors are not certain to be aligned, or are of no use."""
        inputs = [n for n, value in enumerate(leaf.op.inputs) if value in leaf.kernel.distributed]
        if len(leaf.outputs) != 1 or len(inputs) != 1:
            return None
        layout = leaf.kernel.distributed[leaf.op.inputs[inputs[0]]]
        type = cast("MemRefType[Attribute]", leaf.outputs[0].type)
        if not isinstance(layout, Fragment) or not isinstance(type.layout, NoneAttr):
            return None
        if size_bytes(type.element_type) != 2 or not _is_accumulator(layout):
            return None
        axes = [
            result.position if isinstance(result, AffineDimExpr) else None
            for result in leaf.op.maps.data[inputs[0]].data.results
        ]
        rows = _Rows(leaf, inputs[0], layout, axes)
        return rows if rows.is_aligned() else None

    def is_aligned(self) -> bool:
        """Whether 8 columns are 16 aligned bytes of the output, all of them inside or outside."""
        leaf = self.leaf
        first, second = (self._point(0, 0, 0, Index((), n)) for n in range(2))
        before, after = (leaf.output_place(0, point) for point in (first, second))
        if after != (*before[:-1], before[-1] + 1):
            return False
        address = Index()
        strides = strides_of(cast("MemRefType[Attribute]", leaf.outputs[0].type))
        for each, stride in zip(before, strides, strict=True):
            address += each * stride
        bounds = [
            (one, limit)
            for (one, limit), (other, _) in zip(
                leaf.bounds(first), leaf.bounds(second), strict=True
            )
            if one != other
        ]
        return _is_multiple(address, GROUP) and all(
            _is_multiple(index + -limit, GROUP) for index, limit in bounds
        )

    def write(self) -> None:
        """All groups of four times 8 columns, row by row."""
        digits = self.layout.slot_digits
        for half in range(digits[1].count):
            for quad in range(digits[2].count // QUAD):
                self._write(half, quad)

    def _slot(self, half: int, group: int, column: int) -> int:
        """The slot of one of a lane's two columns, in a group of 8 and one of two rows."""
        return column + 2 * (half + 2 * group)

    def _point(self, half: int, quad: int, group: int, column: Index) -> tuple[Index, ...]:
        """The point in a row of this lane, at a column of a group of 8 in 32."""
        place = list(self.layout.place(self._slot(half, quad * QUAD + group, 0), self._thread()))
        lane = self._thread().modulo(QUAD)
        place[self.columns] += lane * -2 + column
        found = [Index() for _ in self.leaf.sizes]
        for axis, index in zip(self.axes, place, strict=True):
            if axis is not None:
                found[axis] = index
        return tuple(found)

    def _thread(self) -> Index:
        return self.leaf.kernel.thread

    def _write(self, half: int, quad: int) -> None:
        builder, leaf = self.leaf.builder, self.leaf
        words = [
            self._word(half, quad, group, [self._value(half, quad, group, n) for n in range(2)])
            for group in range(QUAD)
        ]
        lane = self._thread().modulo(QUAD)
        whole = self._turned(words, lane)
        own = self._point(half, quad, 0, lane * GROUP)
        type = VectorType(i32, [QUAD])
        joined = builder.add(FromElementsOp(whole, type)).dest
        element = element_type(leaf.outputs[0])

        def store() -> None:
            values = builder.add(vector.BitcastOp(joined, VectorType(element, [GROUP]))).result
            place = [builder.index(each) for each in leaf.output_place(0, own)]
            op = vector.StoreOp(values, leaf.outputs[0], place)
            op.attributes["wia.alignment"] = IntegerAttr(GROUP * size_bytes(element), i64)
            builder.add(op)

        builder.when(leaf.condition(own), store)

    def _value(self, half: int, quad: int, group: int, column: int) -> SSAValue:
        """What the map gives at one of this lane's own columns; 0 where it is outside."""
        leaf = self.leaf
        slot = self._slot(half, quad * QUAD + group, column)
        lane = self._thread().modulo(QUAD)
        point = self._point(half, quad, group, lane * 2 + column)

        def value() -> Sequence[SSAValue]:
            return leaf.compute(
                [
                    leaf.builder.load(leaf.inputs[n], (Index((), slot),))
                    if n == self.number
                    else leaf.read(n, point)
                    for n in range(len(leaf.inputs))
                ]
            )

        reads = len(leaf.inputs) > 1
        inside = leaf.condition(point) if reads else None
        if inside is None:
            return value()[0]
        zero = leaf.builder.number(0, element_type(leaf.outputs[0]))
        return leaf.builder.either(inside, value, lambda: [zero])[0]

    def _word(self, half: int, quad: int, group: int, pair: Sequence[SSAValue]) -> SSAValue:
        """Two neighbours as one number of 32 bits, the first one low."""
        builder = self.leaf.builder
        low, high = (
            builder.add(arith.ExtUIOp(builder.add(arith.BitcastOp(each, i16)).result, i32)).result
            for each in pair
        )
        shifted = builder.add(arith.ShLIOp(high, builder.number(16, i32))).result
        return builder.add(arith.OrIOp(low, shifted)).result

    def _turned(self, words: Sequence[SSAValue], lane: Index) -> list[SSAValue]:
        """Word ``n`` of every lane to lane ``n``, in the order of the lanes."""
        builder = self.leaf.builder
        turned = list(words)
        for bit in range(2):
            distance = 1 << bit
            is_low = builder.within(lane.floor_divide(distance).modulo(2), 1)
            assert is_low is not None
            for first in (n for n in range(QUAD) if not n & distance):
                low, high = turned[first], turned[first + distance]
                given = builder.add(arith.SelectOp(is_low, high, low)).result
                taken = exchange(builder, given, distance)
                turned[first] = builder.add(arith.SelectOp(is_low, low, taken)).result
                turned[first + distance] = builder.add(arith.SelectOp(is_low, taken, high)).result
        return turned


def _is_accumulator(layout: Fragment) -> bool:
    """Whether lanes lie as ``wgmma`` leaves them, in whole groups of four times 8 columns."""
    first, half, groups, *rest = layout.slot_digits
    columns = first.dimension
    lanes = layout.thread_digits[0]
    return (
        first == Digit(2, columns, 1)
        and all(each.count == 1 for each in rest)
        and half.count == 2
        and groups.dimension == columns
        and groups.step == GROUP
        and groups.count % QUAD == 0
        and lanes == Digit(QUAD, columns, 2)
    )


def _is_multiple(index: Index, factor: int) -> bool:
    return index.constant % factor == 0 and all(each % factor == 0 for _, each in index.terms)
