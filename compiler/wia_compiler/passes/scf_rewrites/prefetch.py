"""Prefetching: cache lines of later iterations are asked for before they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from wia_compiler.dialects.loop_hints import Prefetch
from wia_compiler.dialects.memref_prefetch import PrefetchOp
from wia_compiler.passes.emit_index import INDEX, IndexEmitter, constant_of
from wia_compiler.passes.llvm.types import size_bytes, strides_of
from wia_compiler.passes.scf_rewrites.loops import (
    LOADS,
    STORES,
    CannotExpand,
    Values,
    array_of,
    at_iteration,
    copy_body,
    end_turn,
    hoist_invariants,
    is_inside,
    is_pure,
    memory_of,
    replace_loop,
    trip_count,
    write_turns,
)

LINE_BYTES = 64
"""A cache line of the CPUs that this code is made for."""


@dataclass(frozen=True)
class Fetch:
    """What is to be fetched: the accesses that move with a loop, each with the ops of its place."""

    wanted: Prefetch
    accesses: tuple[tuple[Operation, tuple[Operation, ...]], ...]
    writes: bool


def find_accesses(loop: scf.ForOp, wanted: Prefetch) -> Fetch:
    """The accesses of an array whose place depends on a loop; ``CannotExpand`` if there are none.

    An array that the loop only stores to is fetched to be written.
    """
    array = _argument(loop, wanted.argument)
    accesses = [op for op in loop.body.walk() if _accesses(op, array)]
    if not accesses:
        raise CannotExpand(f"it does not access {wanted.array}")
    variable = loop.body.block.args[0]
    slices = ((op, _slice(_indices(op), variable)) for op in accesses)
    moving = tuple((op, tuple(ops)) for op, ops in slices if ops is not None)
    if not moving:
        raise CannotExpand(f"the place in {wanted.array} does not depend on it, or on data too")
    return Fetch(wanted, moving, all(isinstance(op, STORES) for op in accesses))


def insert_prefetches(
    loop: scf.ForOp, fetches: Sequence[Fetch], *, by_line: bool = True
) -> scf.ForOp:
    """Fetch arrays ahead in each iteration of a loop; gives the loop with the prefetches.

    ::

        scf.for %i = 0 to 1000 step 1 { %x = data[%i] … }     (ahead 32)
          →  scf.for %i = 0 to 992 step 16 {
               prefetch data[%i + 32]
               scf.for %n = %i to %i + 16 step 1 { %x = data[%n] … } }
             scf.for %i = 992 to 1000 step 1 { %x = data[%i] … }

    A line is fetched once: where iterations share one, and ``by_line`` allows it, those of a line
    become a loop of their own behind the prefetch, which LLVM may vectorise. Else a prefetch stands
    in front of each access; accesses of one line share theirs, and one of several lines has as
    many. The place may lie behind the array's end: nothing is read.
    """
    share = _iterations_of_a_line(loop, fetches) if by_line else 1
    trips = trip_count(loop)
    if share > 1 and (trips is None or trips > share):
        return _walk_lines(loop, fetches, share)
    first = loop.body.block.first_op
    assert first is not None
    top = IndexEmitter(Builder(InsertPoint.before(first)), loop.location)
    for fetch in fetches:
        later = top.add(loop.body.block.args[0], top.constant(fetch.wanted.ahead))
        done: set[object] = set()
        for op, place in fetch.accesses:
            emitter = IndexEmitter(Builder(InsertPoint.before(op)), op.location)
            _fetch(fetch, op, place, emitter, {loop.body.block.args[0]: later}, done)
    return loop


def _fetch(
    fetch: Fetch,
    op: Operation,
    place: Sequence[Operation],
    emitter: IndexEmitter,
    values: Values,
    done: set[object],
) -> None:
    """Prefetch the lines of one access that none before has fetched, where ``values`` say."""
    lines = _lines(op)
    wanted = [line for line in lines if line not in done]
    if not wanted:
        return
    for each in place:
        emitter.builder.insert(each.clone(values))
    indices = [values.get(index, index) for index in _indices(op)]
    bytes_each = size_bytes(_element(_view(op)))
    for line in wanted:
        done.add(line)
        distance = (line[3] - lines[0][3]) * LINE_BYTES // bytes_each
        at = [*indices[:-1], emitter.add(indices[-1], emitter.constant(distance))]
        made = PrefetchOp(_view(op), at, write=fetch.writes, locality=4 - fetch.wanted.level)
        made.location = op.location
        emitter.builder.insert(made)


def _iterations_of_a_line(loop: scf.ForOp, fetches: Sequence[Fetch]) -> int:
    """How many iterations read one cache line, by the array that changes lines most often."""
    block, step = loop.body.block, constant_of(loop.step)
    if step is None:
        return 1
    share = LINE_BYTES
    for fetch in fetches:
        for op, place in fetch.accesses:
            inside = {value for each in place for value in each.results} | {block.args[0]}
            read = {value for each in place for value in each.operands} | set(_indices(op))
            if op.parent is not block or any(is_inside(v, block) for v in read - inside):
                return 1
            moved = _terms(op)[0].get(block.args[0], 0)
            advance = abs(moved * step) * size_bytes(_element(_view(op)))
            share = min(share, LINE_BYTES // advance if advance else 1)
    return share


def _walk_lines(loop: scf.ForOp, fetches: Sequence[Fetch], share: int) -> scf.ForOp:
    """A loop of ``share`` iterations inside one over lines, which fetches before each of them."""
    hoist_invariants(loop)
    block = loop.body.block

    def write(
        emitter: IndexEmitter, variables: list[SSAValue], carried: list[SSAValue]
    ) -> Sequence[SSAValue]:
        first = variables[0]
        for fetch in fetches:
            later = emitter.add(first, emitter.constant(fetch.wanted.ahead))
            done: set[object] = set()
            for op, place in fetch.accesses:
                _fetch(fetch, op, place, emitter, {block.args[0]: later}, done)
        end = at_iteration(loop, emitter, share, first)
        body = Block(arg_types=[INDEX, *(value.type for value in carried)])
        for old, new in zip(block.args, body.args, strict=True):
            new.name_hint = old.name_hint
        values: Values = dict(zip(block.args, body.args, strict=True))
        end_turn(body, copy_body(block, Builder(InsertPoint.at_end(body)), values), loop)
        inner = scf.ForOp(first, end, loop.step, carried, Region(body))
        inner.location, inner.attributes = loop.location, dict(loop.attributes)
        return list(emitter.builder.insert(inner).results)

    turns, ends, rest = write_turns(loop, share, list(loop.iter_args), write)
    if rest is None:
        replace_loop(loop, ends)
    else:
        rest.operands = [*rest.operands[:3], *ends]
    return turns if turns is not None else loop


def _argument(loop: scf.ForOp, number: int) -> SSAValue:
    function = loop.parent_op()
    while function is not None and not isinstance(function, func.FuncOp):
        function = function.parent_op()
    assert function is not None
    return function.body.blocks[0].args[number]


def _accesses(op: Operation, array: SSAValue) -> bool:
    """Whether an op loads from or stores to an array, or a view of it."""
    if not isinstance(op, (*LOADS, *STORES)):
        return False
    return memory_of(_view(op)) is array


def _view(op: Operation) -> SSAValue:
    """What an access names as its array."""
    found = array_of(op)
    assert found is not None
    return found


def _indices(op: Operation) -> tuple[SSAValue, ...]:
    """The index operands of an access: those that follow its array, one for each axis."""
    array = _view(op)
    place = list(op.operands).index(array) + 1
    rank = len(cast("MemRefType[Attribute]", array.type).get_shape())
    return tuple(op.operands[place : place + rank])


def _slice(indices: tuple[SSAValue, ...], variable: SSAValue) -> list[Operation] | None:
    """The ops, in order, that compute indices from a variable; ``None`` where none depends on it,
    or where one is read from memory.
    """
    block = cast("Block", variable.owner)
    found: dict[Operation, None] = {}
    depends = False

    def visit(value: SSAValue) -> bool:
        """Whether a value depends on the variable; ops that do are noted, operands first."""
        nonlocal depends
        if value is variable:
            depends = True
            return True
        op = value.owner
        if not isinstance(op, Operation) or not _is_within(op, block):
            return False
        reached = [visit(each) for each in op.operands]
        if not any(reached):
            return False
        found.setdefault(op)
        return True

    for index in indices:
        visit(index)
    if not depends or not all(is_pure(op) for op in found):
        return None
    return list(found)


def _is_within(op: Operation, block: Block) -> bool:
    each: Block | None = op.parent
    while each is not None and each is not block:
        parent = each.parent_op()
        each = parent.parent if parent is not None else None
    return each is block


def _lines(op: Operation) -> list[tuple[object, object, object, int]]:
    """The cache lines that an access touches: its block, its view, what its place varies with, and
    a number, which counts lines from there. Places that differ by a constant share the rest.
    """
    array = _view(op)
    terms, start = _terms(op)
    first = start * size_bytes(_element(array))
    match op:
        case vector.MaskedStoreOp():
            value = op.value_to_store
        case memref.StoreOp() | vector.StoreOp():
            value = op.operands[0]
        case _:
            value = op.results[0]
    last = first + size_bytes(value.type) - 1
    key = frozenset(terms.items())
    return [(op.parent, array, key, n) for n in range(first // LINE_BYTES, last // LINE_BYTES + 1)]


def _terms(op: Operation) -> tuple[dict[SSAValue, int], int]:
    """The element that an access begins at, as multiples of values and a constant."""
    terms: dict[SSAValue, int] = {}
    strides = strides_of(cast("MemRefType[Attribute]", _view(op).type))
    pairs = zip(_indices(op), strides, strict=True)
    start = sum(_add_terms(index, stride, terms) for index, stride in pairs)
    return terms, start


def _add_terms(value: SSAValue, factor: int, terms: dict[SSAValue, int]) -> int:
    """Add ``factor`` times an index to ``terms``; gives the constant part."""
    known = constant_of(value)
    if known is not None:
        return known * factor
    match value.owner:
        case arith.AddiOp() as op:
            return _add_terms(op.lhs, factor, terms) + _add_terms(op.rhs, factor, terms)
        case arith.SubiOp() as op:
            return _add_terms(op.lhs, factor, terms) + _add_terms(op.rhs, -factor, terms)
        case arith.MuliOp() as op if (number := constant_of(op.rhs)) is not None:
            return _add_terms(op.lhs, factor * number, terms)
        case _:
            terms[value] = terms.get(value, 0) + factor
            return 0


def _element(array: SSAValue) -> Attribute:
    return cast("MemRefType[Attribute]", array.type).element_type
