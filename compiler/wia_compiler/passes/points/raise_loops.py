"""Loops over elements as structured leaves: what schedules and targets understand.

::

    tile.for %i … { tile.for %j … {                    tile.for %i0 … { tile.for %j0 … {
      %s = scf.for %k … iter_args(%sum = %0) {           %acc = memref.alloc
        %a = load %A[%i, %k]   %b = load %B[%k, %j]  →   map acc[i, j] = 0
        %sum + %a * %b }                                 contract [k = 64 reduce] acc += A * B
      store %s, %C[%i, %j] } }                           map C[%i0 + i, %j0 + j] = acc[i, j] } }

A nest is raised as a whole or stays as it is. Raised are loops whose bounds and indices are sums
over the variables of loops, without checks and ``while``; a branch must be a choice between values
(``if_conversion.py``), and a loop that carries a number must fold it (``+``, ``*``, ``min``,
``max``). A fold of floats by ``+`` or ``*`` is ``wia.ordered``: it rounds as the text does.

Loops over tiles that the text has (``for ii in 0..M step 8 { … for i in ii..min(ii + 8, M)``) are
loops ``i.0`` over tiles, the inner ones axes of leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from wia_compiler.dialects import tile
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.loops.forms import Atom
from wia_compiler.passes.points.accumulators import fold_of, memory_folds, sink_accumulators
from wia_compiler.passes.points.forms import Loop, PointForms
from wia_compiler.passes.points.if_conversion import convert_branches
from wia_compiler.passes.points.leaf_body import Buffer, Fold, LeafMaker
from wia_compiler.passes.points.loop_axes import (
    Axis,
    LoopAxes,
    NotRaised,
    Places,
    axis_name,
    carried_of,
    chain_of,
    is_independent,
    is_lazy,
    is_straight,
)
from wia_compiler.passes.points.segments import Segment, check_reads, crossing
from wia_compiler.passes.tile_rewrites import axis_of, leaves_of


def raise_nest(nest: func.FuncOp, names: Mapping[str, str], facts: TargetFacts) -> func.FuncOp:
    """The nest with leaves in the place of its loops; ``NotRaised`` says what has no such form.

    ``names`` are the names of axes in the text, where those of the nest differ.
    """
    copy = nest.clone()
    for op, old in zip(copy.walk(), nest.walk(), strict=True):
        op.location = old.location
    convert_branches(copy)
    sink_accumulators(copy)
    made = _Raiser(copy, dict(names), facts).function()
    if not facts.keeps_order and any(leaf.is_ordered for leaf in leaves_of(made)):
        raise NotRaised(f"{facts.name} adds in an order of its own")
    return made


@dataclass
class _Scope:
    """A block of the new nest: its loops over tiles, its axes, and whether others stand beside.

    ``alone``: all loops around hold nothing but the next, so that a loop may become a loop.
    """

    block: Block
    axes: tuple[Axis, ...] = ()
    loops: tuple[tile.ForOp, ...] = ()
    tiles: tuple[Atom, ...] = ()
    alone: bool = True
    first: Operation | None = field(default=None)


class _Raiser:
    def __init__(self, nest: func.FuncOp, names: dict[str, str], facts: TargetFacts):
        self.nest = nest
        self.facts = facts
        self.forms = PointForms(nest)
        self.axes = LoopAxes(self.forms, names)
        self.written = {op.memref for op in nest.walk() if isinstance(op, memref.StoreOp)}
        self.memory: dict[SSAValue, SSAValue] = {}
        self.prefixes: dict[SSAValue, tuple[Axis, ...]] = {}
        self.buffers: dict[SSAValue, Buffer] = {}
        self.positions: dict[int, SSAValue] = {}
        self.symbols: dict[Atom, tile.ForOp] = {}

    def function(self) -> func.FuncOp:
        """The raised function."""
        old = self.nest.body.block
        block = Block(arg_types=old.arg_types)
        for before, after in zip(old.args, block.args, strict=True):
            after.name_hint = before.name_hint
            self.memory[before] = after
        self._block(old, _Scope(block))
        made = func.FuncOp(self.nest.sym_name.data, self.nest.function_type, Region(block))
        made.attributes = dict(self.nest.attributes)
        made.location = self.nest.location
        first = block.first_op
        for size in sorted(self.positions):
            op = cast(Operation, self.positions[size].owner)
            op.location = self.nest.location
            if first is not None:
                block.insert_op_before(op, first)
        end = func.ReturnOp()
        end.location = self.nest.location
        block.add_op(end)
        return made

    def _block(self, old: Block, scope: _Scope) -> None:
        """Leaves and loops for the ops of a block, in order."""
        segment = Segment()
        loops = [op for op in old.ops if isinstance(op, tile.ForOp | scf.ForOp)]
        stores = [op for op in old.ops if isinstance(op, memref.StoreOp)]
        scope.alone = scope.alone and len(loops) == 1 and not stores and self._is_pure(old)
        for op in old.ops:
            if isinstance(op, tile.ForOp | scf.ForOp):
                starts = self._flush(segment, scope, op)
                segment = Segment()
                self._loop(op, scope, starts)
            elif isinstance(op, memref.LoadOp | memref.StoreOp):
                segment.add(op, self.forms)
            elif isinstance(op, memref.AllocaOp):
                self._local(op, scope)
            elif isinstance(op, scf.YieldOp | func.ReturnOp) or is_lazy(op):
                segment.ops.append(op)
            else:
                raise NotRaised(f"it holds a {_SPOKEN.get(op.name, op.name)}")
        self._flush(segment, scope, None)

    def _is_pure(self, block: Block) -> bool:
        """Whether a block reads nothing but what never changes, beside its loops."""
        return all(
            isinstance(op, tile.ForOp | scf.ForOp | scf.YieldOp | func.ReturnOp)
            or is_lazy(op)
            or (isinstance(op, memref.LoadOp) and op.memref not in self.written)
            for op in block.ops
        )

    def _flush(self, segment: Segment, scope: _Scope, loop: Loop | None) -> dict[SSAValue, Buffer]:
        """A leaf for what stands between two loops; the sums of the next loop that it starts."""
        starts: dict[SSAValue, Buffer] = {}
        kept = crossing(segment, loop, self.written, self.forms)
        if not segment.stores and not kept:
            return starts
        maker = self._maker(scope, scope.axes, segment.known)
        for store in segment.kept_stores(self.forms):
            maker.write(self.memory[store.memref], maker.place(store), store.value)
        for value, is_start in kept.items():
            buffer = self._allocate(scope, value)
            maker.write(buffer.memref, maker.buffer_place(buffer), value)
            if is_start:
                starts[value] = buffer
            else:
                self.buffers[value] = buffer
        self._add(scope, maker.finish())
        return starts

    def _maker(
        self, scope: _Scope, axes: Sequence[Axis], known: dict[SSAValue, SSAValue] | None = None
    ) -> LeafMaker:
        for atom in scope.tiles:
            if not any(axis.lower.factor(atom) for axis in axes):
                axes = (self._once(atom, axes), *axes)
        symbols = {
            atom: scope.loops.index(loop)
            for atom, loop in self.symbols.items()
            if loop in scope.loops
        }
        return LeafMaker(
            axes,
            [loop.induction_variable for loop in scope.loops],
            Places(axes, symbols),
            self.forms,
            self.memory,
            self.buffers,
            self.prefixes,
            self.positions,
            dict(known or {}),
        )

    def _once(self, tiles: Atom, axes: Sequence[Axis]) -> Axis:
        """An axis of one point, for a statement that runs once for each tile of a loop."""
        name = axis_of(self.symbols[tiles])
        if any(axis.name == name for axis in axes):
            raise NotRaised(f"a statement stands in loop {tiles.name}, outside its points")
        return Axis(name, 1, self.forms.once)

    def _add(self, scope: _Scope, op: Operation) -> None:
        scope.block.add_op(op)
        scope.first = scope.first or op

    def _allocate(self, scope: _Scope, like: SSAValue) -> Buffer:
        """Registers for a value at each point of the axes around."""
        shape = [axis.size if axis.loop is None else 1 for axis in scope.axes]
        made = _register(like.type, shape, like.name_hint)
        self._insert(scope, made, like)
        return Buffer(made.memref, scope.axes)

    def _insert(self, scope: _Scope, made: memref.AllocOp, like: SSAValue) -> None:
        owner = like.owner
        made.location = owner.location if isinstance(owner, Operation) else self.nest.location
        if scope.first is None:
            scope.block.add_op(made)
        else:
            scope.block.insert_op_before(made, scope.first)

    def _local(self, op: memref.AllocaOp, scope: _Scope) -> None:
        """A local array: one for each point of the axes around."""
        shape = [axis.size if axis.loop is None else 1 for axis in scope.axes]
        type_ = op.memref.type
        made = _register(type_.element_type, [*shape, *type_.get_shape()], op.memref.name_hint)
        self._insert(scope, made, op.memref)
        self.memory[op.memref] = made.memref
        self.prefixes[op.memref] = scope.axes

    def _loop(self, op: Loop, scope: _Scope, starts: Mapping[SSAValue, Buffer]) -> None:
        chain = chain_of(op, self.written)
        if is_straight(chain[-1].body.block):
            self._leaf_of(chain, scope, starts)
        elif not is_independent(op) or carried_of(op):
            raise NotRaised(f"loop {axis_name(op)} runs in order, and not as one fold")
        elif self.axes.is_tile(op):
            self._block(op.body.block, self._tiles(op, scope, folded=False))
        else:
            self._block(op.body.block, self._walk(op, scope))

    def _tiles(self, op: Loop, scope: _Scope, *, folded: bool) -> _Scope:
        """A loop over tiles, whose points are an axis of each leaf inside."""
        inner = self.axes.points_of(op)
        assert inner is not None
        if not self.facts.keeps_tiles:
            raise NotRaised(f"loop {axis_name(op)} walks tiles that {self.facts.name} deals out")
        if any(axis.loop is None for axis in scope.axes):
            raise NotRaised(f"loop {axis_name(op)} over tiles stands inside one over points")
        axis = self.axes.axis(op)
        name = self.axes.axis(inner, folded=folded).name
        if axis.lower.number is None:
            raise NotRaised(f"loop {axis_name(op)} over tiles starts at no fixed number")
        if axis.lower.number:
            raise NotRaised(f"loop {axis_name(op)} over tiles does not start at 0")
        return self._enter(op, scope, name, self._extent(op), axis.step, None)

    def _extent(self, op: Loop) -> int:
        if isinstance(op, tile.ForOp):
            return op.extent.value.data
        end = self.forms.constant(op.ub)
        if end is None:
            raise NotRaised(f"loop {axis_name(op)} over tiles ends at no fixed number")
        return end

    def _walk(self, op: Loop, scope: _Scope) -> _Scope:
        """An independent loop around several leaves: a loop, or an axis of them all."""
        axis = self.axes.axis(op)
        own = any(each.loop is None for each in scope.axes)
        if not own and axis.lower.number is not None and not axis.limits:
            if scope.alone or self.facts.keeps_tiles:
                return self._enter(op, scope, axis.name, axis.size, 1, axis)
            raise NotRaised(f"loop {axis.name} stands beside others and holds several")
        return _Scope(
            scope.block, (*scope.axes, axis), scope.loops, scope.tiles, False, scope.first
        )

    def _enter(
        self, op: Loop, scope: _Scope, name: str, extent: int, step: int, axis: Axis | None
    ) -> _Scope:
        """The scope inside a new loop over tiles (``axis`` is ``None``) or points of an axis."""
        loop = tile.ForOp(f"{name}.0", extent, step)
        loop.location = op.location
        self._add(scope, loop)
        atom = self.axes.variable(op)
        self.symbols[atom] = loop
        axes, tiles = scope.axes, scope.tiles
        if axis is None:
            tiles = (*tiles, atom)
        else:
            made = Axis(axis.name, axis.size, atom, axis.step, axis.lower, (), False, loop)
            axes = (*axes, made)
        return _Scope(loop.body.block, axes, (*scope.loops, loop), tiles, scope.alone)

    def _leaf_of(
        self, chain: Sequence[Loop], scope: _Scope, starts: Mapping[SSAValue, Buffer]
    ) -> None:
        """One leaf for a chain of loops around straight code."""
        body = chain[-1].body.block
        segment = Segment()
        for op in body.ops:
            if isinstance(op, memref.LoadOp | memref.StoreOp):
                segment.add(op, self.forms)
        folded = {loop for loop in chain if carried_of(loop) or not is_independent(loop)}
        held = carried_of(chain[-1])
        outer = next((loop for loop in chain if carried_of(loop)), None)
        if outer is not None:
            assert isinstance(outer, scf.ForOp)
            for start, result in zip(outer.iter_args, outer.results, strict=True):
                self.buffers[result] = starts.get(start) or self._start(scope, start, result)
        inside = self._enter_chain(chain, scope, folded)
        maker = self._maker(inside, inside.axes, segment.known)
        reduced = {axis.atom for axis in inside.axes if axis.folded}
        folds: Mapping[memref.StoreOp, Fold] = {}
        if folded and outer is None:
            folds = memory_folds(segment, reduced, self.forms)
        check_reads(segment, folds, bool(folded), self.forms)
        if folded and not folds and outer is None:
            raise NotRaised(f"loop {axis_name(chain[0])} runs in order, and folds nothing")
        last = body.last_op
        if outer is not None:
            assert isinstance(last, scf.YieldOp)
            for number, argument in enumerate(held):
                op = fold_of(last.operands[number], argument, body)
                buffer = self.buffers[outer.results[number]]
                maker.fold(buffer.memref, maker.buffer_place(buffer), Fold(op, argument))
        ends: list[tuple[memref.StoreOp, Buffer]] = []
        for store, fold in folds.items():
            kept = replace(inside, axes=tuple(a for a in inside.axes if not a.folded))
            buffer = self._start(kept, fold.held, fold.held)
            maker.fold(buffer.memref, maker.buffer_place(buffer), fold)
            ends.append((store, buffer))
        for store in segment.kept_stores(self.forms):
            if store not in folds:
                self._check_apart(store, reduced)
                maker.write(self.memory[store.memref], maker.place(store), store.value)
        self._add(inside, maker.finish())
        for store, buffer in ends:
            kept = replace(inside, axes=buffer.axes)
            self.buffers[store.value] = buffer
            writer = self._maker(kept, kept.axes)
            writer.write(self.memory[store.memref], writer.place(store), store.value)
            leaf = writer.finish()
            leaf.location = store.location
            self._add(kept, leaf)

    def _start(self, scope: _Scope, start: SSAValue, result: SSAValue) -> Buffer:
        """Registers for a sum, filled with what it starts from."""
        maker = self._maker(scope, scope.axes)
        shape = [axis.size if axis.loop is None else 1 for axis in scope.axes]
        made = _register(start.type, shape, result.name_hint)
        self._insert(scope, made, result)
        buffer = Buffer(made.memref, scope.axes)
        maker.write(buffer.memref, maker.buffer_place(buffer), start)
        leaf = maker.finish()
        leaf.location = made.location
        self._add(scope, leaf)
        return buffer

    def _enter_chain(self, chain: Sequence[Loop], scope: _Scope, folded: set[Loop]) -> _Scope:
        """The scope of a leaf: loops for what is walked from outside, axes for the rest."""
        loops = list(chain)
        seen_fold = False
        while loops:
            op, is_folded = loops[0], loops[0] in folded
            both = folded.issuperset(loops[:2]) or not folded.intersection(loops[:2])
            joined = self.axes.joined(op, loops[1], folded=is_folded) if len(loops) > 1 else None
            if joined is not None and both:
                scope = self._point_axis(loops[1], joined, scope)
                seen_fold = seen_fold or is_folded
                loops = loops[2:]
                continue
            if self.axes.is_tile(op):
                if is_folded and seen_fold:
                    raise NotRaised(f"loop {axis_name(op)} over tiles stands in another fold")
                scope = self._tiles(op, scope, folded=is_folded)
            else:
                seen_fold = seen_fold or is_folded
                scope = self._point_axis(op, self.axes.axis(op, folded=is_folded), scope)
            loops = loops[1:]
        return scope

    def _point_axis(self, op: Loop, axis: Axis, scope: _Scope) -> _Scope:
        """A loop of a chain: a loop of its own where nothing stands beside it, else an axis."""
        own = any(each.loop is None and not each.folded for each in scope.axes)
        fixed = axis.lower.number is not None and not axis.limits
        if scope.alone and not axis.folded and not own and fixed:
            return self._outside_folds(op, axis, scope)
        return _Scope(
            scope.block, (*scope.axes, axis), scope.loops, scope.tiles, scope.alone, scope.first
        )

    def _outside_folds(self, op: Loop, axis: Axis, scope: _Scope) -> _Scope:
        entered = self._enter(op, scope, axis.name, axis.size, 1, axis)
        kept = tuple(each for each in entered.axes if not each.folded)
        folds = tuple(each for each in entered.axes if each.folded)
        entered.axes = (*kept, *folds)
        return entered

    def _check_apart(self, store: memref.StoreOp, folded: set[Atom]) -> None:
        """A store in a fold must reach another element at each point of the folded axes."""
        forms = self.forms.accesses[store]
        for atom in folded:
            if not any(len(form.terms) == 1 and form.factor(atom) for form in forms):
                name = store.memref.name_hint or "an array"
                raise NotRaised(f"{name} is written in loop {atom.name}, and does not fold")


def _register(element: Attribute, shape: Sequence[int], hint: str | None) -> memref.AllocOp:
    type_ = MemRefType(element, list(shape), memory_space=StringAttr("register"))
    made = memref.AllocOp([], [], type_)
    made.memref.name_hint = hint
    return made


_SPOKEN = {
    "scf.if": "branch or a check",
    "scf.while": "while loop",
    "tile.check": "check",
}
"""What ops are in the words of the text."""
