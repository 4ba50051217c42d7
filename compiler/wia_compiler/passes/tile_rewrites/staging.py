"""Copies of tiles into nearer memory: shared memory, packed panels, registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineDimExpr, AffineExpr, AffineMap, AffineSymExpr

from wia_compiler.dialects.tile import ComputeOp, ForOp, LeafLevel, YieldOp
from wia_compiler.passes.affine import atoms, linear_form
from wia_compiler.passes.emit_leaf import zero_of
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    axis_of,
    bounds_of,
    loops_around,
    replace_leaf,
)

_SHARED_LEVELS: dict[str, tuple[str, ...]] = {
    "thread": (),
    "warp": ("thread",),
    "block": ("thread", "warp"),
}


@dataclass(frozen=True)
class StagedAxis:
    """One dimension of the buffer: the leaf axis, its size, the loops that walk it inside."""

    name: str
    size: int
    position: int
    loops: tuple[ForOp, ...]


def stage_operand(
    leaf: ComputeOp,
    operand: int,
    loop: ForOp,
    scope: str,
    *,
    level: LeafLevel = "thread",
    order: Sequence[str] | None = None,
    copied: Sequence[str] | None = None,
    padding: int = 0,
) -> tuple[memref.AllocOp, ComputeOp, ComputeOp]:
    """Copy what a leaf reads in one iteration of ``loop`` to a buffer of ``scope`` first.

    ::

        for %k0 in 512 step 32                 for %k0 in 512 step 32
          for %j1 in 128 step 8          →       %b_tile = alloc 32×128 @shared
            contract … b[%k0 + k, %j1 + j]       copy @block b_tile[k, j] = b[%k0 + k, j]
                                                 for %j1 in 128 step 8
                                                   contract … b_tile[k, %j1 + j]

    ``level`` says who copies; a ``warp`` or ``block`` shares the buffer, which is then made outside
    its loops over threads, and which also holds what those loops walk. ``order`` is the order of
    the buffer's dimensions by axis (default: as the operand's map names them), ``copied`` the order
    in which the copy walks them (default: the same), ``padding`` elements lie unused at the end of
    each row of the buffer. What lies outside the source, or past a bound of the leaf, is copied as
    0. Gives the buffer, the copy, the leaf.
    """
    if not 0 <= operand < len(leaf.inputs):
        raise IllegalRewrite(f"the leaf has {len(leaf.inputs)} inputs, not one numbered {operand}")
    around = loops_around(leaf)
    if loop not in around:
        raise IllegalRewrite(f"{loop.axis.data} is not around the leaf")
    inner = around[around.index(loop) + 1 :]
    shared = _SHARED_LEVELS[level]
    sharing = [each for each in around if each.level.data in shared and each not in inner]
    walked = [*sharing, *inner]
    axes = _staged_axes(leaf, operand, walked, order)
    outside = sharing[0] if sharing else None
    buffer = _allocate(leaf, operand, axes, scope, outside, loop, padding)
    copy = _copy(leaf, operand, axes, walked, buffer.memref, level, copied)
    place = loop.body.block
    first = buffer.next_op if buffer.parent_block() is place else place.first_op
    assert first is not None
    for op in [*_zero_fill(copy, buffer.memref, level), copy]:
        for each in op.walk():
            each.location = leaf.location
        place.insert_op_before(op, first)
    index: dict[str, AffineExpr] = {}
    ivs = list(leaf.ivs)
    for axis in axes:
        total: AffineExpr = AffineExpr.dimension(axis.position)
        for each in reversed(axis.loops):
            total = AffineExpr.symbol(ivs.index(each.induction_variable)) + total
        index[axis.name] = total
    maps = [each.data for each in leaf.maps]
    maps[operand] = AffineMap(len(leaf.axis_names), len(ivs), tuple(index.values()))
    inputs, padded = list(leaf.inputs), list(leaf.is_padded)
    inputs[operand], padded[operand] = buffer.memref, False
    return buffer, copy, replace_leaf(leaf, inputs=inputs, maps=maps, padded=padded)


def reading_order(leaf: ComputeOp, operand: int, loop: ForOp) -> list[str]:
    """The axes of a tile in the order in which the leaf reads it, the fastest one last.

    Folded axes come first, then kept ones, then the one that vectors run along: the leaf's last
    kept axis of more than one point.
    """
    around = loops_around(leaf)
    inner = around[around.index(loop) + 1 :]
    names: dict[str, None] = {}
    for result in leaf.input_maps[operand].results:
        for atom in linear_form(result).terms:
            names |= dict.fromkeys(_axes_of(leaf, atom, inner))
    folded = {name.data for name in leaf.reduce_axes}
    position = {name: number for number, name in enumerate(leaf.axis_names)}
    kept = [n for n in leaf.axis_names if n not in folded and leaf.sizes[position[n]] > 1]
    last = kept[-1] if kept else None
    return sorted(names, key=lambda name: (name not in folded, name == last, position[name]))


def _staged_axes(
    leaf: ComputeOp, operand: int, walked: Sequence[ForOp], order: Sequence[str] | None
) -> list[StagedAxis]:
    """The buffer's dimensions: axes that the operand reads and that move inside the loop."""
    each = leaf.input_maps[operand]
    names: dict[str, None] = {}
    for result in each.results:
        for atom in linear_form(result).terms:
            names |= dict.fromkeys(_axes_of(leaf, atom, walked))
    if order is not None:
        if sorted(order) != sorted(names):
            raise IllegalRewrite(f"the order names {list(order)}, the operand reads {list(names)}")
        names = dict.fromkeys(order)
    axes: list[StagedAxis] = []
    for name in names:
        position = leaf.axis_names.index(name)
        loops = tuple(each for each in walked if axis_of(each) == name)
        size = leaf.sizes[position]
        for walk in loops:
            size += (walk.trip_count - 1) * walk.step.value.data
        _check_sum(leaf, each, position, loops)
        axes.append(StagedAxis(name, size, position, loops))
    return axes


