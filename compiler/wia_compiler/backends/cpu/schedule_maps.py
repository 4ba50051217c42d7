"""Schedules of maps on a CPU: rows of vectors, turned squares, stores past the caches.

along a row   every operand is dense along one axis or the same all along it: one leaf walks a long
              piece of that axis in vectors, several of which are in flight
turned        operands are dense along two axes (a transpose): squares of both, turned in registers
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IntegerType, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from wia_compiler.backends.cpu.caches import Caches
from wia_compiler.backends.cpu.lane_plan import has_vector_body, lies_along, steps_along
from wia_compiler.backends.cpu.vector_plan import element_bytes
from wia_compiler.base.schedule import Directive, directive
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.llvm.types import num_elements, size_bytes
from wia_compiler.passes.schedule import Chosen
from wia_compiler.passes.scheduling.nest import arrays_of
from wia_compiler.passes.tile_rewrites import axis_of, leaves_of, loops_of

PIECE = 1 << 14
"""Points of a row that one leaf walks: enough that its start and end do not count, few enough that
threads share a long row."""
_BUFFERED_PIECE = 1 << 9
"""The same where leaves hand values to each other, in a buffer that stays in the first cache."""
_OPS_IN_FLIGHT = 48
"""Ops of a turn of the loop: more than these fill the window in which a core looks ahead."""
_MOST_VECTORS = 4
_SQUARE = 4
"""Fewer points along an axis are not worth turning."""
_FUNCTION_OPS = 20
"""Ops that exp, tanh and their like expand to, roughly."""


def choose_map(
    nest: func.FuncOp, keep: tuple[Directive, ...], vector_bytes: int, caches: Caches
) -> Chosen | None:
    """How to walk a nest of maps alone; ``None`` where LLVM's vectoriser sees more in it.

    ``keep`` goes first.
    """
    leaves = [leaf for leaf in leaves_of(nest) if leaf.outputs]
    if any(leaf.folds for leaf in leaves) or not loops_of(nest):
        return None
    sizes = {axis_of(loop): loop.extent.value.data for loop in loops_of(nest)}
    if any(loop.step.value.data != 1 for loop in loops_of(nest)):
        return None
    axis = _row_axis(leaves, sizes)
    if axis is None:
        return None if keep else _turned(leaves, sizes, vector_bytes)
    piece = PIECE if len(leaves) == 1 else _BUFFERED_PIECE
    points = min(sizes[axis], piece)
    lanes = vector_bytes // max(element_bytes(leaf) for leaf in leaves)
    directives = [*keep, directive("thread_tile", {axis: points})]
    count = vectors_in_flight(leaves)
    if count > 1 and points >= 2 * count * lanes:
        directives.append(directive("unroll", {axis: count}))
    streamed = stream_results(nest, caches)
    numbers = {"points": points, "lanes": lanes}
    return Chosen((*directives, *streamed), f"vectors along {axis}", numbers)


def vectors_in_flight(leaves: Sequence[ComputeOp]) -> int:
    """Vectors that one turn of a loop works on: 1, 2 or 4, fewer where each takes many ops."""
    costs = [
        sum(_cost(op) for op in leaf.body.block.ops if not isinstance(op, arith.ConstantOp))
        for leaf in leaves
    ]
    most = max([1, *costs])
    return next(n for n in (_MOST_VECTORS, 2, 1) if n * most <= _OPS_IN_FLIGHT or n == 1)


def _cost(op: Operation) -> int:
    return _FUNCTION_OPS if op.name.startswith("math.") else 1


def stream_results(nest: func.FuncOp, caches: Caches) -> tuple[Directive, ...]:
    """``stream`` for what a nest writes and does not read, where its arrays fill the last cache."""
    arrays = arrays_of(nest)
    total = sum(bytes_of(value) for value in arrays.values())
    if total < caches.last:
        return ()
    leaves = leaves_of(nest)
    read = {value for leaf in leaves for value in leaf.inputs}
    folded = {value for leaf in leaves if leaf.folds for value in leaf.outputs}
    written = [value for leaf in leaves for value in leaf.outputs if not leaf.folds]
    names = [
        name
        for name, value in arrays.items()
        if value in written and value not in read | folded and 2 * bytes_of(value) >= caches.l2
    ]
    return (directive("stream", *names),) if names else ()


def bytes_of(value: SSAValue) -> int:
    """Bytes of all elements of an array."""
    type_ = cast("MemRefType[Attribute]", value.type)
    return num_elements(type_) * size_bytes(type_.element_type)


def _row_axis(leaves: Sequence[ComputeOp], sizes: dict[str, int]) -> str | None:
    """The longest axis that all leaves can walk in vectors; the innermost of equal ones."""
    fitting = [
        axis for axis in sizes if sizes[axis] > 1 and all(lies_along(leaf, axis) for leaf in leaves)
    ]
    return max(reversed(fitting), key=lambda axis: min(sizes[axis], 256), default=None)


def _turned(leaves: Sequence[ComputeOp], sizes: dict[str, int], vector_bytes: int) -> Chosen | None:
    """Squares of two axes: one dense for what is read, the other for what is written."""
    if len(leaves) != 1 or not has_vector_body(leaves[0]) or len(leaves[0].outputs) != 1:
        return None
    (leaf,) = leaves
    if any(_is_bool(value) for value in (*leaf.inputs, *leaf.outputs)):
        return None
    found = {axis: steps_along(leaf, axis) for axis, size in sizes.items() if size >= _SQUARE}
    steps = {axis: each for axis, each in found.items() if each is not None}
    lanes = vector_bytes // element_bytes(leaf)
    for along, own in steps.items():
        for across, other in steps.items():
            if along == across or own[-1] != 1:
                continue
            pairs = list(zip(own[:-1], other[:-1], strict=True))
            reads = any(step == 1 and there not in (0, 1) for there, step in pairs)
            if reads and all(step in (0, 1) or there in (0, 1) for there, step in pairs):
                tile = {across: min(sizes[across], lanes), along: min(sizes[along], 4 * lanes)}
                reason = f"squares of {across} and {along} are turned in registers"
                return Chosen((directive("thread_tile", tile),), reason, dict(tile))
    return None


def _is_bool(value: SSAValue) -> bool:
    return cast("MemRefType[Attribute]", value.type).element_type == IntegerType(1)
