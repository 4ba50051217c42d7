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
from dataclasses import replace
from typing import cast

from xdsl.dialects import func, memref, scf
from xdsl.ir import Block, Operation, Region, SSAValue

from wia_compiler.dialects import tile
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.loops.forms import Atom
from wia_compiler.passes.points.accumulators import fold_of, memory_folds, sink_accumulators
from wia_compiler.passes.points.forms import Loop
from wia_compiler.passes.points.if_conversion import convert_branches
from wia_compiler.passes.points.leaf_body import Buffer, Fold
from wia_compiler.passes.points.loop_axes import (
    NotRaised,
    axis_name,
    carried_of,
    chain_of,
    is_independent,
    is_lazy,
    is_straight,
)
from wia_compiler.passes.points.raise_scopes import Scope, Scopes
from wia_compiler.passes.points.segments import Segment, check_reads, crossing
from wia_compiler.passes.tile_rewrites import leaves_of


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


class _Raiser(Scopes):
    """Writes a nest anew, block by block."""

    def function(self) -> func.FuncOp:
        """The raised function."""
        old = self.nest.body.block
        block = Block(arg_types=old.arg_types)
        for before, after in zip(old.args, block.args, strict=True):
            after.name_hint = before.name_hint
            self.memory[before] = after
        self._block(old, Scope(block))
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

    def _block(self, old: Block, scope: Scope) -> None:
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

    def _flush(self, segment: Segment, scope: Scope, loop: Loop | None) -> dict[SSAValue, Buffer]:
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

    def _loop(self, op: Loop, scope: Scope, starts: Mapping[SSAValue, Buffer]) -> None:
        chain = chain_of(op, self.written)
        if is_straight(chain[-1].body.block):
            self._leaf_of(chain, scope, starts)
        elif not is_independent(op) or carried_of(op):
            raise NotRaised(f"loop {axis_name(op)} runs in order, and not as one fold")
        elif self.axes.is_tile(op):
            self._block(op.body.block, self._tiles(op, scope, folded=False))
        else:
            self._block(op.body.block, self._walk(op, scope))

    def _leaf_of(
        self, chain: Sequence[Loop], scope: Scope, starts: Mapping[SSAValue, Buffer]
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

    def _check_apart(self, store: memref.StoreOp, folded: set[Atom]) -> None:
        """A store in a fold must reach another element at each point of the folded axes."""
        forms = self.forms.accesses[store]
        for atom in folded:
            if not any(len(form.terms) == 1 and form.factor(atom) for form in forms):
                name = store.memref.name_hint or "an array"
                raise NotRaised(f"{name} is written in loop {atom.name}, and does not fold")


_SPOKEN = {
    "scf.if": "branch or a check",
    "scf.while": "while loop",
    "tile.check": "check",
}
"""What ops are in the words of the text."""
