"""Prefetching: cache lines of later iterations are asked for before they are read."""

from __future__ import annotations

from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from wia_compiler.dialects.loop_hints import Prefetch
from wia_compiler.dialects.memref_prefetch import PrefetchOp
from wia_compiler.passes.emit_index import IndexEmitter, constant_of
from wia_compiler.passes.llvm.types import size_bytes, strides_of
from wia_compiler.passes.scf_rewrites.loops import (
    LOADS,
    STORES,
    CannotExpand,
    Values,
    array_of,
    is_pure,
    memory_of,
)

LINE_BYTES = 64
"""A cache line of the CPUs that this code is made for."""


def insert_prefetches(loop: scf.ForOp, wanted: Prefetch) -> int:
    """Fetch an array ahead in each iteration of a loop; gives how many prefetches stand there.

    ::

        scf.for %i = 0 to 1000 step 1 { %x = data[%i] … }     (ahead 32)
          →  scf.for %i = 0 to 1000 step 1 { prefetch data[%i + 32]   %x = data[%i] … }

    One for each access of the array whose place depends on the loop, in front of it; accesses of
    one cache line share theirs, and one of several lines has as many. An array that the loop only
    stores to is fetched to be written. The place may lie behind the array's end: nothing is read.
    """
    array = _argument(loop, wanted.argument)
    accesses = [op for op in loop.body.walk() if _accesses(op, array)]
    if not accesses:
        raise CannotExpand(f"it does not access {wanted.array}")
    variable = loop.body.block.args[0]
    slices = {op: _slice(_indices(op), variable) for op in accesses}
    moving = [op for op, ops in slices.items() if ops is not None]
    if not moving:
        raise CannotExpand(f"the place in {wanted.array} does not depend on it, or on data too")
    writes = all(isinstance(op, STORES) for op in accesses)
    first = loop.body.block.first_op
    assert first is not None
    top = IndexEmitter(Builder(InsertPoint.before(first)), loop.location)
    later = top.add(variable, top.constant(wanted.ahead))
    made = 0
    fetched: set[object] = set()
    for op in moving:
        emitter = IndexEmitter(Builder(InsertPoint.before(op)), op.location)
        values: Values = {variable: later}
        lines = [line for line in _lines(op) if line not in fetched]
        if not lines:
            continue
        for each in slices[op] or ():
            emitter.builder.insert(each.clone(values))
        indices = [values.get(index, index) for index in _indices(op)]
        start = min(each[3] for each in _lines(op))
        for line in lines:
            fetched.add(line)
            distance = (line[3] - start) * LINE_BYTES // size_bytes(_element(array))
            place = [*indices[:-1], emitter.add(indices[-1], emitter.constant(distance))]
            fetch = PrefetchOp(_view(op), place, write=writes, locality=4 - wanted.level)
            fetch.location = op.location
            emitter.builder.insert(fetch)
            made += 1
    return made


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
    terms: dict[SSAValue, int] = {}
    start = 0
    strides = strides_of(cast("MemRefType[Attribute]", array.type))
    for index, stride in zip(_indices(op), strides, strict=True):
        start += _add_terms(index, stride, terms)
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
