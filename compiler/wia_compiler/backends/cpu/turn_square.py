"""A square of vectors turned in registers: rows become columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from wia_compiler.dialects.shared_attributes import lane_order, vector_type
from wia_compiler.passes.emit_index import IndexEmitter
from wia_compiler.passes.llvm.types import size_bytes


def turn_square(emitter: IndexEmitter, rows: Sequence[SSAValue]) -> list[SSAValue]:
    """The columns of a square of as many vectors as they have lanes, a power of two.

    Inside of 128 bits neighbours are interleaved, then blocks of that size change places: what one
    instruction does on every x86 with vectors.
    """
    side = len(rows)
    element = cast("VectorType[Attribute]", rows[0].type).element_type
    group = min(side, max(1, 16 // size_bytes(element)))
    current = list(rows)
    step = 1
    while step < group:
        low = _interleaving(side, group, step, high=False)
        high = _interleaving(side, group, step, high=True)
        made: list[SSAValue] = []
        for base in range(0, side, 2 * step):
            for row in range(base, base + step):
                pair = (current[row], current[row + step])
                made += [shuffle(emitter, *pair, low), shuffle(emitter, *pair, high)]
        current, step = made, 2 * step
    while step < side:
        first = [lane if not lane & step else side + lane - step for lane in range(side)]
        second = [lane + step if not lane & step else side + lane for lane in range(side)]
        for row in range(side):
            if not row & step:
                pair = (current[row], current[row + step])
                current[row] = shuffle(emitter, *pair, first)
                current[row + step] = shuffle(emitter, *pair, second)
        step *= 2
    return current


def _interleaving(side: int, group: int, step: int, *, high: bool) -> list[int]:
    """Lanes of two vectors, ``step`` at a time from each: the lower or upper halves of groups."""
    lanes: list[int] = []
    half = group // 2
    for base in range(0, side, group):
        start = base + (half if high else 0)
        for place in range(start, start + half, step):
            lanes += [*range(place, place + step), *range(side + place, side + place + step)]
    return lanes


def shuffle(
    emitter: IndexEmitter, a: SSAValue, b: SSAValue, lanes: Sequence[int] | range
) -> SSAValue:
    """The lanes of two vectors with these numbers, those of ``b`` counted after those of ``a``."""
    element = cast("VectorType[Attribute]", a.type).element_type
    mask = lane_order(tuple(lanes))
    type_ = vector_type(element, len(lanes))
    made = vector.ShuffleOp.create(operands=[a, b], result_types=[type_], properties={"mask": mask})
    return emitter.emit(made)
