"""Tiles in shared memory that one warpgroup copies and others read: stages, barriers, cursors.

A *pipe* is a tile with its stages. Each stage has two barriers: ``full`` ends a phase when the
bytes of its copies are there, ``empty`` when one thread of each reading warp has said so. Both
roles go round the stages in the same order, each with a *cursor* of its own.

::

    producer                              consumers
      wait empty[stage]                     wait full[stage]
      expect full[stage], copies            … products …
      next stage                            arrive empty[stage], next stage
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, MemRefType, StringAttr, i1
from xdsl.ir import Attribute, BlockArgument, SSAValue

from wia_compiler.backends.gpu.builder import Builder, element_type, shape_of
from wia_compiler.backends.gpu.hopper_schedule import WARPGROUP_ROWS
from wia_compiler.backends.gpu.index import Index, evaluate, of_value
from wia_compiler.dialects.gpu_memory import WORKGROUP
from wia_compiler.dialects.nvgpu_hopper_types import TensorMapType
from wia_compiler.dialects.nvgpu_warpgroup import ROW_BYTES
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.llvm.types import size_bytes


@dataclass(frozen=True)
class Pipe:
    """A tile of rows × columns in parts of ``part_rows``, each in panels with rows of 128 bytes.

    ``copies`` are the leaves of the nest that bring it; ``barrier`` is the number of its first
    barrier (the full ones, then the empty ones), ``offset`` where its first stage begins, in bytes.
    """

    buffer: SSAValue
    copies: tuple[ComputeOp, ...]
    part_rows: int
    stages: int
    barrier: int
    offset: int

    @property
    def element(self) -> Attribute:
        return element_type(self.buffer)

    @property
    def panel_columns(self) -> int:
        """Elements in the 128 bytes of a panel's row."""
        return ROW_BYTES // size_bytes(self.element)

    @property
    def panels(self) -> int:
        """Panels of one part."""
        return shape_of(self.buffer)[1] // self.panel_columns

    @property
    def parts(self) -> int:
        return shape_of(self.buffer)[0] // self.part_rows

    @property
    def part_bytes(self) -> int:
        return self.panels * self.part_rows * ROW_BYTES

    @property
    def stage_bytes(self) -> int:
        return self.parts * self.part_bytes

    @property
    def source(self) -> int:
        """Which parameter of the nest it is a tile of."""
        array = self.copies[0].inputs[0]
        assert isinstance(array, BlockArgument)
        return array.index

    def part_type(self) -> MemRefType[Attribute]:
        """One part: what the left operand of a warpgroup, or a whole right operand is."""
        shape = [self.panels, self.part_rows, self.panel_columns]
        return MemRefType(self.element, shape, memory_space=WORKGROUP)

    def tensor_map(self) -> TensorMapType:
        """The box of one panel: 1 along the dimensions that the tile does not walk."""
        sides = {0: self.part_rows, 1: self.panel_columns}
        box: list[int] = []
        for result in self.copies[0].input_maps[0].results:
            (side,) = [sides[axis] for axis in result.used_dims()] or [1]
            box.append(side)
        tile = MemRefType(self.element, box, memory_space=WORKGROUP)
        return TensorMapType.of(tile, "swizzle_128b")

    def boxes(
        self, copy: ComputeOp, symbols: Sequence[Index]
    ) -> list[tuple[int, tuple[Index, ...]]]:
        """Where in a stage each box begins, in bytes, and its place in the array."""
        panel_bytes = self.part_rows * ROW_BYTES
        found: list[tuple[int, tuple[Index, ...]]] = []
        for part in range(self.parts):
            for panel in range(self.panels):
                first = [Index((), part * self.part_rows), Index((), panel * self.panel_columns)]
                place = [evaluate(e, first, symbols) for e in copy.input_maps[0].results]
                found.append((part * self.part_bytes + panel * panel_bytes, tuple(place)))
        return found


def pipe_of(buffer: SSAValue, copies: Sequence[ComputeOp], stages: int, *, is_left: bool) -> Pipe:
    """A pipe before it has a place; the left operand is cut into the rows of each warpgroup."""
    rows = WARPGROUP_ROWS if is_left else shape_of(buffer)[0]
    return Pipe(buffer, tuple(copies), rows, stages, 0, 0)


class Cursor:
    """Where a role stands in a pipe: the stage and the parity of its round, in registers."""

    def __init__(self, builder: Builder, stages: int, *, parity: bool):
        self.builder, self.stages = builder, stages
        self.buffers = [_register(builder, IndexType()), _register(builder, i1)]
        builder.store(builder.number(0, IndexType()), self.buffers[0], _FIRST)
        builder.store(builder.number(int(parity), i1), self.buffers[1], _FIRST)

    def stage(self) -> Index:
        if self.stages == 1:
            return Index()
        return of_value(self.builder.load(self.buffers[0], _FIRST), self.stages)

    def parity(self) -> SSAValue:
        return self.builder.load(self.buffers[1], _FIRST)

    def advance(self) -> None:
        """On to the next stage; the parity changes where they begin again."""
        builder, parity = self.builder, self.parity()
        wraps = builder.number(1, i1)
        if self.stages > 1:
            more = builder.index(self.stage() + 1)
            last = builder.number(self.stages, IndexType())
            wraps = builder.add(arith.CmpiOp(more, last, "eq")).result
            first = builder.number(0, IndexType())
            following = builder.add(arith.SelectOp(wraps, first, more)).result
            following.name_hint = "stage"
            builder.store(following, self.buffers[0], _FIRST)
        turned = builder.add(arith.XOrIOp(parity, wraps)).result
        builder.store(turned, self.buffers[1], _FIRST)


_FIRST = (Index(),)


def _register(builder: Builder, type: Attribute) -> SSAValue:
    space = StringAttr("register")
    return builder.at_entry(memref.AllocaOp.get(type, None, [1], memory_space=space)).memref
