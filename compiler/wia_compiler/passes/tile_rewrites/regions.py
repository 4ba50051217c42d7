"""Copies of the part of an array that a leaf reads, as it lies in the array."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap, AffineSymExpr

from wia_compiler.dialects.tile import ComputeOp, ForOp, YieldOp
from wia_compiler.passes.affine import atoms, linear_form, range_of, simplify
from wia_compiler.passes.emit_index import range_of_value
from wia_compiler.passes.emit_leaf import zero_of
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    axis_of,
    loops_around,
    replace_leaf,
)

_LINE = 16
"""Elements that a fill of a row's margin takes at least: single ones would be scalar stores."""


@dataclass(frozen=True)
class Side:
    """One dimension of a region: where it starts in the array, its size, and a leaf's index in it.

    ``start`` reads the variables of loops around the copy alone.
    """

    name: str
    start: AffineExpr
    size: int
    index: AffineExpr


def stage_region(
    leaf: ComputeOp, operand: int, loop: ForOp, scope: str
) -> tuple[memref.AllocOp, ComputeOp, ComputeOp]:
    """Copy the box of an array that a leaf reads in one iteration of ``loop``, row by row.

    ::

        for %n0 in 8                                  for %n0 in 8
          for %y0 in 56                                 %x_tile = alloc 58 @packed
            window … padded x[%n0, %y0 + r - 1]   →     copy x_tile[y_r] = padded x[%n0, y_r - 1]
                                                        for %y0 in 56
                                                          window … x_tile[0, %y0 + r]

    Every element is copied once, also where windows overlap (``stage_operand`` would copy it for
    each window). What lies outside the array is copied as 0. Rows lie as they do in the array;
    dimensions along which loops move stand before those that the leaf walks alone, so that what it
    reads at once fills few pages of memory. Gives the buffer, the copy, the leaf.
    """
    if not 0 <= operand < len(leaf.inputs):
        raise IllegalRewrite(f"the leaf has {len(leaf.inputs)} inputs, not one numbered {operand}")
    around = loops_around(leaf)
    if loop not in around:
        raise IllegalRewrite(f"{loop.axis.data} is not around the leaf")
    inner = around[around.index(loop) + 1 :]
    sides = _with_names(region_of(leaf, operand, loop))
    order = _order(sides)
    buffer = _allocate(leaf, operand, [sides[number] for number in order], scope)
    copy, *margins = _copies(leaf, operand, sides, order, inner, buffer)
    block = loop.body.block
    first = block.first_op
    assert first is not None
    block.insert_ops_before([buffer, *margins, copy], first)
    rank = (len(leaf.axis_names), len(leaf.ivs))
    maps = [each.data for each in leaf.maps]
    maps[operand] = AffineMap(*rank, tuple(sides[number].index for number in order))
    inputs, padded = list(leaf.inputs), list(leaf.is_padded)
    inputs[operand], padded[operand] = buffer.memref, False
    return buffer, copy, replace_leaf(leaf, inputs=inputs, maps=maps, padded=padded)


def region_of(leaf: ComputeOp, operand: int, loop: ForOp) -> list[Side]:
    """The box of an array that a leaf reads in one iteration of a loop around it."""
    around = loops_around(leaf)
    inner = around[around.index(loop) + 1 :]
    return [_side(leaf, each, inner) for each in leaf.input_maps[operand].results]


def _side(leaf: ComputeOp, expression: AffineExpr, inner: list[ForOp]) -> Side:
    """Split an index into what moves inside of the loop and what stands still there."""
    ivs = list(leaf.ivs)
    walked = {ivs.index(each.induction_variable): each for each in inner if _reads(leaf, each)}
    axes_inside = {axis_of(each) for each in walked.values()}
    form = linear_form(expression)
    moving, start = AffineExpr.constant(0), AffineExpr.constant(form.constant)
    names: list[str] = []
    for atom, factor in form.terms.items():
        read = atoms(atom)
        dims = [
            a.position
            for a in read
            if isinstance(a, AffineDimExpr)
            and (leaf.sizes[a.position] > 1 or leaf.axis_names[a.position] in axes_inside)
        ]
        loops = [a.position for a in read if isinstance(a, AffineSymExpr) and a.position in walked]
        term = atom * factor if factor != 1 else atom
        if dims or loops:
            moving = moving + term
            names += [leaf.axis_names[n] for n in dims]
            names += [axis_of(walked[n]) for n in loops]
        else:
            start = start + term
    still = {a.position for a in atoms(moving) if isinstance(a, AffineSymExpr)} - set(walked)
    symbols = [range_of_value(iv) for iv in ivs]
    found = range_of(moving, [(0, size - 1) for size in leaf.sizes], symbols)
    if still or found is None:
        raise IllegalRewrite("what the leaf reads there is no box of the array")
    first, last = found
    name = "_".join(dict.fromkeys(names))
    return Side(name, simplify(start + first), last - first + 1, simplify(moving - first))


def _reads(leaf: ComputeOp, loop: ForOp) -> bool:
    return loop.induction_variable in list(leaf.ivs)


