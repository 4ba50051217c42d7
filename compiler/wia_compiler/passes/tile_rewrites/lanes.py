"""Which axis vectors run along: the last kept axis of leaves, and of the buffers they share."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr, AffineMap

from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    leaves_of,
    remap_leaf,
    replace_leaf,
    scope_of,
)


def run_lanes_along(nest: Operation, axis: str) -> None:
    """Let vectors run along an axis: it becomes the last kept axis of leaves and register buffers.

    ::

        acc = register [f = 32, x = 8]                 acc = register [x = 8, f = 32]
        window acc[f, x] += a[x + s] * w[f, s]    →    window acc[x, f] += a[x + s] * w[f, s]
        map y[f, x] = acc[f, x]                        map y[f, x] = acc[x, f]

    Only where points lie changes, no number. Legal where the buffers are used by leaves alone and
    indexed by the axis itself.
    """
    leaves = leaves_of(nest)
    if not any(axis in leaf.axis_names for leaf in leaves):
        raise IllegalRewrite(f"no leaf has an axis {axis!r}")
    if any(axis in {name.data for name in leaf.reduce_axes} for leaf in leaves):
        raise IllegalRewrite(
            f"axis {axis!r} is folded: lanes along it would each hold a part of the sum",
            hint="vectorize an axis of the result",
        )
    for op in list(nest.walk()):
        if isinstance(op, memref.AllocOp) and scope_of(op.memref) == "register":
            _turn_buffer(op, axis)
    for leaf in leaves_of(nest):
        if axis in leaf.axis_names:
            _turn_leaf(leaf, axis)


def _turn_leaf(leaf: ComputeOp, axis: str) -> None:
    names = leaf.axis_names
    kept = [each for each, folded in zip(names, leaf.reductions, strict=True) if not folded]
    order = [*(each for each in kept if each != axis), axis]
    order += [each for each in names if each not in order]
    if order == list(names):
        return
    dims = [AffineExpr.dimension(order.index(each)) for each in names]
    symbols = [AffineExpr.symbol(number) for number in range(len(leaf.ivs))]
    axes = [(each, leaf.sizes[names.index(each)]) for each in order]
    remap_leaf(leaf, dims, symbols, list(leaf.ivs), axes=axes)


def _turn_buffer(buffer: memref.AllocOp, axis: str) -> None:
    """Make the buffer's dimension that leaves index by ``axis`` its last one."""
    users = dict.fromkeys(use.operation for use in buffer.memref.uses)
    found: set[int] = set()
    for leaf in users:
        if not isinstance(leaf, ComputeOp):
            raise IllegalRewrite("a buffer of the nest is used outside of leaves")
        if axis in leaf.axis_names:
            found |= _dimensions(leaf, buffer, axis)
    if not found:
        return
    if len(found) > 1:
        raise IllegalRewrite(f"a buffer is indexed by {axis!r} in {len(found)} dimensions")
    (dimension,) = found
    rank = len(buffer.memref.type.get_shape())
    order = [*(n for n in range(rank) if n != dimension), dimension]
    if order == list(range(rank)):
        return
    made = _reshaped(buffer, order)
    for leaf in users:
        assert isinstance(leaf, ComputeOp)
        _index_anew(leaf, buffer, made, order)
    buffer.detach()
    buffer.erase()


def _dimensions(leaf: ComputeOp, buffer: memref.AllocOp, axis: str) -> set[int]:
    own = AffineExpr.dimension(leaf.axis_names.index(axis))
    found: set[int] = set()
    for value, each in zip((*leaf.inputs, *leaf.outputs), leaf.maps, strict=True):
        if value is not buffer.memref:
            continue
        for dimension, result in enumerate(each.data.results):
            if result == own:
                found.add(dimension)
            elif own in atoms(result):
                raise IllegalRewrite(f"a buffer is not indexed by {axis!r} itself")
    return found


def _reshaped(buffer: memref.AllocOp, order: Sequence[int]) -> memref.AllocOp:
    old = buffer.memref.type
    shape = [old.get_shape()[number] for number in order]
    type_ = MemRefType(old.element_type, shape, memory_space=old.memory_space)
    made = memref.AllocOp([], [], type_)
    made.location, made.attributes = buffer.location, dict(buffer.attributes)
    made.memref.name_hint = buffer.memref.name_hint
    block = buffer.parent_block()
    assert block is not None
    block.insert_op_before(made, buffer)
    return made


def _index_anew(
    leaf: ComputeOp, old: memref.AllocOp, new: memref.AllocOp, order: Sequence[int]
) -> None:
    rank = (len(leaf.axis_names), len(leaf.ivs))
    maps = [each.data for each in leaf.maps]
    for number, value in enumerate((*leaf.inputs, *leaf.outputs)):
        if value is old.memref:
            maps[number] = AffineMap(*rank, tuple(maps[number].results[n] for n in order))
    replace_leaf(
        leaf,
        inputs=[new.memref if value is old.memref else value for value in leaf.inputs],
        outputs=[new.memref if value is old.memref else value for value in leaf.outputs],
        maps=maps,
    )
