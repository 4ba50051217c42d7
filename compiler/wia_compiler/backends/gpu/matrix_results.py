"""Results of a product, from accumulators to memory: each warp through shared memory of its own.

A lane has two neighbours of each of some rows, which as they are would be written 4 or 8 bytes at a
time. A warp therefore writes 16 rows of its part to shared memory and reads them back in vectors of
16 bytes along the rows: neighbouring lanes then store neighbours. What the map computes (bias,
activation, a residual, the conversion) it computes before, in the registers of the accumulators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import gpu, memref, vector
from xdsl.dialects.builtin import (
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StringAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr

from wia_compiler.backends.gpu.architecture import WARP_SIZE
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.index import Index
from wia_compiler.backends.gpu.layouts import MMA_ROWS, Fragment
from wia_compiler.backends.gpu.leaf import Kernel, Leaf
from wia_compiler.backends.gpu.shared_memory import REUSES
from wia_compiler.backends.gpu.swizzle import CHUNK_BYTES, Rows, Swizzle
from wia_compiler.dialects.nvvm_warp import BarWarpSyncOp
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.dialects.vector_elements import FromElementsOp
from wia_compiler.passes.llvm.types import size_bytes, strides_of
from wia_compiler.passes.tile_rewrites import scope_of

_LANES_OF_ROW = 4
"""Lanes that have neighbours in one row of accumulators."""
_ALL_LANES = -1


def accumulators_of(op: ComputeOp, kernel: Kernel) -> int | None:
    """The input of a map from accumulators of ``mma.sync`` to main memory that lies in them.

    ``None`` for any other leaf.
    """
    if op.kind.data != "map" or op.level.data != "block":
        return None
    if any(scope_of(value) != "" for value in op.outputs):
        return None
    wide = {axis for axis, size in enumerate(op.sizes) if size > 1}
    for number, value in enumerate(op.inputs):
        layout = kernel.distributed.get(value)
        used = {axis for result in op.input_maps[number].results for axis in result.used_dims()}
        if isinstance(layout, Fragment) and _is_mma(layout) and wide <= used:
            return number
    return None


def _is_mma(layout: Fragment) -> bool:
    """Whether it is of a tile: what lies beside one, a value of each row, has one dimension."""
    if sum(size > 1 for size in layout.shape) < 2:
        return False
    return tuple(digit.count for digit in layout.thread_digits[:2]) == (_LANES_OF_ROW, 8)


def lower_results(leaf: Leaf, number: int) -> None:
    """Emit such a leaf, whose input ``number`` lies in accumulators."""
    builder = leaf.builder
    # Tiles that other warps still read lie where the rows go.
    builder.add(gpu.BarrierOp())
    work = _Results(leaf, number)
    inside = leaf.condition(work.last_point())
    if inside is None:
        work.write(checked=False)
        return

    def write(checked: bool) -> Sequence[SSAValue]:
        work.write(checked=checked)
        return ()

    builder.either(inside, lambda: write(False), lambda: write(True))


@dataclass(frozen=True)
class _Rows:
    """Where the rows of a warp wait: ``buffer`` has 16 of each warp, swizzled."""

    buffer: SSAValue
    swizzle: Swizzle


class _Results:
    """One map: ``rows`` and ``columns`` are axes of the leaf, ``width`` a warp's columns."""

    def __init__(self, leaf: Leaf, number: int):
        layout = leaf.kernel.distributed[leaf.op.inputs[number]]
        assert isinstance(layout, Fragment)
        self.leaf = leaf
        self.number = number
        self.layout = layout
        self.axes = _axes(leaf, number)
        large = [dimension for dimension, size in enumerate(layout.shape) if size > 1]
        self.row_dimension, self.column_dimension = large[-2:]
        self.strips = layout.slot_digits[-1].count
        self.strip_slots = layout.slots // self.strips
        self.width = self.strip_slots * WARP_SIZE // MMA_ROWS
        self.warps = layout.threads // WARP_SIZE
        self.places = [self._rows(output) for output in range(len(leaf.outputs))]

    def last_point(self) -> tuple[Index, ...]:
        """The last point of the block's tile."""
        return self._point(tuple(Index((), size - 1) for size in self.layout.shape))

    def write(self, *, checked: bool) -> None:
        """Write all strips of 16 rows; ``checked`` asks of each point whether it is there."""
        for strip in range(self.strips):
            first = strip * self.strip_slots
            slots = range(first, first + self.strip_slots)
            values = [self._compute(slot, checked) for slot in slots]
            for output in range(len(self.leaf.outputs)):
                self._put(output, slots, [each[output] for each in values])
                self._warp_barrier()
                self._store(output, strip, checked)
                if strip + 1 < self.strips or output + 1 < len(self.leaf.outputs):
                    self._warp_barrier()

    def _compute(self, slot: int, checked: bool) -> Sequence[SSAValue]:
        """What the map gives at the point of a slot; 0 where there is none."""
        leaf = self.leaf
        point = self._point(self.layout.place(slot, leaf.kernel.thread))

        def values() -> Sequence[SSAValue]:
            return leaf.compute([self._read(n, slot, point) for n in range(len(leaf.inputs))])

        inside = leaf.condition(point) if checked else None
        if inside is None:
            return values()
        zeros = [leaf.builder.number(0, element_type(output)) for output in leaf.outputs]
        return leaf.builder.either(inside, values, lambda: zeros)

    def _read(self, number: int, slot: int, point: Sequence[Index]) -> SSAValue:
        if self.leaf.op.inputs[number] in self.leaf.kernel.distributed:
            own = slot if number == self.number else self._slot_beside(number, slot)
            return self.leaf.builder.load(self.leaf.inputs[number], (Index((), own),))
        return self.leaf.read(number, point)

    def _slot_beside(self, number: int, slot: int) -> int:
        """The slot of another buffer in registers: the same layout, or a slice of it."""
        axes = _axes(self.leaf, number)
        kept = [self.axes.index(axis) for axis in axes if axis is not None]
        return self.layout.slot_along(kept, slot)

    def _put(self, output: int, slots: Sequence[int], values: Sequence[SSAValue]) -> None:
        """Write a lane's elements to the rows of its warp, neighbours as one vector."""
        builder, rows = self.leaf.builder, self.places[output]
        thread = self.leaf.kernel.thread
        origin = self.layout.warp_origin(thread)
        placed: list[tuple[Index, Index, SSAValue]] = []
        for slot, value in zip(slots, values, strict=True):
            place = self.layout.place(slot, thread)
            row = place[self.row_dimension] + origin[self.row_dimension] * -1
            column = place[self.column_dimension] + origin[self.column_dimension] * -1
            placed.append((self._kept_at(row.modulo(MMA_ROWS)), column, value))
        for row, column, run in _runs(placed):
            type = VectorType(run[0].type, [len(run)])
            whole = run[0] if len(run) == 1 else _vector(self.leaf, run, type)
            at = [self._own_row(row), rows.swizzle.place(builder, row, column)]
            if len(run) == 1:
                builder.store(whole, rows.buffer, at)
            else:
                _vector_store(self.leaf, whole, rows.buffer, at, len(run))

    @property
    def _are_paired(self) -> bool:
        """Whether neighbouring lanes have every second row (``AccumulatorLayout``)."""
        return self.layout.thread_digits[1].step == 2

    def _kept_at(self, row: Index) -> Index:
        """Where a row of a strip waits: rows that lanes write together are neighbours."""
        return row.floor_divide(2) + row.modulo(2) * 8 if self._are_paired else row

    def _row_at(self, place: Index) -> Index:
        """The row that waits at a place."""
        return place.modulo(8) * 2 + place.floor_divide(8) if self._are_paired else place

    def _own_row(self, row: Index) -> Index:
        """A row of a warp in the buffer of all of them."""
        return self.leaf.kernel.thread.floor_divide(WARP_SIZE) * MMA_ROWS + row

    def _store(self, output: int, strip: int, checked: bool) -> None:
        """Read rows back and store them, as many neighbours at once as is certain."""
        leaf, rows = self.leaf, self.places[output]
        width = self._certain(output, strip)
        lane = leaf.kernel.thread.modulo(WARP_SIZE)
        pieces = self.width // width
        for turn in range(MMA_ROWS * pieces // WARP_SIZE):
            piece = lane + turn * WARP_SIZE
            row, column = piece.floor_divide(pieces), piece.modulo(pieces) * width
            point = self._global_point(strip, self._row_at(row), column)

            def copy(
                row: Index = row, column: Index = column, point: tuple[Index, ...] = point
            ) -> None:
                at = [self._own_row(row), rows.swizzle.place(leaf.builder, row, column)]
                target = leaf.output_place(output, point)
                if width == 1:
                    value = leaf.builder.load(rows.buffer, at)
                    leaf.builder.store(value, leaf.outputs[output], target)
                    return
                whole = _vector_load(leaf, rows.buffer, at, width)
                _vector_store(leaf, whole, leaf.outputs[output], target, width)

            leaf.builder.when(leaf.condition(point) if checked else None, copy)

    def _global_point(self, strip: int, row: Index, column: Index) -> tuple[Index, ...]:
        """The point of the leaf in a row of a strip of this warp."""
        place = list(self.layout.warp_origin(self.leaf.kernel.thread))
        place[self.row_dimension] += row + strip * MMA_ROWS
        place[self.column_dimension] += column
        return self._point(tuple(place))

    def _point(self, place: tuple[Index, ...]) -> tuple[Index, ...]:
        axes = [Index() for _ in self.leaf.sizes]
        for axis, index in zip(self.axes, place, strict=True):
            if axis is not None:
                axes[axis] = index
        return tuple(axes)

    def _certain(self, output: int, strip: int) -> int:
        """Neighbours along a row that lie in one aligned vector, inside the edges or outside."""
        leaf = self.leaf
        type = cast("MemRefType[Attribute]", leaf.outputs[output].type)
        width = min(CHUNK_BYTES // size_bytes(type.element_type), self.width)
        while width > 1 and not self._is_whole(output, strip, width):
            width //= 2
        return max(width, 1)

    def _is_whole(self, output: int, strip: int, width: int) -> bool:
        leaf = self.leaf
        type = cast("MemRefType[Attribute]", leaf.outputs[output].type)
        if not isinstance(type.layout, NoneAttr):
            return False
        lane = leaf.kernel.thread.modulo(WARP_SIZE)
        pieces = self.width // width
        row, column = lane.floor_divide(pieces), lane.modulo(pieces) * width
        first = self._global_point(strip, self._row_at(row), column)
        second = self._global_point(strip, self._row_at(row), column + 1)
        places = [leaf.output_place(output, point) for point in (first, second)]
        if places[1] != (*places[0][:-1], places[0][-1] + 1):
            return False
        address = Index()
        for each, stride in zip(places[0], strides_of(type), strict=True):
            address += each * stride
        bounds = [
            each
            for each, other in zip(leaf.bounds(first), leaf.bounds(second), strict=True)
            if each != other
        ]
        return _is_multiple(address, width) and all(
            _is_multiple(index + -limit, width) for index, limit in bounds
        )

    def _rows(self, output: int) -> _Rows:
        """Shared memory for 16 rows of each warp, over what the tiles of the product took."""
        builder = self.leaf.builder
        element = element_type(self.leaf.outputs[output])
        size = size_bytes(element)
        shape = [self.warps * MMA_ROWS, self.width]
        space = MemRefType(element, shape, memory_space=StringAttr("shared"))
        made = memref.AllocOp([], [], space)
        made.attributes[REUSES] = IntegerAttr(output, i64)
        made.memref.name_hint = "rows"
        buffer = builder.at_entry(made).memref
        first = [digit for digit in self.layout.slot_digits if digit.step]
        paired_columns = first[0].step == 2
        neighbours = 4 if paired_columns else 2
        kinds: dict[int, Rows] = {1: "rows", 2: "quads"}
        together = max(1, _LANES_OF_ROW * neighbours * size // CHUNK_BYTES)
        return _Rows(
            buffer,
            Swizzle(kinds.get(together, "halves"), self.width * size, size),
        )

    def _warp_barrier(self) -> None:
        builder = self.leaf.builder
        builder.add(BarWarpSyncOp(builder.number(_ALL_LANES, i32)))


def _axes(leaf: Leaf, number: int) -> tuple[int | None, ...]:
    """The axis that each dimension of a buffer in registers is."""
    return tuple(
        result.position if isinstance(result, AffineDimExpr) else None
        for result in leaf.op.maps.data[number].data.results
    )


def _runs(
    placed: Sequence[tuple[Index, Index, SSAValue]],
) -> list[tuple[Index, Index, list[SSAValue]]]:
    """Neighbours along a row together: 2, or 4 where two tiles of columns lie in one another."""
    rows: dict[Index, dict[int, SSAValue]] = {}
    for row, column, value in placed:
        rows.setdefault(row, {})[column.constant] = value
    variable = placed[0][1].without_constant
    found: list[tuple[Index, Index, list[SSAValue]]] = []
    for row, columns in rows.items():
        for column in sorted(columns):
            last = found[-1] if found else None
            if (
                last is not None
                and last[0] == row
                and last[1].constant + len(last[2]) == column
                and len(last[2]) < 4
            ):
                last[2].append(columns[column])
            else:
                found.append((row, variable + column, [columns[column]]))
    return found


def _is_multiple(index: Index, factor: int) -> bool:
    return index.constant % factor == 0 and all(each % factor == 0 for _, each in index.terms)


def _vector(leaf: Leaf, values: Sequence[SSAValue], type: VectorType[Attribute]) -> SSAValue:
    return leaf.builder.add(FromElementsOp(values, type)).dest


def _aligned(leaf: Leaf, buffer: SSAValue, width: int) -> IntegerAttr:
    return IntegerAttr(width * size_bytes(element_type(buffer)), i64)


def _vector_load(leaf: Leaf, buffer: SSAValue, place: Sequence[Index], width: int) -> SSAValue:
    builder = leaf.builder
    type = VectorType(element_type(buffer), [width])
    op = vector.LoadOp(buffer, [builder.index(each) for each in place], type)
    op.attributes["wia.alignment"] = _aligned(leaf, buffer, width)
    return builder.add(op).result


def _vector_store(
    leaf: Leaf, value: SSAValue, buffer: SSAValue, place: Sequence[Index], width: int
) -> None:
    builder = leaf.builder
    op = vector.StoreOp(value, buffer, [builder.index(each) for each in place])
    op.attributes["wia.alignment"] = _aligned(leaf, buffer, width)
    builder.add(op)
