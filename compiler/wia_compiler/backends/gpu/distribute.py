"""Which register buffers lie across a group of threads, and which each thread has whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from wia_compiler.backends.gpu.builder import shape_of
from wia_compiler.backends.gpu.layouts import Cyclic, Layout, accumulator_layout
from wia_compiler.backends.gpu.layouts_threads import thread_grid_layout
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import linear_form
from wia_compiler.passes.tile_rewrites import scope_of

WIDTH = "wia.width"
"""Attribute of a leaf that a warp or block shares: ``width_of`` it."""


class LayoutError(Exception):
    """Two leaves want the elements of one register buffer in different threads."""


def distributed_buffers(
    leaves: Sequence[ComputeOp], group_of: Mapping[ComputeOp, int]
) -> dict[SSAValue, Layout]:
    """Register buffers that a shared leaf walks, and how they lie in the threads that hold them.

    ``group_of`` has the threads that share a leaf, 1 for a leaf that threads run alone. A buffer
    whose allocation spells a layout has that one; any other is ``Cyclic``: element ``p``
    (linearised) of it must be point ``p`` of every leaf that touches it, so that the same thread
    has it each time: ``LayoutError`` where it is not.
    """
    spelled = _spelled_layouts(leaves)
    cyclic = _cyclic_buffers(leaves, group_of, spelled)
    dealt = {value: Cyclic(shape_of(value), *dealing) for value, dealing in cyclic.items()}
    return {**spelled, **dealt}


def _spelled_layouts(leaves: Sequence[ComputeOp]) -> dict[SSAValue, Layout]:
    """Buffers whose allocation says how they lie, in the order in which leaves touch them."""
    found: dict[SSAValue, Layout] = {}
    for value in (value for leaf in leaves for value in (*leaf.inputs, *leaf.outputs)):
        if scope_of(value) == "register" and isinstance(value.owner, Operation):
            layout = accumulator_layout(value.owner) or thread_grid_layout(value.owner)
            if layout is not None:
                found[value] = layout.of(shape_of(value))
    return found


def _cyclic_buffers(
    leaves: Sequence[ComputeOp],
    group_of: Mapping[ComputeOp, int],
    spelled: Mapping[SSAValue, Layout],
) -> dict[SSAValue, tuple[int, int]]:
    """Threads and width of each."""
    found: dict[SSAValue, tuple[int, int]] = {}
    for leaf in leaves:
        group = (group_of[leaf], width_of(leaf))
        for value, each in _operands(leaf):
            if scope_of(value) != "register" or prod(shape_of(value)) == 1 or value in spelled:
                continue
            walked = group[0] > 1 and _is_walked(leaf, each)
            if walked and found.setdefault(value, group) != group:
                raise LayoutError("a register buffer is shared by two different groups")
    for leaf in leaves:
        for value, each in _operands(leaf):
            if value in found and not _is_point_order(leaf, value, each):
                raise LayoutError(f"a register buffer of {value.type} is not walked in order")
            if value in found and (group_of[leaf], width_of(leaf)) != found[value]:
                raise LayoutError("a register buffer is shared by some of its leaves only")
    return found


def _operands(leaf: ComputeOp) -> Iterator[tuple[SSAValue, AffineMap]]:
    for value, each in zip((*leaf.inputs, *leaf.outputs), leaf.maps, strict=True):
        yield value, each.data


def _is_walked(leaf: ComputeOp, each: AffineMap) -> bool:
    """Whether a map picks different elements for different points that the group shares."""
    shared = _shared_axes(leaf)
    return any(axis in result.used_dims() for result in each.results for axis in shared)


def _shared_axes(leaf: ComputeOp) -> list[int]:
    """Axes along which what a leaf holds is dealt out: the folded ones of a fold, else all.

    A fold of several columns leaves one result of each with one thread: there it is the kept ones.
    """
    by_column = folds_columns(leaf)
    return [
        axis
        for axis, (folded, size) in enumerate(zip(leaf.reductions, leaf.sizes, strict=True))
        if size > 1 and (not leaf.folds or folded != by_column)
    ]


def width_of(leaf: ComputeOp) -> int:
    """Neighbouring points that a thread takes at a time of a leaf that a group shares."""
    noted = leaf.attributes.get(WIDTH)
    return noted.value.data if isinstance(noted, IntegerAttr) else 1


def folds_columns(leaf: ComputeOp) -> bool:
    """Whether a block folds several columns at once: a fold with kept points of its own."""
    kept = zip(leaf.reductions, leaf.sizes, strict=True)
    return leaf.folds and leaf.level.data == "block" and prod(s for f, s in kept if not f) > 1


def _is_point_order(leaf: ComputeOp, value: SSAValue, each: AffineMap) -> bool:
    """Whether the buffer's linear position is the point's, whatever the kept axes are."""
    wanted: dict[AffineExpr, int] = {}
    stride = 1
    for axis in reversed(_shared_axes(leaf)):
        wanted[AffineExpr.dimension(axis)] = stride
        stride *= leaf.sizes[axis]
    place: AffineExpr = AffineExpr.constant(0)
    stride = 1
    for result, size in reversed(list(zip(each.results, shape_of(value), strict=True))):
        place = place + result * stride
        stride *= size
    form = linear_form(place)
    single = {AffineExpr.dimension(axis) for axis, size in enumerate(leaf.sizes) if size == 1}
    found = {atom: factor for atom, factor in form.terms.items() if atom not in single}
    return found == wanted and form.constant == 0
