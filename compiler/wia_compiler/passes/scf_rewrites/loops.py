"""What the rewrites of ``scf.for`` share: trip counts, turns of iterations, copied bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from wia_compiler.dialects.memref_prefetch import PrefetchOp
from wia_compiler.dialects.tile_points import SCALAR_DIALECTS
from wia_compiler.passes.emit_index import INDEX, IndexEmitter, constant_of

Values = dict[SSAValue, SSAValue]
"""What stands for each value of a body in a copy of it."""
WriteTurn = Callable[[IndexEmitter, list[SSAValue], list[SSAValue]], Sequence[SSAValue]]
"""Writes the iterations of one turn: from their variables and what the loop carries, the new."""
LOADS = (memref.LoadOp, vector.LoadOp, vector.MaskedLoadOp)
STORES = (memref.StoreOp, vector.StoreOp, vector.MaskedStoreOp)
_DIVISIONS = (
    *(arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp),
    *(arith.FloorDivSIOp, arith.CeilDivSIOp, arith.CeilDivUIOp),
)
"""Ops that fault on 0: they run only where the loop does."""
VIEWS = (memref.ReinterpretCastOp, memref.SubviewOp, memref.ViewOp, memref.CastOp)
"""Ops that give the memory of their first operand another shape."""
_VECTOR_OPS = ("broadcast", "create_mask", "fma", "reduction", "extract", "insert", "shuffle")


class CannotExpand(Exception):
    """A loop that has not the form which a hint needs; the text says what it lacks."""


@dataclass(frozen=True)
class Trips:
    """How often a loop runs: ``known`` at compile time, or only the ``value`` at run time."""

    value: SSAValue
    known: int | None


def trip_count(loop: scf.ForOp) -> int | None:
    """How often a loop runs, where its bounds are constants."""
    lower, upper, step = (constant_of(value) for value in (loop.lb, loop.ub, loop.step))
    if lower is None or upper is None or not step:
        return None
    return max(0, -(-(upper - lower) // step))


def emitter_before(loop: scf.ForOp) -> IndexEmitter:
    """Index arithmetic in front of a loop."""
    return IndexEmitter(Builder(InsertPoint.before(loop)), loop.location)


def trips_of(loop: scf.ForOp, emitter: IndexEmitter) -> Trips:
    """How often a loop runs, also where that is computed first.

    ``upper - lower`` may wrap: it counts only where ``lower < upper``, and then as unsigned.
    """
    known = trip_count(loop)
    if known is not None:
        return Trips(emitter.constant(known), known)
    runs = emitter.emit(arith.CmpiOp(loop.lb, loop.ub, "slt"))
    room = emitter.emit(arith.SubiOp(loop.ub, loop.lb))
    room = emitter.emit(arith.SelectOp(runs, room, emitter.constant(0)))
    if constant_of(loop.step) == 1:
        return Trips(room, None)
    last = emitter.emit(arith.SubiOp(loop.step, emitter.constant(1)))
    return Trips(
        emitter.emit(arith.DivUIOp(emitter.emit(arith.AddiOp(room, last)), loop.step)), None
    )


def at_iteration(
    loop: scf.ForOp, emitter: IndexEmitter, number: SSAValue | int, start: SSAValue | None = None
) -> SSAValue:
    """The variable ``number`` iterations after ``start`` (the first)."""
    step, first = constant_of(loop.step), loop.lb if start is None else start
    lower = constant_of(first)
    if number == 0:
        return first
    if isinstance(number, int) and step is not None:
        if lower is not None:
            return emitter.constant(lower + number * step)
        return emitter.add(first, emitter.constant(number * step))
    count = emitter.constant(number) if isinstance(number, int) else number
    distance = count if step == 1 else emitter.binary(arith.MuliOp, count, loop.step)
    return distance if lower == 0 else emitter.binary(arith.AddiOp, first, distance)


def write_turns(
    loop: scf.ForOp, copies: int, starts: Sequence[SSAValue], write: WriteTurn
) -> tuple[scf.ForOp | None, list[SSAValue], scf.ForOp | None]:
    """A loop of turns of ``copies`` iterations in front of ``loop``, which keeps what remains.

    There are at least ``copies`` iterations where their number is known.
    ``starts`` is what the turns carry. Gives the loop of turns (``None`` where it is one turn,
    which is then written without a loop), what it carries at the end, and ``loop`` (``None`` where
    nothing remains: the caller replaces its results and erases it).
    """
    emitter = emitter_before(loop)
    trips = trips_of(loop, emitter)
    step = constant_of(loop.step)
    if trips.known is not None:
        turns, rest = divmod(trips.known, copies)
        middle = at_iteration(loop, emitter, turns * copies)
    else:
        turns, rest = None, None
        over = emitter.binary(arith.RemUIOp, trips.value, emitter.constant(copies))
        middle = at_iteration(loop, emitter, emitter.binary(arith.SubiOp, trips.value, over))
    if turns == 1:
        variables = [at_iteration(loop, emitter, number) for number in range(copies)]
        ends: list[SSAValue] = [*write(emitter, variables, list(starts))]
        made = None
    else:
        stride = (
            emitter.constant(step * copies)
            if step is not None
            else emitter.binary(arith.MuliOp, loop.step, emitter.constant(copies))
        )
        if step is not None:
            for number in range(1, copies):
                emitter.constant(number * step)  # in front of the loop, not in each turn
        body = Block(arg_types=[INDEX, *(value.type for value in starts)])
        body.args[0].name_hint = loop.body.block.args[0].name_hint
        inside = emitter.nested(body)
        variables = [at_iteration(loop, inside, number, body.args[0]) for number in range(copies)]
        end_turn(body, write(inside, variables, list(body.args[1:])), loop)
        made = scf.ForOp(loop.lb, middle, stride, list(starts), Region(body))
        made.location = loop.location
        made.attributes = dict(loop.attributes)
        emitter.builder.insert(made)
        ends = [*made.results]
    if rest == 0:
        return made, ends, None
    loop.operands[0] = middle
    return made, ends, loop


def end_turn(body: Block, values: Sequence[SSAValue], like: Operation) -> None:
    """Close the block of a loop."""
    last = scf.YieldOp(*values)
    last.location = like.location
    body.add_op(last)


def replace_loop(loop: scf.ForOp, results: Sequence[SSAValue]) -> None:
    """Take a loop away; others stand for what it gave."""
    for old, new in zip(loop.results, results, strict=True):
        old.replace_all_uses_with(new)
    loop.detach()
    loop.erase()


def copy_body(body: Block, builder: Builder, values: Values) -> list[SSAValue]:
    """Write a loop's body once more; gives what it yields.

    ``values`` has the variable and what is carried. Buffers that it already names are used again.
    """
    for op in body.ops:
        if isinstance(op, scf.YieldOp):
            return [values.get(value, value) for value in op.operands]
        if not (is_buffer(op) and op.results[0] in values):
            builder.insert(op.clone(values))
    return []


def is_buffer(op: Operation) -> bool:
    """Whether an op makes a buffer."""
    return isinstance(op, memref.AllocOp | memref.AllocaOp)


def is_pure(op: Operation) -> bool:
    """Whether an op computes its results from its operands and does nothing else."""
    if op.regions or not op.results:
        return False
    dialect, _, name = op.name.partition(".")
    return (
        isinstance(op, VIEWS)
        or dialect in SCALAR_DIALECTS
        or (dialect == "vector" and name in _VECTOR_OPS)
    )


def hoist_invariants(loop: scf.ForOp) -> None:
    """Move what is the same in all iterations in front of a loop, so that copies share it."""
    block = loop.body.block
    parent = loop.parent_block()
    assert parent is not None
    for op in list(block.ops):
        if not is_pure(op) or isinstance(op, _DIVISIONS):
            continue
        if any(is_inside(value, block) for value in op.operands):
            continue
        op.detach()
        parent.insert_op_before(op, loop)


def is_inside(value: SSAValue, block: Block) -> bool:
    """Whether a value is made by an op of a block, or is an argument of it."""
    owner = value.owner
    return (owner.parent if isinstance(owner, Operation) else owner) is block


def array_of(op: Operation) -> SSAValue | None:
    """The array that an op reads, writes or fetches an element of."""
    match op:
        case memref.LoadOp() | memref.StoreOp() | PrefetchOp():
            return op.memref
        case vector.LoadOp() | vector.StoreOp() | vector.MaskedLoadOp() | vector.MaskedStoreOp():
            return op.base
        case _:
            return None


def memory_of(array: SSAValue) -> SSAValue:
    """The array whose memory a view shows; an array that is no view itself."""
    while isinstance(array.owner, VIEWS):
        array = array.owner.operands[0]
    return array


def written_arrays(op: Operation) -> set[SSAValue]:
    """The arrays that an op, or one inside it, writes to."""
    found: set[SSAValue] = set()
    for each in op.walk():
        array = array_of(each)
        if isinstance(each, STORES) and array is not None:
            found.add(memory_of(array))
        elif array is None and not each.regions and not is_pure(each):
            arrays = (value for value in each.operands if value.type.name == MemRefType.name)
            found |= {memory_of(value) for value in arrays}
    return found
