"""Tiles of a contraction's operands, copied to shared memory by the whole block."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from wia_compiler.backends.gpu.access import axis_strides, in_memory, loops_of
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.tiling import axis_of, replace_leaf, uses_axis
from wia_compiler.dialects.tile import ComputeOp, ForOp, YieldOp


def stage_shared(nest: FuncOp, leaf: ComputeOp, loop: ForOp) -> ComputeOp:
    """Let a contraction read its operands from shared tiles that are filled at each turn of ``loop``.

    ::

        for %i0 @grid, for %i1 @thread               %s = alloc 64×16 @shared
          for %k0 step 16 @serial              →     for %i1 @thread, for %k0 step 16 @serial
            contract … a[%i0 + %i1 + i, %k0 + k]       copy @block s[i, k] = a[%i0 + i, %k0 + k]
                                                       contract … s[%i1 + i, k]

    What lies past an edge is copied as 0, so that the leaf needs no bounds: products of zeros leave
    the sums as they are.
    """
    inner = {each.induction_variable: each for each in loops_of(nest) if each.level.data == "thread"}
    for number in in_memory(leaf):
        if number < len(leaf.inputs):
            leaf = _stage(leaf, number, inner, loop)
    rank = (len(leaf.axis_names), len(leaf.ivs))
    return replace_leaf(leaf, bounds=AffineMap(*rank, ()), limits=[])


def _stage(
    leaf: ComputeOp, number: int, inner: Mapping[SSAValue, ForOp], loop: ForOp
) -> ComputeOp:
    source = leaf.inputs[number]
    thread_of = {axis_of(each): each for each in inner.values()}
    axes = [
        (name, thread_of[name].extent.value.data if name in thread_of else size)
        for name, size in zip(leaf.axis_names, leaf.sizes, strict=True)
        if uses_axis(leaf, number, name) and (name in thread_of or size > 1)
    ]
    tile = _allocate(leaf, number, [size for _, size in axes], inner)
    _copy(leaf, number, axes, tile, inner, loop)
    position = {name: place for place, name in enumerate(leaf.axis_names)}
    index: list[AffineExpr] = []
    for name, _ in axes:
        own: AffineExpr = AffineExpr.dimension(position[name])
        if name in thread_of:
            symbol = list(leaf.ivs).index(thread_of[name].induction_variable)
            own = AffineExpr.symbol(symbol) + own
        index.append(own)
    maps = [each.data for each in leaf.maps]
    maps[number] = AffineMap(len(leaf.axis_names), len(leaf.ivs), tuple(index))
    inputs, padded = list(leaf.inputs), list(leaf.is_padded)
    inputs[number], padded[number] = tile, False
    return replace_leaf(leaf, inputs=inputs, maps=maps, padded=padded)


def _allocate(
    leaf: ComputeOp, number: int, shape: list[int], inner: Mapping[SSAValue, ForOp]
) -> SSAValue:
    """A shared buffer outside the thread loops: one for the block."""
    source = leaf.inputs[number]
    type = MemRefType(element_type(source), shape, memory_space=StringAttr("shared"))
    buffer = memref.AllocOp([], [], type)
    buffer.memref.name_hint = f"{source.name_hint or 'x'}_tile"
    buffer.location = leaf.location
    outermost = next(iter(inner.values()), None)
    place = outermost if outermost is not None else leaf
    block = place.parent_block()
    assert block is not None
    block.insert_op_before(buffer, place)
    return buffer.memref


def _copy(
    leaf: ComputeOp,
    number: int,
    axes: list[tuple[str, int]],
    tile: SSAValue,
    inner: Mapping[SSAValue, ForOp],
    loop: ForOp,
) -> None:
    """The leaf that fills the tile, its last axis one along which the source is dense."""
    source = leaf.inputs[number]
    strides = axis_strides(leaf, number)
    ordered = sorted(axes, key=lambda axis: strides[axis[0]] == 1)
    place = {name: position for position, (name, _) in enumerate(ordered)}
    ivs = [iv for iv in leaf.ivs if iv not in inner]
    dims: list[AffineExpr] = [
        AffineExpr.dimension(place[name]) if name in place else AffineExpr.constant(0)
        for name in leaf.axis_names
    ]
    symbols: list[AffineExpr] = [
        AffineExpr.symbol(ivs.index(iv)) if iv in ivs else AffineExpr.constant(0)
        for iv in leaf.ivs
    ]
    rank = (len(ordered), len(ivs))
    read = tuple(
        result.replace_dims_and_symbols(dims, symbols) for result in leaf.input_maps[number].results
    )
    written = tuple(AffineExpr.dimension(place[name]) for name, _ in axes)
    body = Block(arg_types=[element_type(source)])
    body.add_op(YieldOp(list(body.args)))
    copy = ComputeOp(
        "copy",
        axes=ordered,
        ivs=ivs,
        inputs=[source],
        outputs=[tile],
        maps=[AffineMap(*rank, read), AffineMap(*rank, written)],
        padded=[True],
        level="block",
        body=Region(body),
    )
    copy.location = leaf.location
    loop.body.block.insert_op_before(copy, leaf)
