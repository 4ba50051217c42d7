"""Independent accumulators: a fold in several partial results, which do not wait for each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith, scf, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from wia_compiler.passes.emit_index import IndexEmitter
from wia_compiler.passes.scf_rewrites.loops import (
    CannotExpand,
    Values,
    copy_body,
    emitter_before,
    hoist_invariants,
    replace_loop,
    trip_count,
    write_turns,
)

_NEUTRAL: dict[type[Operation], float | int] = {
    arith.AddfOp: -0.0,  # x + -0.0 is x, also where x is -0.0
    arith.MulfOp: 1.0,
    arith.AddiOp: 0,
    arith.MuliOp: 1,
    arith.XOrIOp: 0,
}
"""What each further partial result starts from, by the op that combines them."""
_IDEMPOTENT = (
    *(arith.MaximumfOp, arith.MinimumfOp, arith.MaxSIOp, arith.MinSIOp),
    *(arith.MaxUIOp, arith.MinUIOp, arith.AndIOp, arith.OrIOp),
)
"""Folds whose partial results may all start from the first value."""
REASSOCIATES = (arith.AddfOp, arith.MulfOp)
"""Folds whose result depends on the order by roundings."""


@dataclass(frozen=True)
class Fold:
    """How a carried value is folded: the ``op`` that combines two partial results, its flags.

    Narrow floats are combined as ``wide`` ones, and rounded after each step.
    """

    op: type[Operation]
    flags: Attribute | None
    wide: Attribute | None = None

    def combine(self, emitter: IndexEmitter, one: SSAValue, other: SSAValue) -> SSAValue:
        """Two partial results in one."""
        narrow = one.type
        if self.wide is not None:
            one, other = (emitter.emit(_convert(arith.ExtFOp, v, self.wide)) for v in (one, other))
        properties = {} if self.flags is None else {"fastmath": self.flags}
        made = self.op.create(operands=[one, other], result_types=[one.type], properties=properties)
        total = emitter.emit(made)
        return total if self.wide is None else emitter.emit(_convert(arith.TruncFOp, total, narrow))


def _convert(op: type[Operation], value: SSAValue, type_: Attribute) -> Operation:
    return op.create(operands=[value], result_types=[type_])


def split_accumulators(loop: scf.ForOp, count: int, copies: int = 1) -> scf.ForOp | None:
    """Fold into ``count`` partial results; gives the loop of turns, if any.

    A turn is of ``copies`` iterations, rounded up to a multiple of ``count``.

    ::

        %s = scf.for %i = 0 to 1000 step 1 iter_args(%sum = %zero) { yield %sum + a[%i] }
          →  %p:4 = scf.for %i = 0 to 1000 step 4 iter_args(%sum = %zero, %sum_1 = -0, …) {
               yield %sum + a[%i], %sum_1 + a[%i + 1], %sum_2 + a[%i + 2], %sum_3 + a[%i + 3] }
             %s = %p#0 + %p#1 + %p#2 + %p#3

    Iteration n goes to number n mod ``count``; the parts are combined from the first on, and
    iterations that remain are folded into that. The order of a fold of floats changes: the caller
    has announced it. All that the loop carries must be folded.
    """
    folds = [fold_of(loop, number) for number in range(len(loop.iter_args))]
    if not folds:
        raise CannotExpand("it carries no sum from one iteration to the next")
    for number, fold in enumerate(folds):
        if fold is None:
            name = loop.body.block.args[1 + number].name_hint or "a value"
            raise CannotExpand(f"{name} is not folded: it is no sum, product or extreme")
    known = cast("list[Fold]", folds)
    trips = trip_count(loop)
    if count < 2 or (trips is not None and trips < count):
        return loop
    copies = max(1, -(-copies // count)) * count
    if trips is not None:
        copies = min(copies, trips // count * count)
    hoist_invariants(loop)
    block = loop.body.block
    emitter = emitter_before(loop)
    first = list(loop.iter_args)
    starts = [*first]
    for _ in range(1, count):
        starts += [_start(emitter, fold, each) for fold, each in zip(known, first, strict=True)]

    def write(
        inside: IndexEmitter, variables: list[SSAValue], carried: list[SSAValue]
    ) -> list[SSAValue]:
        for number, variable in enumerate(variables):
            own = slice(number % count * len(known), (number % count + 1) * len(known))
            values: Values = dict(zip(block.args, [variable, *carried[own]], strict=True))
            carried[own] = copy_body(block, inside.builder, values)
        return carried

    turns, parts, rest = write_turns(loop, copies, starts, write)
    if turns is not None:
        for position, argument in enumerate(turns.body.block.args[1:]):
            argument.name_hint = block.args[1 + position % len(known)].name_hint
    after = emitter_before(loop)
    ends = parts[: len(known)]
    for number in range(1, count):
        others = parts[number * len(known) : (number + 1) * len(known)]
        ends = [
            fold.combine(after, one, other)
            for fold, one, other in zip(known, ends, others, strict=True)
        ]
    if rest is None:
        replace_loop(loop, ends)
    else:
        rest.operands = [*rest.operands[:3], *ends]
    return turns


def fold_of(loop: scf.ForOp, number: int) -> Fold | None:
    """How a loop folds what it carries under that number; ``None`` where it does something else.

    The value is used once, by an op that adds to it (or multiplies …), through as many of these as
    the body has, or by a loop inside that folds it; what comes of that is yielded and nothing else.
    """
    last = loop.body.block.last_op
    assert last is not None
    value: SSAValue = loop.body.block.args[1 + number]
    found: Fold | None = None
    while True:
        uses = list(value.uses)
        if len(uses) != 1:
            return None
        user, index = uses[0].operation, uses[0].index
        if user is last:
            return found if index == number else None
        if user.parent_block() is not loop.body.block:
            return None
        if isinstance(user, scf.ForOp) and index >= 3:
            step, value = fold_of(user, index - 3), user.results[index - 3]
        elif isinstance(user, arith.ExtFOp):
            step, value = _narrow_fold(user)
        else:
            step, value = _fold_by(user, index), user.results[0] if user.results else value
        if step is None or (found is not None and found.op is not step.op):
            return None
        found = step


def _narrow_fold(widened: arith.ExtFOp) -> tuple[Fold | None, SSAValue]:
    """A fold of narrow floats, which is done on wide ones and rounded: how, and what it gives."""
    value: SSAValue = widened.result
    uses = list(value.uses)
    step = _fold_by(uses[0].operation, uses[0].index) if len(uses) == 1 else None
    if step is None:
        return None, value
    rounded = [use.operation for use in uses[0].operation.results[0].uses]
    if len(rounded) != 1 or not isinstance(rounded[0], arith.TruncFOp):
        return None, value
    return Fold(step.op, step.flags, value.type), rounded[0].results[0]


def _fold_by(op: Operation, index: int) -> Fold | None:
    """How an op folds its operand of that index with the others."""
    flags = op.properties.get("fastmath")
    if isinstance(op, vector.FMAOp) and index == 2:
        return Fold(arith.AddfOp, None)
    if isinstance(op, arith.SubfOp) and index == 0:
        return Fold(arith.AddfOp, flags)
    if isinstance(op, arith.SubiOp) and index == 0:
        return Fold(arith.AddiOp, None)
    if type(op) in _NEUTRAL or isinstance(op, _IDEMPOTENT):
        return Fold(type(op), flags)
    return None


def _start(emitter: IndexEmitter, fold: Fold, first: SSAValue) -> SSAValue:
    """What a further partial result starts from: a neutral number, or the first value itself."""
    number = _NEUTRAL.get(fold.op)
    if number is None:
        return first
    type_ = first.type
    if isinstance(type_, VectorType):
        value = DenseIntOrFPElementsAttr.from_list(cast("VectorType[Any]", type_), [number])
        return emitter.emit(arith.ConstantOp(value, cast("Any", type_)))
    if isinstance(number, float):
        return emitter.emit(arith.ConstantOp(FloatAttr(number, cast("Any", type_))))
    return emitter.emit(arith.ConstantOp(IntegerAttr(number, cast("Any", type_))))
