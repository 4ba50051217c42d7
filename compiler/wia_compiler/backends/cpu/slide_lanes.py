"""Which lanes take part, and which elements they pick, as values or as numbers known here."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import VectorType, i1
from xdsl.ir import Attribute, Operation, SSAValue

from wia_compiler.backends.cpu.turn_square import shuffle
from wia_compiler.passes.emit_index import IndexEmitter
from wia_compiler.passes.lane_ops import splat

_FAR = 1 << 40
"""Further than any place lies from 0."""


def place_of(emitter: IndexEmitter, rest: SSAValue | None, number: int) -> SSAValue:
    """A place from what is computed of it and the number that is known."""
    return emitter.constant(number) if rest is None else emitter.add(rest, emitter.constant(number))


def ceiling(emitter: IndexEmitter, rest: SSAValue, number: int, step: int) -> SSAValue:
    """``ceil((number - rest) / step)``."""
    above = emitter.subtract(emitter.constant(number + step - 1), rest)
    if step == 1:
        return above
    # Division of what is not negative: both sides are moved up by more than any place.
    moved = emitter.add(above, emitter.constant(step * _FAR))
    quotient = emitter.binary(arith.DivUIOp, moved, emitter.constant(step))
    return emitter.subtract(quotient, emitter.constant(_FAR))


def extreme(
    emitter: IndexEmitter, values: Sequence[SSAValue | int], *, largest: bool
) -> SSAValue | int:
    """The largest or smallest of some values, a number where all are."""
    numbers = [each for each in values if isinstance(each, int)]
    total: SSAValue | int = max(numbers) if largest else min(numbers)
    for each in values:
        if isinstance(each, SSAValue):
            other = emitter.constant(total) if isinstance(total, int) else total
            op = arith.MaxSIOp if largest else arith.MinSIOp
            total = emitter.binary(op, each, other)
    return total


def shifted(emitter: IndexEmitter, value: SSAValue | int, step: int, by: int) -> SSAValue | int:
    """``value * step + by``."""
    if isinstance(value, int):
        return value * step + by
    return emitter.add(emitter.scale(value, step), emitter.constant(by))


def picked_lanes(
    emitter: IndexEmitter, vectors: Sequence[SSAValue], phase: int, step: int, lanes: int
) -> SSAValue:
    """Every ``step``-th lane of some vectors, from ``phase`` on."""
    if step == 1:
        return vectors[0]
    result: SSAValue | None = None
    for part, each in enumerate(vectors):
        inside = [(lane, lane * step + phase - part * lanes) for lane in range(lanes)]
        taken = {lane: place for lane, place in inside if 0 <= place < lanes}
        if result is None:
            result = shuffle(emitter, each, each, [taken.get(lane, 0) for lane in range(lanes)])
            if part + 1 < len(vectors):
                # Two vectors are picked from at once.
                pair = {lane: place for lane, place in inside if 0 <= place < 2 * lanes}
                chosen = [pair.get(lane, 0) for lane in range(lanes)]
                result = shuffle(emitter, each, vectors[1], chosen)
        elif part > 1:
            chosen = [lanes + taken[lane] if lane in taken else lane for lane in range(lanes)]
            result = shuffle(emitter, result, each, chosen)
    assert result is not None
    return result


def mask_of(
    emitter: IndexEmitter, first: SSAValue | int, end: SSAValue | int, lanes: int
) -> SSAValue:
    """Lanes from ``first`` to before ``end``, which may lie outside of the vector."""
    shape = VectorType(i1, [lanes])
    mask = emitter.emit(_create_mask(_as_value(emitter, end), shape))
    if isinstance(first, int) and first <= 0:
        return mask
    before = emitter.emit(_create_mask(_as_value(emitter, first), shape))
    after = emitter.emit(arith.XOrIOp(before, emitter.emit(splat(True, shape))))
    return emitter.emit(arith.AndIOp(mask, after))


def _as_value(emitter: IndexEmitter, number: SSAValue | int) -> SSAValue:
    return emitter.constant(number) if isinstance(number, int) else number


def _create_mask(count: SSAValue, shape: VectorType[Attribute]) -> Operation:
    return vector.CreateMaskOp.build(operands=[[count]], result_types=[shape])
