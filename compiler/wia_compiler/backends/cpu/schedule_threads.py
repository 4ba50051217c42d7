"""Which loops a default schedule gives to threads: the outermost that are worth it.

Handing a loop to threads that wait costs some microseconds, waking them some ten more. So a nest
that one core finishes in less than ``WORTH_NS`` stays on one thread. Code does not depend on the
number of threads: that is read at each call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr, MemRefType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from wia_compiler.backends.cpu.parallel_loops import only_loop_in
from wia_compiler.backends.cpu.vector_plan import element_bytes
from wia_compiler.base.schedule import Directive, directive
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    axis_of,
    leaves_of,
    loops_around,
    loops_of,
    scope_of,
)
from wia_compiler.passes.tile_rewrites.fold_parts import check_parts
from wia_compiler.passes.tile_rewrites.races import why_not_shared

WORTH_NS = 40_000
"""Time of one core from which on two are faster, with the hand-over."""
_VECTORS_PER_NS = 4
"""Vector operations of one core: two a cycle at 2 GHz."""
_BYTES_PER_NS = 40
"""What one core reads between its second cache and memory, as most nests find their arrays."""
_FUNCTION_COST = 12
"""Operations that exp, tanh and their like take."""
_POINT_COST = 2
"""Loads, stores and address arithmetic beside each operation of point code."""
_GUESS = 1 << 10
"""Iterations of a loop whose bounds come with the data."""
_MOST_PARTS = 64
"""Parts of a fold: enough for many threads, few enough to be folded in no time."""
_WHOLE_PART = 1024
"""Parts are multiples of so many points where they are longer: whole vectors on every CPU."""
_WHOLE_ROWS = 16
"""The same for shorter ones."""
_FEWEST_ROWS = 128
"""Rows of a part that has a row of results: folding these takes a hundredth of its time."""
_EVEN_TURNS = 16
"""From so many iterations on, threads end at about the same time."""


def parallel_axis(nest: func.FuncOp, vector_bytes: int) -> Directive | None:
    """``parallel i.0``: the loops of a scheduled nest that threads should share.

    To be called last, on the nest as its other directives leave it; ``vector_bytes`` is the width
    of a vector. ``None`` where the nest is too small, or where no loop may be shared. A loop of few
    turns is named together with the one that it holds and nothing else (``parallel i.0, j.0``):
    their iterations are shared as one sequence. Where there is no such loop, a fold outside of all
    loops is cut into parts (``parallel i 65536``), of sizes that do not depend on the threads.
    """
    if any(loop.level.data == "thread" for loop in loops_of(nest)):
        return None
    # A name stands for all loops that have it, side by side.
    refused = {each.axis.data for each in loops_of(nest) if why_not_shared(each) is not None}
    names = _shared_loops(nest.body.block, refused, vector_bytes)
    if names:
        return directive("parallel", *dict.fromkeys(names))
    folds = [leaf for leaf in leaves_of(nest) if leaf.folds and not loops_around(leaf)]
    return _in_parts(folds, vector_bytes)


def column_parts(nest: func.FuncOp, axis: str, columns: int, vector_bytes: int) -> Directive | None:
    """``parallel i 256``: parts of rows for a fold down columns, before it is tiled.

    ``columns`` of ``axis`` will be taken at a time; ``None`` where these are turns enough for
    threads, which then stream whole rows of their own, or where the fold is short.
    """
    loops = loops_of(nest)
    turns = math.prod(
        -(-loop.trip_count // columns) if axis_of(loop) == axis else loop.trip_count
        for loop in loops
    )
    if turns >= _EVEN_TURNS // 4:
        return None
    times = math.prod(loop.trip_count for loop in loops)
    folds = [leaf for leaf in leaves_of(nest) if leaf.folds]
    return _in_parts(folds, vector_bytes, times=times, least=_FEWEST_ROWS)


def _in_parts(
    folds: Sequence[ComputeOp], vector_bytes: int, *, times: int = 1, least: int = 1
) -> Directive | None:
    """Parts for the longest of some folds that run so many times, if all over its axis may be cut.

    Their sizes do not depend on the number of threads, and so no result does.
    """
    longest = max(folds, key=lambda leaf: _time_ns(leaf, vector_bytes), default=None)
    if longest is None or not longest.reduce_axes.data:
        return None
    time_ns = _time_ns(longest, vector_bytes) * times
    axis = longest.reduce_axes.data[0].data
    extent = longest.sizes[longest.axis_names.index(axis)]
    count = min(_MOST_PARTS, int(time_ns // (WORTH_NS / 4)), extent // least)
    if time_ns < WORTH_NS or count < 2:
        return None
    try:
        for leaf in folds:
            if axis in {name.data for name in leaf.reduce_axes}:
                check_parts(leaf, axis)
    except IllegalRewrite:
        return None
    size = -(-extent // count)
    whole = _WHOLE_PART if size > _WHOLE_PART else _WHOLE_ROWS if size > _WHOLE_ROWS else 1
    return directive("parallel", {axis: -(-size // whole) * whole})


def _shared_loops(block: Block, refused: set[str], vector_bytes: int) -> list[str]:
    found: list[str] = []
    for loop in block.ops:
        if not isinstance(loop, ForOp):
            continue
        if _time_ns(loop, vector_bytes) < WORTH_NS:
            continue
        chain = _chain(loop, refused)
        turns = math.prod(each.trip_count for each in chain)
        inside: list[str] = []
        if turns < _EVEN_TURNS // 4:  # also where the loop itself may not be shared
            inside = _shared_loops(loop.body.block, refused, vector_bytes)
        found += inside or [each.axis.data for each in chain if each.trip_count > 1]
    return found


def _chain(loop: ForOp, refused: set[str]) -> list[ForOp]:
    """A loop that may be shared, with those that it alone holds until there are turns enough."""
    if loop.axis.data in refused:
        return []
    inner = only_loop_in(loop)
    if loop.trip_count >= _EVEN_TURNS or inner is None or axis_of(inner) == axis_of(loop):
        return [loop]
    return [loop, *_chain(inner, refused)]


def _time_ns(op: Operation, vector_bytes: int) -> float:
    """What one core needs for an op, with what it holds, roughly."""
    if isinstance(op, ComputeOp):
        lanes = max(1, vector_bytes // element_bytes(op))
        cost = 1  # a register tile: a product and its sum, of values that are at hand
        if op.kind.data not in ("contract", "window"):
            cost = len(op.inputs) + len(op.outputs) + sum(map(_cost, op.body.block.ops))
        return max(math.prod(op.sizes) * cost / lanes / _VECTORS_PER_NS, _bytes(op) / _BYTES_PER_NS)
    if not op.regions:
        return _cost(op) * _POINT_COST / _VECTORS_PER_NS
    blocks = (block for region in op.regions for block in region.blocks)
    inside = sum(_time_ns(each, vector_bytes) for block in blocks for each in block.ops)
    return inside * _turns(op)


def _bytes(leaf: ComputeOp) -> int:
    """What a leaf reads and writes outside of registers, each element once."""
    total = 0
    for value, each in zip((*leaf.inputs, *leaf.outputs), leaf.maps, strict=True):
        if scope_of(value) != "register":
            element = cast("MemRefType[Attribute]", value.type).element_type
            points = math.prod(leaf.sizes[dim] for dim in each.data.used_dims())
            total += points * size_bytes(element)
    return total


def _cost(op: Operation) -> int:
    return _FUNCTION_COST if op.name.startswith("math.") else 1


def _turns(op: Operation) -> int:
    if isinstance(op, ForOp):
        return op.trip_count
    if isinstance(op, scf.WhileOp):
        return _GUESS
    if not isinstance(op, scf.ForOp):
        return 1
    ends = [_constant(value) for value in (op.lb, op.ub, op.step)]
    if ends[0] is None or ends[1] is None or not ends[2]:
        return _GUESS
    return max(0, -(-(ends[1] - ends[0]) // ends[2]))


def _constant(value: SSAValue) -> int | None:
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    return None
