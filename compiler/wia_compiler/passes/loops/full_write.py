"""Whether a nest writes all of an array before it reads any of it: what it held does not matter."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_control import ForOp
from wia_compiler.dialects.loop_elements import LoadOp, StoreOp
from wia_compiler.dialects.types import spec_of
from wia_compiler.passes.loops.forms import Atom, Form
from wia_compiler.passes.loops.ranges import Ranges
from wia_compiler.passes.loops.values import enclosing


def writes_all(nest: NestOp, array: SSAValue) -> bool:
    """Whether every element is certain to be stored to, and none is read before.

    Seen are stores that run in every iteration of the loops around them, whose indices along each
    axis are the variable of a loop of its own that covers it: one from 0 to the size, the inner of
    two loops over tiles, or one with a step and as many stores (``C[i] … C[i + 3]``).
    """
    ranges = Ranges(nest)
    stores = [op for op in nest.walk() if isinstance(op, StoreOp) and op.array is array]
    loads = [op for op in nest.walk() if isinstance(op, LoadOp) and op.array is array]
    blocks: dict[Block, list[StoreOp]] = {}
    for op in stores:
        if op.is_proven and op.parent is not None and _always_runs(op):
            blocks.setdefault(op.parent, []).append(op)
    for group in blocks.values():
        if _covers(group, ranges) and all(_follows(each, group, ranges) for each in loads):
            return True
    return False


def _always_runs(op: Operation) -> bool:
    return all(isinstance(each, ForOp) for each, _ in enclosing(op))


def _follows(load: LoadOp, stores: Sequence[StoreOp], ranges: Ranges) -> bool:
    """Whether a load reads what one of the stores has just written in the same iteration."""
    for store in stores:
        if ranges.accesses[load] != ranges.accesses[store]:
            continue
        place: Operation | None = load
        while place is not None and place.parent is not store.parent:
            place = place.parent_op()
        if place is not None and store.is_before_in_block(place):
            return True
    return False


def _covers(stores: Sequence[StoreOp], ranges: Ranges) -> bool:
    """Whether stores that stand in one block cover their whole array."""
    first = stores[0]
    sizes = spec_of(first.array.type).shape
    forms = [ranges.accesses[each] for each in stores]
    around = [each for each, _ in enclosing(first) if isinstance(each, ForOp)]
    loops = {ranges.forms[each.variable].terms[0][0]: each for each in around}
    used: set[Atom] = set()
    spread = [axis for axis in range(len(sizes)) if len({each[axis] for each in forms}) > 1]
    if len(spread) > 1:
        return False  # stores at several places along one axis only
    for axis, size in enumerate(sizes):
        if not _covers_axis([each[axis] for each in forms], size, loops, used, ranges):
            return False
    others = [loop for atom, loop in loops.items() if atom not in used]
    return all(_runs_once(loop, ranges) for loop in others)


def _runs_once(loop: ForOp, ranges: Ranges) -> bool:
    """Whether a loop has an iteration whenever it is reached."""
    lower, upper = ranges.forms[loop.lower], ranges.forms[loop.upper]
    return ranges.bounds_at(loop).low(upper - lower) > 0


def _covers_axis(
    forms: Sequence[Form],
    size: int,
    loops: dict[Atom, ForOp],
    used: set[Atom],
    ranges: Ranges,
) -> bool:
    if size == 1 and forms[0].number == 0:
        return True
    if len(forms[0].terms) != 1 or forms[0].terms[0][1] != 1:
        return False
    atom = forms[0].terms[0][0]
    loop = loops.get(atom)
    if loop is None or atom in used:
        return False
    used.add(atom)
    offsets = {int(each.constant) for each in forms if each.terms == forms[0].terms}
    span = _span(loop, loops, used, ranges)
    if span is None:
        return False
    start, last, step = span
    run = set(range(min(offsets), min(offsets) + step))
    return run <= offsets and start + min(offsets) == 0 and last + min(offsets) + step >= size


def _span(
    loop: ForOp, loops: dict[Atom, ForOp], used: set[Atom], ranges: Ranges
) -> tuple[int, int, int] | None:
    """First value, last value and step of a loop's variable over all loops around it."""
    lower, upper, step = (ranges.forms[each] for each in (loop.lower, loop.upper, loop.step))
    if step.number is None or step.number < 1:
        return None
    if lower.number is not None and upper.number is not None:
        last = lower.number + (upper.number - 1 - lower.number) // step.number * step.number
        return lower.number, last, step.number
    # The inner of two loops over tiles: for ii in 0..N step T, for i in ii..min(ii + T, N).
    if step.number != 1 or len(lower.terms) != 1 or lower != Form.of(lower.terms[0][0]):
        return None
    tile = lower.terms[0][0]
    outer = loops.get(tile)
    if outer is None or tile in used:
        return None
    span = _span(outer, loops, used, ranges)
    if span is None:
        return None
    start, last, width = span
    end = ranges.forms[outer.upper].number
    if end is None or not _reaches(upper, lower, width, end, last):
        return None
    used.add(tile)
    return start, end - 1, 1


def _reaches(upper: Form, lower: Form, width: int, end: int, last: int) -> bool:
    """Whether an inner loop ends no earlier than its tile does, or than the whole."""
    whole = lower + width
    if upper == whole:
        return last + width >= end
    if len(upper.terms) != 1 or upper.constant or upper.terms[0][1] != 1:
        return False
    atom = upper.terms[0][0]
    ends = {Form((), end), whole}
    return atom.name == "min" and set(atom.uppers) == ends
