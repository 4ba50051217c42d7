"""What suits nests from loops over elements alone: tiles and sums that stand in the text."""

from __future__ import annotations

from xdsl.dialects import func

from wia_compiler.backends.cpu.vector_plan import element_bytes, runs_along_lanes
from wia_compiler.base.schedule import directive
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.schedule import Chosen
from wia_compiler.passes.tile_rewrites import axis_of, leaves_of, loops_of

_JAMMED_ROWS = 4
"""Rows whose sums run side by side: an addition takes four cycles, and four rows are in flight."""
_ROWS = 32
"""Rows of one block, which one thread takes."""
_SHORTEST_ROW = 16
"""Elements of a row below which one row after the other costs no more."""


def jam_rows(nest: func.FuncOp) -> Chosen | None:
    """Sums of several rows side by side, where each row is added up in order.

    ::

        for i … { reduce [j = 512] s[i] += x[i, j] }   →   unroll_and_jam i 4

    Each sum waits for its last addition; those of four rows do not wait for each other.
    """
    loops = loops_of(nest)
    folds = [leaf for leaf in leaves_of(nest) if leaf.folds]
    if not loops or not any(leaf.is_ordered for leaf in folds):
        return None
    pairs = [
        (size, folded)
        for leaf in folds
        for size, folded in zip(leaf.sizes, leaf.reductions, strict=True)
    ]
    longest = max((size for size, folded in pairs if folded), default=1)
    if loops[-1].trip_count < 2 * _JAMMED_ROWS or longest < _SHORTEST_ROW:
        return None
    axis, rows = axis_of(loops[-1]), loops[-1].trip_count
    # Threads share a loop as it is: what runs side by side is a loop of its own inside.
    blocks = [directive("tile", {axis: _ROWS})] if rows >= 2 * _ROWS else []
    reason = "sums of several rows, each in the order of the text, run side by side"
    return Chosen((*blocks, directive("unroll_and_jam", {axis: _JAMMED_ROWS})), reason)


def walks_tiles(nest: func.FuncOp) -> bool:
    """Whether loops of a nest that no schedule has changed yet take several points at a time."""
    return any(loop.step.value.data > 1 for loop in loops_of(nest))


def choose_text_tiles(nest: func.FuncOp, vector_bytes: int, vector_registers: int) -> Chosen:
    """Rows by vectors that registers hold, for each fold of tiles that the text wrote.

    ::

        for ii … for jj … { contract [i = 32, j = 32, k = 64] … }   →   thread_tile i 8, j 32
    """
    sizes: dict[str, int] = {}
    for leaf in leaves_of(nest):
        if leaf.folds:
            for axis, size in _register_tile(leaf, vector_bytes, vector_registers).items():
                sizes.setdefault(axis, size)
    if not sizes:
        return Chosen(reason="its tiles are those of the text")
    reason = "register tiles within the tiles of the text"
    return Chosen((directive("thread_tile", sizes),), reason)


def _register_tile(leaf: ComputeOp, vector_bytes: int, vector_registers: int) -> dict[str, int]:
    """Points of each kept axis that one turn of a fold takes; empty where no vectors can."""
    lanes = vector_bytes // element_bytes(leaf)
    most_rows, most_vectors = (8, 2) if vector_registers >= 32 else (4, 2)
    kept = [
        (name, size)
        for name, size, folded in zip(leaf.axis_names, leaf.sizes, leaf.reductions, strict=True)
        if not folded and size > 1
    ]
    for axis, size in reversed(kept):
        along = runs_along_lanes(leaf, axis)
        if along is None or not any(along[: len(leaf.inputs)]) or size < 2:
            continue
        columns = min(most_vectors, size // lanes) * lanes if size >= lanes else _power(size)
        rows = [(name, count) for name, count in kept if name != axis]
        tile = {name: 1 for name, _ in rows[:-1]}
        if rows:
            name, count = rows[-1]
            tile[name] = next(n for n in range(min(most_rows, count), 0, -1) if count % n == 0)
        return {**tile, axis: columns}
    return {}


def _power(size: int) -> int:
    return 1 << (size.bit_length() - 1)
