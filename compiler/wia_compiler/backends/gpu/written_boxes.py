"""Which box of each array a nest writes: what launches that write parts of one array go by.

::

    for %i0 in 100 step 8 @grid, %j0 in 40 step 64 @grid
      map bounds (%i0 + i < 100, %j0 + j < 40)
        Y[%i0 + i, %j0 + j + 30] = …                Y: 0 … 99, 30 … 69
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerType, MemRefType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import Range, linear_form, range_of
from wia_compiler.passes.emit_index import range_of_value
from wia_compiler.passes.tile_rewrites.nest import bounds_of

Box = tuple[Range, ...]
"""The first and the last index of each dimension."""
WRITTEN = "wia.written"
"""Of a kernel: for each array the numbers of its box, two a dimension; none for a whole array."""


def note_written_boxes(nest: FuncOp) -> None:
    """Keep with a nest which arrays it writes a part of, before it is lowered."""
    boxes = [_written_box(parameter) for parameter in nest.body.block.args]
    if any(boxes):
        numbers = [[number for side in box for number in side] for box in boxes]
        nest.attributes[WRITTEN] = ArrayAttr([DenseArrayBase.from_list(i64, n) for n in numbers])


def box_of(kernel: FuncOp, number: int) -> Box | None:
    """What is noted of a kernel's array; ``None`` where it may be written anywhere."""
    noted = cast("ArrayAttr[DenseArrayBase[IntegerType]] | None", kernel.attributes.get(WRITTEN))
    if noted is None or number >= len(noted.data):
        return None
    numbers = noted.data[number].get_values()
    return tuple(zip(numbers[::2], numbers[1::2], strict=True)) or None


def overlap(one: Box | None, other: Box | None) -> bool:
    """Whether two boxes of an array share an element; one that is not known is the whole array."""
    if one is None or other is None:
        return True
    return all(a[0] <= b[1] and b[0] <= a[1] for a, b in zip(one, other, strict=True))


def _written_box(parameter: SSAValue) -> Box:
    """The box that holds all boxes that leaves write; empty where it is the array, or not known."""
    boxes = [_box(use.operation, use.index) for use in parameter.uses]
    known = [box for box in boxes if box is not None]
    if not known or len(known) < len(boxes):
        return ()
    sides = list(zip(*known, strict=True))
    found = tuple((min(low for low, _ in each), max(high for _, high in each)) for each in sides)
    whole = cast("MemRefType[Attribute]", parameter.type).get_shape()
    return () if found == tuple((0, size - 1) for size in whole) else found


def _box(op: Operation, operand: int) -> Box | None:
    """The box that a leaf writes through an operand; ``None`` where that is none of its outputs."""
    if not isinstance(op, ComputeOp):
        return None
    number = operand - len(op.ivs) - len(op.inputs)
    if number < 0:
        return None
    return _within(op, op.output_maps[number].results, op.outputs[number].type)


def _within(leaf: ComputeOp, place: Sequence[AffineExpr], array: Attribute) -> Box | None:
    dims = [(0, size - 1) for size in leaf.sizes]
    symbols = [range_of_value(iv) for iv in leaf.ivs]
    sides: list[Range] = []
    shape = cast("MemRefType[Attribute]", array).get_shape()
    for expression, size in zip(place, shape, strict=True):
        limits = range_of(expression, dims, symbols)
        if limits is None:
            return None
        last = min([limits[1], size - 1, *_bounded(leaf, expression)])
        sides.append((max(limits[0], 0), last))
    return tuple(sides)


def _bounded(leaf: ComputeOp, expression: AffineExpr) -> list[int]:
    """The last index that bounds of the leaf allow: those on the expression but for a constant."""
    found: list[int] = []
    for bounded, limit in bounds_of(leaf):
        apart = linear_form(expression - bounded)
        if not apart.terms:
            found.append(limit - 1 + apart.constant)
    return found