def _axes_of(leaf: ComputeOp, atom: AffineExpr, walked: Sequence[ForOp]) -> list[str]:
    found: list[str] = []
    variables = {each.induction_variable: axis_of(each) for each in walked}
    for read in atoms(atom):
        if isinstance(read, AffineDimExpr) and leaf.sizes[read.position] > 1:
            found.append(leaf.axis_names[read.position])
        elif isinstance(read, AffineSymExpr) and leaf.ivs[read.position] in variables:
            found.append(variables[leaf.ivs[read.position]])
    foreign = [name for name in found if name not in leaf.axis_names]
    if foreign:
        raise IllegalRewrite(f"the leaf has no axis {foreign[0]!r}, though a loop over it moves it")
    return found


def _check_sum(leaf: ComputeOp, each: AffineMap, position: int, loops: Sequence[ForOp]) -> None:
    """The operand must read the axis as the sum of its loops' variables and its points."""
    own = [AffineExpr.dimension(position)]
    ivs = list(leaf.ivs)
    own += [AffineExpr.symbol(ivs.index(loop.induction_variable)) for loop in loops]
    if not all(_reads_sum(result, own) for result in each.results):
        raise IllegalRewrite(
            f"axis {leaf.axis_names[position]!r} is not read as one sum of its loops and points"
        )


def _reads_sum(expression: AffineExpr, own: Sequence[AffineExpr]) -> bool:
    """Whether an expression reads some atoms as their sum alone, also where it is divided."""
    form = linear_form(expression)
    if len({form.terms.get(atom, 0) for atom in own}) > 1:
        return False
    hidden = [each for each in form.terms if each not in own and atoms(each) & set(own)]
    divided = [each.lhs for each in hidden if isinstance(each, AffineBinaryOpExpr)]
    return all(_reads_sum(each, own) for each in divided)


