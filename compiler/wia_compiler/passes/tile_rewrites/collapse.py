"""Several axes walked as one: how a convolution becomes a matrix product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import ArrayAttr, MemRefType, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.affine import simplify
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    axis_of,
    bounds_of,
    leaves_of,
    loops_of,
    replace_leaf,
    scope_of,
)


def parts_of(index: AffineExpr, sizes: Sequence[int]) -> list[AffineExpr]:
    """The positions along axes of ``sizes`` of a position along all of them as one.

    The last axis runs fastest: of ``k`` along 64 × 3 × 3 they are
    ``[(k floordiv 3) floordiv 3, (k floordiv 3) mod 3, k mod 3]``.
    """
    found: list[AffineExpr] = []
    for size in reversed(sizes[1:]):
        found.append(index % size)
        index = index // size
    return [index, *reversed(found)]


def collapse_kept(nest: FuncOp, axes: Sequence[str]) -> str:
    """Walk neighbouring kept axes as one, named after all of them.

    ::

        for %y0 in 56                              for %yx0 in 3136
          for %x0 in 56                              acc = register [1]
            acc = register [1, 1]            →       window acc[yx] +=
            window acc[y, x] +=                        a[c, (%yx0 + yx) floordiv 56 + r,
              a[c, %y0 + y + r, %x0 + x + s]              (%yx0 + yx) mod 56 + s]

    Legal where each of their loops holds nothing but the next one and takes single points, every
    leaf inside has all of the axes, and register buffers are indexed by all of them or by none.
    Gives the new axis's name.
    """
    loops = [_only_loop(nest, axis) for axis in axes]
    for outer, inner in pairwise(loops):
        if list(outer.body.block.ops) != [inner]:
            raise IllegalRewrite(f"{outer.axis.data} does not hold {inner.axis.data} alone")
    if any(loop.step.value.data != 1 for loop in loops):
        raise IllegalRewrite("only axes that are not tiled yet can be walked as one")
    leaves = leaves_of(loops[0])
    for leaf in leaves:
        if not set(axes) <= set(leaf.axis_names) or set(axes) & _folded(leaf):
            raise IllegalRewrite(f"a {leaf.kind.data} leaf does not keep all of {', '.join(axes)}")
    name = _fresh(nest, "".join(axes))
    sizes = [loop.extent.value.data for loop in loops]
    buffers = _joined_buffers(leaves, axes)
    made = ForOp(f"{name}.0", prod(sizes))
    made.location = loops[0].location
    block = loops[0].parent_block()
    assert block is not None
    block.insert_op_before(made, loops[0])
    for op in list(loops[-1].body.block.ops):
        op.detach()
        made.body.block.add_op(op)
    for leaf in leaves:
        _walk_as_one(leaf, axes, name, sizes, loops, made, buffers)
    for old in buffers:
        owner = old.owner
        assert isinstance(owner, memref.AllocOp)
        owner.detach()
        owner.erase()
    loops[0].detach()
    loops[0].erase()
    return name


def collapse_folded(leaf: ComputeOp, axes: Sequence[str]) -> tuple[str, ComputeOp]:
    """Fold over several axes as over one: a window becomes a matrix product.

    ::

        window [c = 64 reduce, r = 3 reduce, s = 3 reduce] a[c, y + r, x + s] * w[f, c, r, s]
          →  contract [crs = 576 reduce] a[(crs floordiv 3) floordiv 3, y + (crs floordiv 3) mod 3,
               x + crs mod 3] * w[…]

    Elements are added in the same order, the last axis fastest. Legal where the leaf folds the axes
    next to one another and alone walks them. Gives the new axis's name and the leaf.
    """
    names = list(leaf.axis_names)
    if not set(axes) <= _folded(leaf):
        raise IllegalRewrite(f"the leaf does not fold all of {', '.join(axes)}")
    first = names.index(axes[0])
    if names[first : first + len(axes)] != list(axes):
        raise IllegalRewrite(f"the leaf does not fold {', '.join(axes)} one after the other")
    sizes = [leaf.sizes[names.index(axis)] for axis in axes]
    name = "".join(axes)
    kept = [each for each in names if each not in axes]
    order = [*kept[:first], name, *kept[first:]]
    parts = dict(zip(axes, parts_of(AffineExpr.dimension(first), sizes), strict=True))
    dims = [
        parts[each] if each in parts else AffineExpr.dimension(order.index(each)) for each in names
    ]
    extents = {**dict(zip(names, leaf.sizes, strict=True)), name: prod(sizes)}
    symbols = [AffineExpr.symbol(number) for number in range(len(leaf.ivs))]
    folded = [each for each in order if each == name or each in _folded(leaf)]
    made = _remapped(leaf, [(each, extents[each]) for each in order], dims, symbols)
    made.properties["reduce_axes"] = ArrayAttr([StringAttr(each) for each in folded])
    made.properties["kind"] = StringAttr("contract")
    return name, made


def _folded(leaf: ComputeOp) -> set[str]:
    return {name.data for name in leaf.reduce_axes}


def _only_loop(nest: FuncOp, axis: str) -> ForOp:
    loops = loops_of(nest, axis)
    if len(loops) != 1:
        raise IllegalRewrite(f"axis {axis!r} has {len(loops)} loops, not one to walk with others")
    return loops[0]


def _fresh(nest: FuncOp, name: str) -> str:
    taken = {axis for leaf in leaves_of(nest) for axis in leaf.axis_names}
    taken |= {axis_of(loop) for loop in loops_of(nest)}
    if name in taken:
        raise IllegalRewrite(f"there is an axis {name!r} already")
    return name


def _joined_buffers(
    leaves: Sequence[ComputeOp], axes: Sequence[str]
) -> dict[SSAValue, tuple[memref.AllocOp, tuple[int, ...]]]:
    """Register buffers with dimensions for the axes: new ones with one, and which these were."""
    places: dict[SSAValue, tuple[int, ...]] = {}
    for leaf in leaves:
        own = [AffineExpr.dimension(leaf.axis_names.index(axis)) for axis in axes]
        for value, each in zip((*leaf.inputs, *leaf.outputs), leaf.maps, strict=True):
            if scope_of(value) == "":
                continue
            results = list(each.data.results)
            found = tuple(results.index(dim) for dim in own if dim in results)
            if len(found) not in (0, len(axes)) or places.setdefault(value, found) != found:
                raise IllegalRewrite(f"a buffer is not indexed by all of {', '.join(axes)}")
    made: dict[SSAValue, tuple[memref.AllocOp, tuple[int, ...]]] = {}
    for value, found in places.items():
        if not found:
            continue
        type = cast("MemRefType[Attribute]", value.type)
        shape = [size for n, size in enumerate(type.get_shape()) if n not in found[1:]]
        joined = MemRefType(type.element_type, shape, memory_space=type.memory_space)
        owner = value.owner
        assert isinstance(owner, memref.AllocOp)
        buffer = memref.AllocOp([], [], joined)
        buffer.location, buffer.memref.name_hint = owner.location, value.name_hint
        block = owner.parent_block()
        assert block is not None
        block.insert_op_before(buffer, owner)
        made[value] = (buffer, found)
    return made


def _walk_as_one(
    leaf: ComputeOp,
    axes: Sequence[str],
    name: str,
    sizes: Sequence[int],
    loops: Sequence[ForOp],
    made: ForOp,
    buffers: Mapping[SSAValue, tuple[memref.AllocOp, tuple[int, ...]]],
) -> None:
    """A leaf of single points of the axes as one of single points of all of them."""
    names = list(leaf.axis_names)
    kept = [each for each in names if each not in axes]
    first = min(names.index(axis) for axis in axes)
    order = [*kept[:first], name, *kept[first:]]
    gone = [loop.induction_variable for loop in loops]
    ivs = [made.induction_variable, *(iv for iv in leaf.ivs if iv not in gone)]
    own = AffineExpr.dimension(order.index(name))
    parts = parts_of(AffineExpr.symbol(0) + own, sizes)
    # The loops' variables stand for the whole position: leaves take single points of the axes.
    symbols = [
        parts[gone.index(iv)] if iv in gone else AffineExpr.symbol(ivs.index(iv)) for iv in leaf.ivs
    ]
    dims = [
        AffineExpr.constant(0) if each in axes else AffineExpr.dimension(order.index(each))
        for each in names
    ]
    extents = {**dict(zip(names, leaf.sizes, strict=True)), name: 1}
    moved = _remapped(leaf, [(each, extents[each]) for each in order], dims, symbols, ivs)
    maps = [each.data for each in moved.maps]
    operands = [*moved.inputs, *moved.outputs]
    for number, value in enumerate(operands):
        if value not in buffers:
            continue
        buffer, found = buffers[value]
        results = list(maps[number].results)
        results[found[0]] = own
        results = [each for n, each in enumerate(results) if n not in found[1:]]
        maps[number] = AffineMap(len(order), len(ivs), tuple(results))
        operands[number] = buffer.memref
    count = len(moved.inputs)
    replace_leaf(moved, inputs=operands[:count], outputs=operands[count:], maps=maps)


def _remapped(
    leaf: ComputeOp,
    axes: Sequence[tuple[str, int]],
    dims: Sequence[AffineExpr],
    symbols: Sequence[AffineExpr],
    ivs: Sequence[SSAValue] | None = None,
) -> ComputeOp:
    """``replace_leaf`` with its axes, dimensions and symbols replaced everywhere."""
    rank = (len(axes), len(leaf.ivs if ivs is None else ivs))

    def moved(expression: AffineExpr) -> AffineExpr:
        return simplify(expression.replace_dims_and_symbols(dims, symbols))

    maps = [AffineMap(*rank, tuple(map(moved, each.data.results))) for each in leaf.maps]
    bounds = [(moved(expression), limit) for expression, limit in bounds_of(leaf)]
    return replace_leaf(leaf, axes=axes, ivs=ivs, maps=maps, bounds=bounds)
