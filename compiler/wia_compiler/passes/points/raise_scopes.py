"""Where leaves of raised loops stand: the loops around them, their axes, and their registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from wia_compiler.dialects import tile
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.loops.forms import Atom
from wia_compiler.passes.points.forms import Loop, PointForms
from wia_compiler.passes.points.leaf_body import Buffer, LeafMaker
from wia_compiler.passes.points.loop_axes import Axis, LoopAxes, NotRaised, Places, axis_name
from wia_compiler.passes.tile_rewrites import axis_of


@dataclass
class Scope:
    """A block of the new nest: its loops over tiles, its axes, and whether others stand beside.

    ``alone``: all loops around hold nothing but the next, so that a loop may become a loop.
    """

    block: Block
    axes: tuple[Axis, ...] = ()
    loops: tuple[tile.ForOp, ...] = ()
    tiles: tuple[Atom, ...] = ()
    alone: bool = True
    first: Operation | None = field(default=None)


class Scopes:
    """Enters loops of a nest of point code, and makes what stands inside of them."""

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

    def _maker(
        self, scope: Scope, axes: Sequence[Axis], known: dict[SSAValue, SSAValue] | None = None
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

    def _add(self, scope: Scope, op: Operation) -> None:
        scope.block.add_op(op)
        scope.first = scope.first or op

    def _allocate(self, scope: Scope, like: SSAValue) -> Buffer:
        """Registers for a value at each point of the axes around."""
        shape = [axis.size if axis.loop is None else 1 for axis in scope.axes]
        made = _register(like.type, shape, like.name_hint)
        self._insert(scope, made, like)
        return Buffer(made.memref, scope.axes)

    def _insert(self, scope: Scope, made: memref.AllocOp, like: SSAValue) -> None:
        owner = like.owner
        made.location = owner.location if isinstance(owner, Operation) else self.nest.location
        if scope.first is None:
            scope.block.add_op(made)
        else:
            scope.block.insert_op_before(made, scope.first)

    def _local(self, op: memref.AllocaOp, scope: Scope) -> None:
        """A local array: one for each point of the axes around."""
        shape = [axis.size if axis.loop is None else 1 for axis in scope.axes]
        type_ = op.memref.type
        made = _register(type_.element_type, [*shape, *type_.get_shape()], op.memref.name_hint)
        self._insert(scope, made, op.memref)
        self.memory[op.memref] = made.memref
        self.prefixes[op.memref] = scope.axes

    def _start(self, scope: Scope, start: SSAValue, result: SSAValue) -> Buffer:
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

    def _tiles(self, op: Loop, scope: Scope, *, folded: bool) -> Scope:
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

    def _walk(self, op: Loop, scope: Scope) -> Scope:
        """An independent loop around several leaves: a loop, or an axis of them all."""
        axis = self.axes.axis(op)
        own = any(each.loop is None for each in scope.axes)
        if not own and axis.lower.number is not None and not axis.limits:
            if scope.alone or self.facts.keeps_tiles:
                return self._enter(op, scope, axis.name, axis.size, 1, axis)
            raise NotRaised(f"loop {axis.name} stands beside others and holds several")
        return Scope(scope.block, (*scope.axes, axis), scope.loops, scope.tiles, False, scope.first)

    def _enter(
        self, op: Loop, scope: Scope, name: str, extent: int, step: int, axis: Axis | None
    ) -> Scope:
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
        return Scope(loop.body.block, axes, (*scope.loops, loop), tiles, scope.alone)

    def _enter_chain(self, chain: Sequence[Loop], scope: Scope, folded: set[Loop]) -> Scope:
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

    def _point_axis(self, op: Loop, axis: Axis, scope: Scope) -> Scope:
        """A loop of a chain: a loop of its own where nothing stands beside it, else an axis."""
        own = any(each.loop is None and not each.folded for each in scope.axes)
        fixed = axis.lower.number is not None and not axis.limits
        if scope.alone and not axis.folded and not own and fixed:
            return self._outside_folds(op, axis, scope)
        return Scope(
            scope.block, (*scope.axes, axis), scope.loops, scope.tiles, scope.alone, scope.first
        )

    def _outside_folds(self, op: Loop, axis: Axis, scope: Scope) -> Scope:
        entered = self._enter(op, scope, axis.name, axis.size, 1, axis)
        kept = tuple(each for each in entered.axes if not each.folded)
        folds = tuple(each for each in entered.axes if each.folded)
        entered.axes = (*kept, *folds)
        return entered


def _register(element: Attribute, shape: Sequence[int], hint: str | None) -> memref.AllocOp:
    type_ = MemRefType(element, list(shape), memory_space=StringAttr("register"))
    made = memref.AllocOp([], [], type_)
    made.memref.name_hint = hint
    return made