def _allocate(
    leaf: ComputeOp,
    operand: int,
    axes: Sequence[StagedAxis],
    scope: str,
    outside: ForOp | None,
    loop: ForOp,
    padding: int,
) -> memref.AllocOp:
    source = leaf.inputs[operand]
    element = cast("MemRefType[Attribute]", source.type).element_type
    shape = [axis.size for axis in axes]
    if shape:
        shape[-1] += padding
    type = MemRefType(element, shape, memory_space=StringAttr(scope))
    buffer = memref.AllocOp([], [], type)
    buffer.memref.name_hint = f"{source.name_hint or 'x'}_tile"
    buffer.location = leaf.location
    place = outside if outside is not None else loop.body.block.first_op
    assert place is not None
    block = place.parent_block()
    assert block is not None
    block.insert_op_before(buffer, place)
    return buffer


def _copy(
    leaf: ComputeOp,
    operand: int,
    axes: Sequence[StagedAxis],
    walked: Sequence[ForOp],
    buffer: SSAValue,
    level: LeafLevel,
    copied: Sequence[str] | None,
) -> ComputeOp:
    source = leaf.inputs[operand]
    gone = {loop.induction_variable for loop in walked}
    ivs = [iv for iv in leaf.ivs if iv not in gone]
    points = list(axes)
    if copied is not None:
        if sorted(copied) != sorted(axis.name for axis in axes):
            raise IllegalRewrite(f"the copy walks {list(copied)}, the buffer has other axes")
        points.sort(key=lambda axis: list(copied).index(axis.name))
    place = {axis.position: number for number, axis in enumerate(points)}
    dims: list[AffineExpr] = [
        AffineExpr.dimension(place[number]) if number in place else AffineExpr.constant(0)
        for number in range(len(leaf.axis_names))
    ]
    symbols: list[AffineExpr] = [
        AffineExpr.constant(0) if iv in gone else AffineExpr.symbol(ivs.index(iv))
        for iv in leaf.ivs
    ]
    each = leaf.input_maps[operand]
    read = [e.replace_dims_and_symbols(dims, symbols) for e in each.results]
    shape = cast("MemRefType[Attribute]", source.type).get_shape()
    bounds = [
        (expression.replace_dims_and_symbols(dims, symbols), limit)
        for expression, limit in bounds_of(leaf)
        if _concerns(leaf, expression, place)
    ]
    # Reading 0 outside the source already stops a copy where its own size does.
    implied = set(zip(read, shape, strict=True))
    bounds = [bound for bound in bounds if bound not in implied]
    element = cast("MemRefType[Attribute]", source.type).element_type
    body = Block(arg_types=[element])
    body.add_op(YieldOp(list(body.args)))
    rank = (len(axes), len(ivs))
    own = tuple(AffineExpr.dimension(place[axis.position]) for axis in axes)
    return ComputeOp(
        "copy",
        axes=[(axis.name, axis.size) for axis in points],
        ivs=ivs,
        inputs=[source],
        outputs=[buffer],
        maps=[AffineMap(*rank, tuple(read)), AffineMap(*rank, own)],
        bounds=AffineMap(*rank, tuple(expression for expression, _ in bounds)),
        limits=[limit for _, limit in bounds],
        padded=[True],
        level=level,
        body=Region(body),
    )


def _concerns(leaf: ComputeOp, expression: AffineExpr, place: dict[int, int]) -> bool:
    """Whether a bound is about the staged axes alone."""
    read = {a.position for a in atoms(expression) if isinstance(a, AffineDimExpr)}
    return bool(read) and all(number in place for number in read)


def _zero_fill(copy: ComputeOp, buffer: SSAValue, level: LeafLevel) -> list[Operation]:
    """A leaf that fills the buffer with 0 first, where bounds keep the copy from some of it."""
    if not copy.limit_values:
        return []
    element = cast("MemRefType[Attribute]", buffer.type).element_type
    body = Block()
    zero = arith.ConstantOp(zero_of(element))
    body.add_ops([zero, YieldOp([zero.result])])
    fill = ComputeOp(
        "map",
        axes=list(zip(copy.axis_names, copy.sizes, strict=True)),
        ivs=list(copy.ivs),
        inputs=[],
        outputs=[buffer],
        maps=[copy.output_maps[0]],
        level=level,
        body=Region(body),
    )
    return [fill]
