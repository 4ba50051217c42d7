"""Which accesses lie inside their arrays whenever they run, which are certain not to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_control import ForOp, IfOp, WhileOp
from wia_compiler.dialects.loop_elements import PROVEN, LoadOp, StoreOp
from wia_compiler.dialects.types import spec_of
from wia_compiler.passes.loops.ranges import INTEGERS, Ranges
from wia_compiler.passes.loops.values import Evaluator, enclosing

Fault = Callable[[Operation, str, "str | None"], None]

_MOST_LOOPS = 6
"""Loops around an access whose first and last iterations are tried in all combinations."""


def check_accesses(nest: NestOp, fault: Fault) -> None:
    """Mark accesses that are always inside as ``proven``; report those that are certain to fail.

    An access is certain to fail where it runs and its index lies outside in a first or last
    iteration of the loops around it. What is neither is checked while the kernel runs. A loop is
    marked too where its step is certainly above 0 and its variable cannot overflow.
    """
    ranges = Ranges(nest)
    for op in nest.walk():
        if isinstance(op, LoadOp | StoreOp):
            _check(op, ranges, fault)
        elif isinstance(op, ForOp) and _counts_safely(op, ranges):
            op.attributes[PROVEN] = UnitAttr()


def _counts_safely(op: ForOp, ranges: Ranges) -> bool:
    bounds = ranges.bounds_at(op)
    step, upper = ranges.forms[op.step], ranges.forms[op.upper]
    return bounds.low(step) > 0 and bounds.high(upper) + bounds.high(step) <= INTEGERS[1]


def _check(op: LoadOp | StoreOp, ranges: Ranges, fault: Fault) -> None:
    sizes = spec_of(op.array.type).shape
    bounds = ranges.bounds_at(op)
    inside = [
        bounds.low(form) >= 0 and bounds.high(form) < size
        for form, size in zip(ranges.accesses[op], sizes, strict=True)
    ]
    op.attributes.pop(PROVEN, None)
    if all(inside):
        op.attributes[PROVEN] = UnitAttr()
        return
    for axis, size in enumerate(sizes):
        if not inside[axis]:
            index = _certain_index(op, axis, size)
            if index is not None:
                fault(op, *_outside(op, axis, size, index))
                return


def _outside(op: LoadOp | StoreOp, axis: int, size: int, index: int) -> tuple[str, str]:
    name = op.array.name_hint or "the array"
    one = len(op.indices) == 1
    place, there = ("", "") if one else (f" of axis {axis}", " there")
    loops = [each for each, _ in enclosing(op) if isinstance(each, ForOp)]
    hint = f"indices of {name}{place} go from 0 to {size - 1}" if size else f"{name} is empty"
    if index >= size and loops:
        hint += f"; end the loop earlier, or guard it: if (… < {size})"
    return f"index {index}{place} lies outside {name!r}, which has size {size}{there}", hint


def _certain_index(op: LoadOp | StoreOp, axis: int, size: int) -> int | None:
    """An index outside the array at which the access is certain to run."""
    for corner in corners(op):
        index = corner.number(op.indices[axis])
        if isinstance(index, int) and not 0 <= index < size:
            return index
    return None


def corners(op: Operation) -> Iterator[Evaluator]:
    """First and last iterations of the loops around an op in which it is certain to run."""
    around = enclosing(op)
    loops = [each for each, _ in around if isinstance(each, ForOp)]
    if len(loops) > _MOST_LOOPS:
        return
    for choice in itertools.product((False, True), repeat=len(loops)):
        last = dict(zip(loops, choice, strict=True))
        evaluator = Evaluator()
        if all(_enters(each, region, last, evaluator) for each, region in around):
            yield evaluator


def _enters(op: Operation, region: int, last: dict[ForOp, bool], evaluator: Evaluator) -> bool:
    """Whether an op is certain to run a region of it; its loop variable is set."""
    match op:
        case ForOp():
            bounds = [evaluator.number(each) for each in (op.lower, op.upper, op.step)]
            lower, upper, step = bounds
            if not isinstance(lower, int) or not isinstance(upper, int) or lower >= upper:
                return False
            if not isinstance(step, int) or step <= 0:
                return False
            end = lower + (upper - 1 - lower) // step * step
            evaluator.set(op.variable, end if last[op] else lower)
            if not last[op] or end == lower:
                _carry(op.carried, op.body.block.args[1:], evaluator)
            return True
        case IfOp():
            condition = evaluator.number(op.condition)
            return condition is not None and bool(condition) == (region == 0)
        case WhileOp():
            _carry(op.carried, op.test.block.args, evaluator)
            _carry(op.carried, op.body.block.args, evaluator)
            return region == 0 or bool(evaluator.number(op.condition))
        case _:
            return False


def _carry(starts: Sequence[SSAValue], arguments: Sequence[SSAValue], evaluator: Evaluator) -> None:
    for start, argument in zip(starts, arguments, strict=True):
        number = evaluator.array(start)
        if number is not None:
            evaluator.known[argument] = number


def stored_shape(nest: NestOp, array: SSAValue) -> tuple[int, ...] | str:
    """The smallest shape that holds every index at which a nest stores to an array.

    Instead of it the reason, where an index has no known end or is not certain to reach it.
    """
    ranges = Ranges(nest)
    stores = [op for op in nest.walk() if isinstance(op, StoreOp) and op.array is array]
    if not stores:
        return "nothing is stored to it"
    rank = len(stores[0].indices)
    shape = [0] * rank
    for op in stores:
        if len(op.indices) != rank:
            return "it is stored to with different numbers of indices"
        bounds = ranges.bounds_at(op)
        runs = list(corners(op))
        never = _never_runs(op, ranges)
        for axis, form in enumerate(ranges.accesses[op]):
            most = bounds.high(form)
            reached = {corner.number(op.indices[axis]) for corner in runs}
            if most not in reached and not never:
                return f"index {axis} of a store to it is not known when the kernel is compiled"
            shape[axis] = max(shape[axis], most + 1)
    return tuple(max(size, 0) for size in shape)


def _never_runs(op: Operation, ranges: Ranges) -> bool:
    for each, _ in enclosing(op):
        if isinstance(each, ForOp):
            bounds = ranges.bounds_at(each)
            if bounds.high(ranges.forms[each.upper] - ranges.forms[each.lower]) <= 0:
                return True
    return False
