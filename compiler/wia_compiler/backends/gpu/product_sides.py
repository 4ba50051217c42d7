"""What the axes of a matrix product are: rows, columns, and what is added up."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.access import in_memory
from wia_compiler.backends.gpu.tiling import kept_loops, uses_axis
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.tile_rewrites import axis_of


@dataclass(frozen=True)
class Sides:
    """Axes of a contraction: ``rows`` of one operand alone, ``columns`` of the other, ``fold``."""

    rows: str
    columns: str
    fold: str


def sides_of(nest: FuncOp, leaf: ComputeOp) -> Sides | None:
    """The axes to tile, where the leaf is a matmul: one folded, one of each operand alone."""
    folded = [n for n, is_folded in zip(leaf.axis_names, leaf.reductions, strict=True) if is_folded]
    memory = [number for number in in_memory(leaf) if number < len(leaf.inputs)]
    if leaf.kind.data != "contract" or len(folded) != 1 or len(memory) != 2:
        return None
    own: list[list[str]] = [[], []]
    for loop in kept_loops(nest):
        used = [uses_axis(leaf, number, axis_of(loop)) for number in memory]
        if used[0] != used[1]:
            own[used[1]].append(axis_of(loop))
    if not own[0] or not own[1]:
        return None
    # The axis that the result is dense along becomes the columns: neighbours for a thread to write.
    order = [axis_of(loop) for loop in kept_loops(nest)]
    rows, columns = sorted((own[0][-1], own[1][-1]), key=order.index)
    return Sides(rows, columns, folded[0])