def _with_names(sides: list[Side]) -> list[Side]:
    """Every side of more than one element with a name of its own."""
    taken: list[str] = []
    made: list[Side] = []
    for side in sides:
        name, again = side.name or "e", 0
        while name in taken:
            again += 1
            name = f"{side.name or 'e'}{again}"
        taken.append(name)
        made.append(Side(name, side.start, side.size, side.index))
    return made


def _order(sides: list[Side]) -> list[int]:
    """The buffer's dimensions: those that loops walk, those of the leaf alone, that of a row."""

    def moves(side: Side) -> bool:
        return any(isinstance(atom, AffineSymExpr) for atom in atoms(side.index))

    *others, row = range(len(sides))
    return [*sorted(others, key=lambda number: not moves(sides[number])), row]


def _allocate(leaf: ComputeOp, operand: int, sides: list[Side], scope: str) -> memref.AllocOp:
    source = leaf.inputs[operand]
    element = cast("MemRefType[Attribute]", source.type).element_type
    type_ = MemRefType(element, [side.size for side in sides], memory_space=StringAttr(scope))
    buffer = memref.AllocOp([], [], type_)
    buffer.memref.name_hint = f"{source.name_hint or 'x'}_tile"
    buffer.location = leaf.location
    return buffer


def _copies(
    leaf: ComputeOp,
    operand: int,
    sides: list[Side],
    order: list[int],
    inner: list[ForOp],
    buffer: memref.AllocOp,
) -> list[ComputeOp]:
    """The copy of what lies inside the array, and fills of 0 for what is known to lie outside.

    The fills are to run first: along rows they are wider than the margin.

    A side whose start varies may leave the array anywhere: it is copied with its padding.
    """
    shape = cast("MemRefType[Attribute]", leaf.inputs[operand].type).get_shape()
    gone = {each.induction_variable for each in inner}
    ivs = [iv for iv in leaf.ivs if iv not in gone]
    symbols: list[AffineExpr] = [
        AffineExpr.constant(0) if iv in gone else AffineExpr.symbol(ivs.index(iv))
        for iv in leaf.ivs
    ]
    still: list[AffineExpr] = [AffineExpr.constant(0)] * len(leaf.axis_names)
    sides = [
        replace(side, start=simplify(side.start.replace_dims_and_symbols(still, symbols)))
        for side in sides
    ]
    fills: list[ComputeOp] = []
    box = [(0, side.size) for side in sides]
    for number, (side, length) in enumerate(zip(sides, shape, strict=True)):
        start = linear_form(side.start)
        if start.terms:
            continue
        first = min(max(-start.constant, 0), side.size)
        end = max(min(length - start.constant, side.size), first)
        for part in ((0, first), (end, side.size)):
            if part[0] < part[1]:
                if number == len(sides) - 1:
                    part = _as_line(part, side.size)
                margin = [*box[:number], part, *box[number + 1 :]]
                fills.append(_leaf_over(margin, sides, order, ivs, buffer))
        box[number] = (first, end)
    copy = _leaf_over(box, sides, order, ivs, buffer, leaf.inputs[operand])
    for each in (copy, *fills):
        for op in each.walk():
            op.location = leaf.location
    return [copy, *fills]


def _as_line(part: tuple[int, int], size: int) -> tuple[int, int]:
    """A margin of a row, widened to what vectors fill at once; the copy then writes over it."""
    first, end = part
    if first == 0:
        return 0, min(max(end, _LINE), size)
    return max(min(first, size - _LINE), 0), size


def _leaf_over(
    box: list[tuple[int, int]],
    sides: list[Side],
    order: list[int],
    ivs: list[SSAValue],
    buffer: memref.AllocOp,
    source: SSAValue | None = None,
) -> ComputeOp:
    """A part of the region copied from an array, or filled with 0."""
    walked = [number for number, (first, end) in enumerate(box) if end - first != 1]
    own: list[AffineExpr] = []
    read: list[AffineExpr] = []
    for number, (side, (first, _)) in enumerate(zip(sides, box, strict=True)):
        place = AffineExpr.constant(first)
        if number in walked:
            place = AffineExpr.dimension(walked.index(number)) + first
        own.append(simplify(place))
        read.append(simplify(side.start + place))
    rank = (len(walked), len(ivs))
    element = buffer.memref.type.element_type
    body = Block(arg_types=[element] if source is not None else [])
    if source is None:
        body.add_op(arith.ConstantOp(zero_of(element)))
    value = body.args[0] if source is not None else body.ops.first.results[0]  # pyright: ignore
    body.add_op(YieldOp([value]))
    return ComputeOp(
        "map" if source is None else "copy",
        axes=[(sides[number].name, box[number][1] - box[number][0]) for number in walked],
        ivs=ivs,
        inputs=[source] if source is not None else [],
        outputs=[buffer.memref],
        maps=[
            *([AffineMap(*rank, tuple(read))] if source is not None else []),
            AffineMap(*rank, tuple(own[number] for number in order)),
        ],
        padded=[True] if source is not None else [],
        body=Region(body),
    )
