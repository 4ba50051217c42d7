"""``prefetch``: cache lines are asked for before they are read."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineSymExpr

from wia_compiler.base.schedule import Directive, Entry
from wia_compiler.dialects.loop_hints import Prefetch
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.emit_index import constant_of
from wia_compiler.passes.llvm.types import num_elements
from wia_compiler.passes.scheduling.hints import (
    SHORTEST_FOLD,
    Place,
    all_loops,
    is_walked,
    loop_name,
    places_of,
)
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import IllegalRewrite, axis_of, loops_around

SYNTAX = "prefetch ARRAY ITERATIONS [at LOOP], … [, L1 | L2 | L3]"
_LEVELS = {"L1": 1, "L2": 2, "L3": 3}


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Fetch what a loop will read of an array so many iterations later.

    ``prefetch A 32``::

        for %i = 0 to 1000 step 1         for %i = 0 to 1000 step 1
          … A[%i] …                  →      prefetch A[%i + 32]   … A[%i] …

    The loop is the innermost one along which the array is walked, or the one named: ``prefetch A 1
    at i.0`` fetches the next row while one is worked on. The last entry may name the cache that
    lines are brought to, L1 if none does. An array that is only written is fetched to be written.
    A prefetch changes no value: it is legal everywhere.
    """
    level = 1
    entries = list(directive.entries)
    if entries and entries[-1].name in _LEVELS and entries[-1].number is None:
        level = _LEVELS[entries.pop().name or ""]
    if not entries:
        raise IllegalRewrite("no array is named", hint=SYNTAX)
    for entry in entries:
        ahead = number_of(directive, entry, "number of iterations")
        array = nest.array(entry)
        assert isinstance(array, BlockArgument)
        places = _places(nest, entry, array)
        for place in places:
            points = ahead * _step(place)
            made = Prefetch(entry.name or "", array.index, points, level)
            place.note(prefetch=(*place.hints.prefetch, made))


def _places(nest: ScheduledNest, entry: Entry, array: SSAValue) -> list[Place]:
    """The innermost loops along which an array is walked, or those that the entry names."""
    if entry.at is not None:
        return places_of(nest, Entry(entry.at, None, entry.span))
    found: dict[Place, None] = {}
    for leaf in nest.leaves():
        if array in (*leaf.inputs, *leaf.outputs) and (place := _along_leaf(leaf, array)):
            found.setdefault(place)
    for loop in all_loops(nest):
        loads = [
            op
            for op in loop.body.block.ops
            if isinstance(op, memref.LoadOp | memref.StoreOp) and op.memref is array
        ]
        if loads and (around := _walking(loads[0])) is not None:
            found.setdefault(Place(loop_name(around), loop=around))
    if not found and num_elements(cast("MemRefType[Attribute]", array.type)) > 1:
        raise IllegalRewrite(
            f"no loop walks {entry.name}",
            hint="name the loop: prefetch ARRAY 1 at LOOP",
            span=entry.span,
        )
    return list(found)


def _along_leaf(leaf: ComputeOp, array: SSAValue) -> Place | None:
    """The last axis of a leaf along which it walks an array, else the innermost such loop.

    Axes of few points (a window) are written out: they are meant where nothing else moves.
    """
    operands = [*leaf.inputs, *leaf.outputs]
    each = leaf.maps.data[operands.index(array)].data
    read = {atom for result in each.results for atom in atoms(result)}
    order = [n for n, fold in enumerate(leaf.reductions) if not fold]
    order += [n for n, fold in enumerate(leaf.reductions) if fold]
    around = loops_around(leaf)
    walked: list[Place] = []
    for number in reversed(order):
        axis = leaf.axis_names[number]
        own = [loop for loop in around if axis_of(loop) == axis]
        if AffineDimExpr(number) in read and is_walked(leaf, axis, own):
            walked.append(Place(axis, leaf=leaf))
    moving = {leaf.ivs[atom.position] for atom in read if isinstance(atom, AffineSymExpr)}
    loops = [loop for loop in reversed(around) if loop.induction_variable in moving]
    long = [place for place in walked if (place.trips or 0) >= SHORTEST_FOLD]
    return next(iter([*long, *(Place(each.axis.data, loop=each) for each in loops), *walked]), None)


def _walking(op: Operation) -> ForOp | scf.ForOp | None:
    """The innermost loop around an access whose variable its indices are computed from."""
    assert isinstance(op, memref.LoadOp | memref.StoreOp)
    pending, read = list[SSAValue](op.indices), set[SSAValue]()
    while pending:
        value = pending.pop()
        if value not in read:
            read.add(value)
            pending += value.owner.operands if isinstance(value.owner, Operation) else ()
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, ForOp | scf.ForOp) and parent.body.block.args[0] in read:
            return parent
        parent = parent.parent_op()
    return None


def _step(place: Place) -> int:
    """Points of an axis that one iteration takes."""
    if isinstance(place.loop, ForOp):
        return place.loop.step.value.data
    return (constant_of(place.loop.step) or 1) if place.loop is not None else 1
