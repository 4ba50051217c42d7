"""Operands of ``mma.sync``: what each lane of a warp reads of a tile in shared memory.

A step of a product takes 32 bytes of each row along the folded axis, two chunks of 16. Lane
``4 g + t`` has, of a tile whose rows go along that axis, bytes ``4 t … 4 t + 3`` of a chunk of row
``g``: ``ldmatrix`` brings four such registers at once. Where rows go along the operand's own axis
instead, 16-bit elements are turned by ``ldmatrix.trans``; 8-bit ones come by it in pairs and are
sorted in registers; 32-bit ones are read one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import vector
from xdsl.dialects.arith import BitcastOp
from xdsl.dialects.builtin import Float32Type, f32
from xdsl.ir import Attribute, SSAValue

from wia_compiler.backends.gpu.architecture import WARP_SIZE
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.index import Index
from wia_compiler.backends.gpu.leaf import Leaf
from wia_compiler.backends.gpu.matrix_units import STEP_BYTES
from wia_compiler.backends.gpu.swizzle import CHUNK_BYTES
from wia_compiler.dialects.nvgpu import LdMatrixOp, bits_of, fragment_type
from wia_compiler.dialects.nvvm_warp import RoundToTf32Op
from wia_compiler.dialects.vector_elements import ExtractStridedSliceOp, FromElementsOp

OWN_POINTS = 16
"""Rows of the left operand, or columns of the right one, that are read at once."""


@dataclass(frozen=True)
class MatrixOperand:
    """One operand of a contract leaf: input ``number``, whose own axis begins at ``origin``.

    ``own`` and ``fold`` are axes of the leaf, ``is_left`` says which side it is. ``is_turned``:
    rows of the tile go along ``own``.
    """

    leaf: Leaf
    number: int
    own: int
    fold: int
    origin: Index
    is_left: bool

    @property
    def element(self) -> Attribute:
        """Type of its elements."""
        return element_type(self.leaf.inputs[self.number])

    @property
    def is_turned(self) -> bool:
        """Whether rows of the tile go along the operand's own axis."""
        last = self.leaf.op.input_maps[self.number].results[-1]
        return self.own in last.used_dims()

    def read(self, start: int, step: int) -> tuple[SSAValue, ...]:
        """Registers of 16 points of its own axis: one vector of four, or one of two for each 8."""
        whole = self._four(start, step)
        if isinstance(self.element, Float32Type):
            whole = self._rounded(whole)
        if self.is_left:
            return (whole,)
        parts = (ExtractStridedSliceOp(whole, first, 2) for first in (0, 2))
        return tuple(self.leaf.builder.add(part).result for part in parts)

    def _four(self, start: int, step: int) -> SSAValue:
        if not self.is_turned:
            return self._load(self._straight(start, step), turned=False)
        match bits_of(self.element):
            case 16:
                return self._load(self._turned(start, step), turned=True)
            case 8:
                return self._sorted(self._load(self._paired(start, step), turned=True))
            case _:
                return self._words(start, step)

    def _lane(self) -> tuple[Index, Index, Index]:
        """Of the lane that gives a row to ``ldmatrix``: the row, and two bits of the tile."""
        lane = self.leaf.kernel.thread.modulo(WARP_SIZE)
        return lane.modulo(8), lane.floor_divide(8).modulo(2), lane.floor_divide(16)

    def _straight(self, start: int, step: int) -> tuple[Index, Index]:
        """Own point and folded point of the row that a lane gives: rows along the fold."""
        row, low, high = self._lane()
        elements = CHUNK_BYTES * 8 // bits_of(self.element)
        # The left side's tiles go down first, the right side's along the fold.
        down, along = (low, high) if self.is_left else (high, low)
        first = 2 * step * elements
        return row + down * 8 + start, along * elements + first

    def _turned(self, start: int, step: int) -> tuple[Index, Index]:
        """The same for 16-bit rows along the operand's own axis: 8 folded points, 8 own ones."""
        row, low, high = self._lane()
        own, folded = (low, high) if self.is_left else (high, low)
        return own * 8 + start, row + folded * 8 + 2 * step * 8

    def _paired(self, start: int, step: int) -> tuple[Index, Index]:
        """The same for 8-bit rows: tiles of folded points 4 t, 4 t + 1, and of the two after."""
        row, low, high = self._lane()
        points = row.floor_divide(2) * 4 + row.modulo(2) + low * 2
        return Index((), start), points + high * 16 + step * 32

    def _load(self, place: tuple[Index, Index], *, turned: bool) -> SSAValue:
        builder = self.leaf.builder
        indices = [builder.index(each) for each in self._place(*place)]
        buffer = self.leaf.inputs[self.number]
        return builder.add(LdMatrixOp(buffer, indices, 4, transpose=turned)).res

    def _place(self, own: Index, folded: Index) -> tuple[Index, ...]:
        axes = [Index() for _ in self.leaf.sizes]
        axes[self.own], axes[self.fold] = self.origin + own, folded
        return self.leaf.place(self.number, axes)

    def _sorted(self, loaded: SSAValue) -> SSAValue:
        """Bytes of even points, then of odd ones, of two registers each: (0, 1) and (2, 3).

        A register of ``ldmatrix.trans`` has points 2 g and 2 g + 1 at one folded point in its lower
        half, at the next one in its upper half.
        """
        even, odd = ([self._bytes(loaded, 2 * half, odd) for half in (0, 1)] for odd in (0, 1))
        # Of the left side, even and odd rows are the upper and lower half of a tile; of the right
        # side, even and odd columns are tiles of their own.
        if self.is_left:
            order = (even[0], odd[0], even[1], odd[1])
        else:
            order = (even[0], even[1], odd[0], odd[1])
        return self._vector([each for register in order for each in register])

    def _bytes(self, loaded: SSAValue, register: int, odd: int) -> list[SSAValue]:
        builder = self.leaf.builder
        return [
            builder.add(vector.ExtractOp(loaded, [register + n, 2 * m + odd], self.element)).result
            for n in (0, 1)
            for m in (0, 1)
        ]

    def _words(self, start: int, step: int) -> SSAValue:
        """32-bit elements of a turned tile: lane 4 g + t reads folded points t and t + 4."""
        builder = self.leaf.builder
        lane = self.leaf.kernel.thread.modulo(WARP_SIZE)
        g, t = lane.floor_divide(4), lane.modulo(4)
        points = STEP_BYTES // 4
        places = (
            [(8 * down, 4 * along) for along in (0, 1) for down in (0, 1)]
            if self.is_left
            else [(8 * down, 4 * along) for down in (0, 1) for along in (0, 1)]
        )
        buffer = self.leaf.inputs[self.number]
        return self._vector(
            [
                builder.load(buffer, self._place(g + (start + own), t + (folded + step * points)))
                for own, folded in places
            ]
        )

    def _rounded(self, whole: SSAValue) -> SSAValue:
        """f32 rounded to tf32; the unit itself would cut the bits that it does not take."""
        builder = self.leaf.builder
        elements = [
            builder.add(vector.ExtractOp(whole, [register, 0], self.element)).result
            for register in range(4)
        ]
        rounded = [builder.add(RoundToTf32Op(each)).res for each in elements]
        return self._vector([builder.add(BitcastOp(each, f32)).result for each in rounded])

    def _vector(self, elements: Sequence[SSAValue]) -> SSAValue:
        builder = self.leaf.builder
        return builder.add(FromElementsOp(elements, fragment_type(self.element, 4))).dest
