"""Rewrites of a nest's loops: blocks, warps and threads out of the loops over its kept axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from wia_compiler.backends.gpu.builder import scope_of
from wia_compiler.dialects.tile import ComputeOp, ForOp, LeafLevel


@dataclass(frozen=True)
class Tile:
    """How one kept axis is dealt out: a block takes ``block`` points, a thread or warp ``each``."""

    block: int = 1
    each: int = 1


def kept_loops(nest: FuncOp) -> list[ForOp]:
    """The chain of loops around everything else in a nest, from the outermost in."""
    found: list[ForOp] = []
    body = nest.body.block
    while isinstance(body.first_op, ForOp):
        found.append(body.first_op)
        body = body.first_op.body.block
    return found


def axis_of(loop: ForOp) -> str:
    """The leaf axis that a loop walks: ``i`` of ``i.0``."""
    return loop.axis.data.partition(".")[0]


def tile_loops(
    nest: FuncOp, tiles: Mapping[str, Tile], *, inner: Literal["thread", "warp"] = "thread"
) -> Block:
    """Deal a nest's kept axes out over the grid, and each block over its threads or warps.

    ::

        for %i0 in 1000 step 1 @serial          for %i0 in 1000 step 256 @grid
          leaf [i = 1]  a[%i0 + i]         →      for %i1 in 256 step 4 @thread
                                                    leaf [i = 4] bounds (%i0 + %i1 + i < 1000)

    Register buffers grow with the leaves. Axes without an entry keep one point a block. Inner loops
    of one turn are left out. Returns the block in which everything stands.
    """
    loops = kept_loops(nest)
    if not loops:
        return nest.body.block
    body = loops[-1].body.block
    ops = list(body.ops)
    for op in ops:
        op.detach()
    # The new loops: all grid loops, then all inner ones, each in the order of the axes.
    place = nest.body.block
    positions: dict[SSAValue, list[SSAValue]] = {}
    shape: dict[str, Tile] = {axis_of(loop): tiles.get(axis_of(loop), Tile()) for loop in loops}
    made: list[ForOp] = []
    for loop in loops:
        tile = shape[axis_of(loop)]
        made.append(ForOp(loop.axis.data, loop.extent.value.data, tile.block, "grid"))
        positions[loop.induction_variable] = [made[-1].induction_variable]
    for loop in loops:
        tile = shape[axis_of(loop)]
        if tile.block > tile.each:
            made.append(ForOp(f"{axis_of(loop)}.1", tile.block, tile.each, inner))
            positions[loop.induction_variable].append(made[-1].induction_variable)
    for loop in made:
        loop.location = loops[0].location
        first = place.first_op
        if first is not None:
            place.insert_op_before(loop, first)
        else:
            place.add_op(loop)
        place = loop.body.block
    place.add_ops(ops)
    extents = {axis_of(loop): loop.extent.value.data for loop in loops}
    for op in ops:
        if isinstance(op, memref.AllocOp):
            _grow_buffer(op, [shape[axis_of(loop)].each for loop in loops])
    for op in ops:
        if isinstance(op, ComputeOp):
            _tile_leaf(op, positions, shape, extents)
    loops[0].detach()
    loops[0].erase()
    return place


def _grow_buffer(op: memref.AllocOp, sizes: Sequence[int]) -> None:
    """A register buffer has a dimension for each kept axis, as long as what a thread takes of it."""
    type = cast("MemRefType[Attribute]", op.memref.type)
    grown = MemRefType(type.element_type, list(sizes), type.layout, type.memory_space)
    replacement = memref.AllocOp([], [], grown)
    replacement.location = op.location
    replacement.memref.name_hint = op.memref.name_hint
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(replacement, op)
    op.memref.replace_all_uses_with(replacement.memref)
    op.detach()
    op.erase()


def _tile_leaf(
    leaf: ComputeOp,
    positions: Mapping[SSAValue, Sequence[SSAValue]],
    shape: Mapping[str, Tile],
    extents: Mapping[str, int],
) -> None:
    names = leaf.axis_names
    ivs: list[SSAValue] = []
    symbols: list[AffineExpr] = []
    for iv in leaf.ivs:
        total: AffineExpr | None = None
        for part in positions[iv]:
            own = AffineExpr.symbol(len(ivs))
            total = own if total is None else total + own
            ivs.append(part)
        assert total is not None
        symbols.append(total)
    dims = [AffineExpr.dimension(position) for position in range(len(names))]
    rank = (len(names), len(ivs))
    maps = [_remap(each.data, dims, symbols, rank) for each in leaf.maps]
    bounds = list(_remap(leaf.bounds.data, dims, symbols, rank).results)
    limits = list(leaf.limit_values)
    if not _is_private(leaf):
        for position, name in enumerate(names):
            tile = shape.get(name)
            if tile is None or extents[name] % tile.block == 0 == tile.block % tile.each:
                continue
            iv = _iv_of_axis(leaf, position)
            bounds.append(symbols[iv] + dims[position])
            limits.append(extents[name])
    axes = [
        (name, shape[name].each if name in shape else size)
        for name, size in zip(names, leaf.sizes, strict=True)
    ]
    replace_leaf(
        leaf,
        axes=axes,
        ivs=ivs,
        maps=maps,
        bounds=AffineMap(*rank, tuple(bounds)),
        limits=limits,
    )


def _is_private(leaf: ComputeOp) -> bool:
    """Whether a leaf touches registers alone: points past an edge then do no harm."""
    return all(scope_of(value) == "register" for value in (*leaf.inputs, *leaf.outputs))


def _iv_of_axis(leaf: ComputeOp, position: int) -> int:
    """Which induction variable walks an axis: loops and kept axes stand in the same order."""
    kept = len(leaf.ivs)
    assert position < kept, "kept axes come first in a leaf"
    return position


def _remap(
    each: AffineMap,
    dims: Sequence[AffineExpr],
    symbols: Sequence[AffineExpr],
    rank: tuple[int, int],
) -> AffineMap:
    results = tuple(e.replace_dims_and_symbols(dims, symbols) for e in each.results)
    return AffineMap(*rank, results)


def split_fold(leaf: ComputeOp, axis: str, size: int) -> tuple[ForOp, ComputeOp]:
    """Fold an axis in steps of ``size``: a serial loop around the leaf.

    ::

        contract [k = 100 reduce] a[i, k]   →   for %k0 in 100 step 16 @serial
                                                  contract [k = 16 reduce] a[i, %k0 + k]
                                                    bounds (%k0 + k < 100)
    """
    position = leaf.axis_names.index(axis)
    extent = leaf.sizes[position]
    loop = ForOp(f"{axis}.0", extent, size, "serial")
    loop.location = leaf.location
    block = leaf.parent_block()
    assert block is not None
    block.insert_op_before(loop, leaf)
    leaf.detach()
    loop.body.block.add_op(leaf)
    rank = (len(leaf.axis_names), len(leaf.ivs) + 1)
    dims = [AffineExpr.dimension(number) for number in range(rank[0])]
    symbols = [AffineExpr.symbol(number) for number in range(rank[1] - 1)]
    dims[position] = AffineExpr.symbol(rank[1] - 1) + dims[position]
    bounds = list(_remap(leaf.bounds.data, dims, symbols, rank).results)
    limits = list(leaf.limit_values)
    if extent % size:
        bounds.append(dims[position])
        limits.append(extent)
    made = replace_leaf(
        leaf,
        axes=[
            (name, size if name == axis else own)
            for name, own in zip(leaf.axis_names, leaf.sizes, strict=True)
        ],
        ivs=[*leaf.ivs, loop.induction_variable],
        maps=[_remap(each.data, dims, symbols, rank) for each in leaf.maps],
        bounds=AffineMap(*rank, tuple(bounds)),
        limits=limits,
    )
    return loop, made


def replace_leaf(
    leaf: ComputeOp,
    *,
    axes: Sequence[tuple[str, int]] | None = None,
    ivs: Sequence[SSAValue] | None = None,
    maps: Sequence[AffineMap] | None = None,
    bounds: AffineMap | None = None,
    limits: Sequence[int] | None = None,
    inputs: Sequence[SSAValue] | None = None,
    padded: Sequence[bool] | None = None,
    level: LeafLevel | None = None,
) -> ComputeOp:
    """The same leaf with some of its parts exchanged, in its place."""
    block = leaf.parent_block()
    assert block is not None
    made = ComputeOp(
        cast(Literal["map", "reduce", "contract", "window", "copy"], leaf.kind.data),
        axes=axes
        if axes is not None
        else list(zip(leaf.axis_names, leaf.sizes, strict=True)),
        reduce_axes=[name.data for name in leaf.reduce_axes],
        ivs=ivs if ivs is not None else list(leaf.ivs),
        inputs=inputs if inputs is not None else list(leaf.inputs),
        outputs=list(leaf.outputs),
        maps=maps if maps is not None else [each.data for each in leaf.maps],
        bounds=bounds if bounds is not None else leaf.bounds.data,
        limits=limits if limits is not None else leaf.limit_values,
        padded=padded if padded is not None else leaf.is_padded,
        level=level or cast(LeafLevel, leaf.level.data),
        body=leaf.body.clone(),
    )
    made.location = leaf.location
    made.attributes = dict(leaf.attributes)
    block.insert_op_before(made, leaf)
    leaf.detach()
    leaf.erase()
    return made


def uses_axis(leaf: ComputeOp, operand: int, axis: str) -> bool:
    """Whether an operand's index moves with an axis."""
    wanted = leaf.axis_names.index(axis)
    results = leaf.maps.data[operand].data.results
    return any(
        isinstance(e, AffineDimExpr) and e.position == wanted
        for result in results
        for e in result.dfs()
    )
