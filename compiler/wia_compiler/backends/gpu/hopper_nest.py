"""The parts of a nest that ``hopper_schedule`` tiled, and where its operands lie in shared memory.

A tile of an operand is cut into *panels* with rows of 128 bytes, which is what a tensor map
swizzles: one panel where the rows go along the folded axis, else one for each 64 elements of the
operand's own axis::

    K-major     128 rows × 64 of k            transposed   panels × 64 of k × 64 of the row
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block

from wia_compiler.backends.gpu.builder import element_type, shape_of
from wia_compiler.backends.gpu.hopper_schedule import WARPGROUP_ROWS, WARPGROUP_THREADS
from wia_compiler.backends.gpu.layouts import Digit, Fragment
from wia_compiler.dialects.gpu_memory import WORKGROUP
from wia_compiler.dialects.loop_hints import hints_of
from wia_compiler.dialects.nvgpu_hopper_types import TensorMapType
from wia_compiler.dialects.nvgpu_warpgroup import ROW_BYTES
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.affine import linear_form
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import axis_of, leaves_of


@dataclass(frozen=True)
class TileOperand:
    """One operand of the product: the leaf that copies its tile, and the form of that.

    ``rows`` are the elements along the operand's own axis, ``depth`` those along the folded one,
    ``offset`` is where in a stage its bytes begin.
    """

    copy: ComputeOp
    element: Attribute
    rows: int
    depth: int
    transposed: bool
    offset: int

    @property
    def size_bytes(self) -> int:
        """Of the tile, which is what its copies bring."""
        return self.rows * self.depth * size_bytes(self.element)

    @property
    def panels(self) -> int:
        """Copies that a tile takes."""
        return self.rows // self.panel_rows if self.transposed else 1

    @property
    def panel_rows(self) -> int:
        """Elements of the operand's own axis in the 128 bytes of a transposed panel's row."""
        return ROW_BYTES // size_bytes(self.element)

    def tensor_map(self) -> TensorMapType:
        """The box of one panel: 1 along the dimensions that the tile does not walk."""
        box: list[int] = []
        for result in self.copy.input_maps[0].results:
            axes = [self.copy.sizes[each] for each in sorted(result.used_dims())]
            box.append(prod(axes))
        if self.transposed:
            box[-1] = self.panel_rows
        return TensorMapType.of(_shared(self.element, box), "swizzle_128b")

    def panel_type(self) -> MemRefType[Attribute]:
        """One panel in shared memory, as a copy fills it."""
        return self.tensor_map().tensor

    def part_type(self, rows: int) -> MemRefType[Attribute]:
        """So many rows of the tile, as ``wgmma`` reads them."""
        if not self.transposed:
            return _shared(self.element, [rows, self.depth])
        return _shared(self.element, [rows // self.panel_rows, self.depth, self.panel_rows])


@dataclass(frozen=True)
class HopperNest:
    """A nest in parts: loops over tiles, the sums, the loop over steps of the fold, the epilogue.

    ``batches`` are the loops over other axes, outside of those over ``rows`` and ``columns``.
    """

    batches: tuple[ForOp, ...]
    rows: ForOp
    columns: ForOp
    sums: memref.AllocOp
    steps: ForOp
    a: TileOperand
    b: TileOperand
    epilogue: tuple[ComputeOp, ...]

    @property
    def stages(self) -> int:
        """Steps whose tiles are in shared memory at a time."""
        return hints_of(self.steps).pipeline

    @property
    def stage_bytes(self) -> int:
        """Shared memory of one stage."""
        return self.a.size_bytes + self.b.size_bytes

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply, 64 rows each."""
        return self.a.rows // WARPGROUP_ROWS

    def layout(self) -> Fragment:
        """How the sums lie across the consumers' threads (PTX ISA, fragments of wgmma's D).

        Thread ``128 c + 32 w + 4 g + t`` holds of each 8 columns rows ``64 c + 16 w + g`` and 8
        below, columns ``2 t`` and ``2 t + 1``.
        """
        shape = shape_of(self.sums.memref)
        large = [number for number, size in enumerate(shape) if size > 1]
        rows, columns = large[-2:]
        threads = (Digit(4, columns, 2), Digit(8, rows, 1), Digit(4 * self.consumers, rows, 16))
        slots = (Digit(2, columns, 1), Digit(2, rows, 8), Digit(shape[columns] // 8, columns, 8))
        return Fragment(shape, threads, slots)

    @property
    def consumer_threads(self) -> int:
        """Threads of all consumers: the first ones of the block."""
        return self.consumers * WARPGROUP_THREADS


def read_nest(nest: FuncOp) -> HopperNest:
    """Take a tiled nest apart."""
    loops = _grid(nest.body.block)
    body = loops[-1].body.block
    (steps,) = [op for op in body.ops if isinstance(op, ForOp)]
    (product,) = [op for op in steps.body.block.ops if _is_kind(op, "contract")]
    assert isinstance(product, ComputeOp)
    sums = product.outputs[0].owner
    assert isinstance(sums, memref.AllocOp)
    epilogue = [op for op in leaves_of(nest) if steps.is_before_in_block(op)]
    kept = _kept_axes(product)
    rows, columns = (next(loop for loop in loops if axis_of(loop) == axis) for axis in kept)
    fills = {op.outputs[0]: op for op in leaves_of(nest) if op.kind.data == "copy"}
    sides = sorted(range(2), key=lambda number: kept[0] not in _walked(product, number))
    copies = [fills[product.inputs[number]] for number in sides]
    a = _operand(copies[0], axis_of(rows), 0)
    b = _operand(copies[1], axis_of(columns), a.size_bytes)
    batches = tuple(loop for loop in loops if loop not in (rows, columns))
    return HopperNest(batches, rows, columns, sums, steps, a, b, tuple(epilogue))


def _grid(body: Block) -> list[ForOp]:
    """The chain of grid loops."""
    found: list[ForOp] = []
    while isinstance(loop := body.first_op, ForOp) and loop.level.data == "grid":
        found.append(loop)
        body = loop.body.block
    return found


def _is_kind(op: object, kind: str) -> bool:
    return isinstance(op, ComputeOp) and op.kind.data == kind


def _kept_axes(product: ComputeOp) -> list[str]:
    """The axes of rows and columns: those of a tile's sums with more than one point."""
    return [
        name
        for name, size, folded in zip(
            product.axis_names, product.sizes, product.reductions, strict=True
        )
        if size > 1 and not folded
    ]


def _walked(leaf: ComputeOp, number: int) -> set[str]:
    used = {axis for result in leaf.input_maps[number].results for axis in result.used_dims()}
    return {leaf.axis_names[axis] for axis in used}


def _operand(copy: ComputeOp, side: str, offset: int) -> TileOperand:
    sizes = dict(zip(copy.axis_names, copy.sizes, strict=True))
    rows = sizes.pop(side)
    (depth,) = (size for size in sizes.values() if size > 1)
    last = linear_form(copy.input_maps[0].results[-1]).expression().used_dims()
    transposed = {copy.axis_names[axis] for axis in last} == {side}
    element = element_type(copy.inputs[0])
    return TileOperand(copy, element, rows, depth, transposed, offset)


def _shared(element: Attribute, shape: Sequence[int]) -> MemRefType[Attribute]:
    return MemRefType(element, shape, memory_space=WORKGROUP)


def register_type(element: Attribute, slots: int) -> MemRefType[Attribute]:
    """The sums of one thread."""
    return MemRefType(element, [slots], memory_space=StringAttr("register"))
