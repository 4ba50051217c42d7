"""Buffers of a nest whose leaves take more points: they grow, or stand in the way."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.affine import atoms, linear_form
from wia_compiler.passes.tile_rewrites.nest import IllegalRewrite


def check_layouts(leaf: ComputeOp, axis: str, loop: ForOp) -> None:
    """A copy that was laid out for tiles of one size cannot be read in tiles of another."""
    own = AffineExpr.dimension(leaf.axis_names.index(axis))
    if loop.induction_variable not in leaf.ivs:
        return
    variable = AffineExpr.symbol(list(leaf.ivs).index(loop.induction_variable))
    for value, each in zip((*leaf.inputs, *leaf.outputs), leaf.maps, strict=True):
        if not isinstance(value.owner, memref.AllocOp):
            continue
        for result in each.data.results:
            for atom in linear_form(result).terms:
                if variable in atoms(atom) and atom != variable and own not in atoms(atom):
                    raise IllegalRewrite(
                        f"{value.name_hint or 'a copy'} is laid out for tiles along {axis!r} of "
                        f"{leaf.sizes[leaf.axis_names.index(axis)]}",
                        hint="choose the tile first, then what is copied",
                    )


def grow_buffers(loop: ForOp, axis: str, leaves: Sequence[ComputeOp], size: int) -> None:
    """Buffers made inside the loop get ``size`` elements where leaves index them by the axis."""
    buffers = [op for op in loop.walk() if isinstance(op, memref.AllocOp)]
    along = {op: _dimensions_along(op.memref, axis, leaves) for op in buffers}
    for op, dimensions in along.items():
        shape = list(op.memref.type.get_shape())
        for dimension in dimensions:
            shape[dimension] = size
        if dimensions:
            _replace_buffer(op, shape)


def grow_copies(loop: ForOp, axis: str, leaves: Sequence[ComputeOp], more: int) -> None:
    """Buffers from outside the loop get room for the last tile; nothing past their end is used."""
    for leaf in leaves if more else ():
        own = AffineExpr.dimension(leaf.axis_names.index(axis))
        operands = (*leaf.inputs, *leaf.outputs)
        for value, each in zip(operands, leaf.maps, strict=True):
            op = value.owner
            if not isinstance(op, memref.AllocOp) or loop.is_ancestor(op):
                continue
            along = [own in atoms(result) for result in each.data.results]
            sizes = op.memref.type.get_shape()
            if any(along):
                grown = [size + more * moves for size, moves in zip(sizes, along, strict=True)]
                _replace_buffer(op, grown)


def _dimensions_along(buffer: SSAValue, axis: str, leaves: Sequence[ComputeOp]) -> set[int]:
    found: set[int] = set()
    for leaf in leaves:
        own = AffineExpr.dimension(leaf.axis_names.index(axis))
        for value, each in zip((*leaf.inputs, *leaf.outputs), leaf.maps, strict=True):
            if value is not buffer:
                continue
            for dimension, result in enumerate(each.data.results):
                if result == own:
                    found.add(dimension)
                elif own in atoms(result):
                    raise IllegalRewrite(
                        f"a buffer is indexed by {axis!r} in a way that a tile cannot follow"
                    )
    return found


def _replace_buffer(op: memref.AllocOp, shape: Sequence[int]) -> None:
    type = op.memref.type
    grown = MemRefType(type.element_type, list(shape), type.layout, type.memory_space)
    made = memref.AllocOp([], [], grown)
    made.location = op.location
    made.attributes = dict(op.attributes)
    made.memref.name_hint = op.memref.name_hint
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(made, op)
    op.memref.replace_all_uses_with(made.memref)
    op.detach()
    op.erase()
