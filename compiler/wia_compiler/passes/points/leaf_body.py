"""One leaf from scalar ops of point code: its inputs, its body, its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, MemRefType, UnitAttr, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.tile import ORDERED, ComputeOp, LeafKind, YieldOp
from wia_compiler.dialects.tile_places import PositionsOp
from wia_compiler.passes.affine import atoms, simplify
from wia_compiler.passes.loops.forms import Form
from wia_compiler.passes.points.forms import PointForms
from wia_compiler.passes.points.loop_axes import Axis, NotRaised, Places, is_lazy

Place = tuple[AffineExpr, ...]
_SUMS = (arith.AddfOp, arith.MulfOp)
"""Folds whose result depends on their order."""


@dataclass(frozen=True)
class Buffer:
    """Registers that hold a value at each point of ``axes``."""

    memref: SSAValue
    axes: tuple[Axis, ...]


@dataclass
class Fold:
    """An output that a leaf folds: ``op`` combines ``held`` with an element.

    ``held`` is a loop's argument or the load of the element in memory.
    """

    op: Operation
    held: SSAValue


@dataclass
class LeafMaker:
    """Collects one leaf. ``memory`` has the new memref of each old one, ``buffers`` what outer
    code has computed, ``known`` values that stand for others (what was just stored).
    """

    axes: Sequence[Axis]
    ivs: Sequence[SSAValue]
    places: Places
    forms: PointForms
    memory: Mapping[SSAValue, SSAValue]
    buffers: Mapping[SSAValue, Buffer]
    prefixes: Mapping[SSAValue, tuple[Axis, ...]]
    positions: dict[int, SSAValue]
    known: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    ops: dict[Operation, None] = field(default_factory=dict[Operation, None])

    def __post_init__(self) -> None:
        self.body = Block()
        self.inputs: dict[tuple[SSAValue, Place], BlockArgument] = {}
        self.outputs: list[tuple[SSAValue, Place, SSAValue]] = []
        self.folds: list[tuple[SSAValue, Place, Fold]] = []
        self._made: dict[SSAValue, SSAValue] = {}

    def place(self, access: Operation) -> Place:
        """Where a load or store lies, as expressions over the leaf's points."""
        array = cast("memref.LoadOp | memref.StoreOp", access).memref
        own = tuple(simplify(self.places.expression(e)) for e in self.forms.accesses[access])
        return (*self._dims(self.prefixes.get(array, ())), *own)

    def _dims(self, axes: Iterable[Axis]) -> Place:
        return tuple(AffineExpr.dimension(self._position(axis)) for axis in axes)

    def _position(self, axis: Axis) -> int:
        return next(n for n, each in enumerate(self.axes) if each is axis)

    def buffer_place(self, buffer: Buffer) -> Place:
        """The element of a buffer at a point."""
        return self._dims(buffer.axes)

    def value(self, value: SSAValue) -> SSAValue:
        """A scalar of the old code in the leaf's body, computed from inputs."""
        while value in self.known:
            value = self.known[value]
        if value not in self._made:
            made = self._emit(value)
            if made.name_hint is None:
                made.name_hint = value.name_hint
            self._made[value] = made
        return self._made[value]

    def _emit(self, value: SSAValue) -> SSAValue:
        if value in self.buffers:
            buffer = self.buffers[value]
            return self._input(buffer.memref, self.buffer_place(buffer), value)
        op = value.owner
        if isinstance(op, memref.LoadOp):
            self.ops[op] = None
            return self._input(self.memory[op.memref], self.place(op), op.memref)
        if isinstance(value.type, IndexType) or value.type == i64:
            made = self._number(value)
            if made is not None:
                return made
        if not isinstance(op, Operation) or not is_lazy(op):
            raise NotRaised(f"{value.name_hint or 'a value'} is the result of a loop or a branch")
        if any(isinstance(each.type, IndexType) for each in op.operands):
            raise NotRaised(f"{value.name_hint or 'a value'} is computed from an index")
        operands = {operand: self.value(operand) for operand in op.operands}
        copy = op.clone(operands)
        self.ops[op] = None
        self.body.add_op(copy)
        return copy.results[0]

    def _number(self, value: SSAValue) -> SSAValue | None:
        """A sum over loops as data: read from the array of positions."""
        form = self.forms.form(value)
        if not form.terms or not _is_over_loops(form, self.forms):
            return None
        low, high = self.forms.low(form), self.forms.high(form)
        if low < 0:
            return None
        array = self.positions.get(high + 1)
        if array is None:
            array = self.positions[high + 1] = PositionsOp(high + 1).memref
            array.name_hint = value.name_hint
        return self._input(array, (simplify(self.places.expression(form)),), value)

    def _input(self, array: SSAValue, place: Place, like: SSAValue) -> SSAValue:
        if (array, place) not in self.inputs:
            type_ = cast("MemRefType[Attribute]", array.type).element_type
            argument = self.body.insert_arg(type_, len(self.body.args))
            argument.name_hint = like.name_hint
            self.inputs[array, place] = argument
        return self.inputs[array, place]

    def write(self, array: SSAValue, place: Place, value: SSAValue) -> None:
        """Let the leaf write a value at each point."""
        self.outputs.append((array, place, self.value(value)))

    def fold(self, array: SSAValue, place: Place, fold: Fold) -> None:
        """Let the leaf fold elements into an array."""
        self.folds.append((array, place, fold))

    def finish(self) -> ComputeOp:
        """The leaf."""
        folded: list[tuple[SSAValue, Place, Operation]] = []
        for array, place, fold in self.folds:
            (element,) = (each for each in fold.op.operands if each is not fold.held)
            folded.append((array, place, self._combine(fold, self.value(element))))
        arrays = [*(array for array, _, _ in folded), *(array for array, _, _ in self.outputs)]
        if folded:
            helds = [self.body.insert_arg(_element(array), len(self.body.args)) for array in arrays]
            for (array, _, op), held, (_, _, fold) in zip(
                folded, helds[: len(folded)], self.folds, strict=True
            ):
                held.name_hint = fold.held.name_hint or array.name_hint
                op.operands = [held if each is fold.held else each for each in op.operands]
                self.body.add_op(op)
        results = [*(op.results[0] for _, _, op in folded), *(v for _, _, v in self.outputs)]
        last = YieldOp(results)
        self.body.add_op(last)
        places = [*(place for _, place, _ in folded), *(place for _, place, _ in self.outputs)]
        rank = (len(self.axes), len(self.ivs))
        bounds = self._bounds(bool(self.inputs) or any(_is_memory(each) for each in arrays))
        leaf = ComputeOp(
            self._kind(folded),
            axes=[(axis.name, axis.size if axis.loop is None else 1) for axis in self.axes],
            reduce_axes=[axis.name for axis in self.axes if axis.folded],
            ivs=list(self.ivs),
            inputs=[array for array, _ in self.inputs],
            outputs=arrays,
            maps=[AffineMap(*rank, e) for e in (*(e for _, e in self.inputs), *places)],
            bounds=AffineMap(*rank, tuple(each for each, _ in bounds)),
            limits=[limit for _, limit in bounds],
            body=Region(self.body),
        )
        leaf.location = last.location = merge_locations(self.ops)
        if any(isinstance(op, _SUMS) for _, _, op in folded):
            leaf.attributes[ORDERED] = UnitAttr()
        return leaf

    def _combine(self, fold: Fold, element: SSAValue) -> Operation:
        """The op that combines what is held with an element; ``held - x`` adds ``-x``."""
        self.ops[fold.op] = None
        if isinstance(fold.op, arith.SubfOp):
            negative = arith.NegfOp(element)
            negative.location = fold.op.location
            self.body.add_op(negative)
            made: Operation = arith.AddfOp(fold.held, negative.result)
        else:
            made = fold.op.clone({v: element for v in fold.op.operands if v is not fold.held})
        made.location = fold.op.location
        made.results[0].name_hint = fold.op.results[0].name_hint
        return made

    def _bounds(self, needed: bool) -> list[tuple[AffineExpr, int]]:
        if not needed:
            return []
        return [
            (simplify(self.places.expression(Form.of(axis.atom))), limit)
            for axis in self.axes
            for limit in axis.limits
        ]

    def _kind(self, folded: Sequence[tuple[SSAValue, Place, Operation]]) -> LeafKind:
        if not folded:
            return "map"
        if len(folded) > 1 or self.outputs or not self._is_product(folded[0][2]):
            return "reduce"
        slides = any(
            len({e.position for e in atoms(each) if isinstance(e, AffineDimExpr)}) > 1
            for _, place in self.inputs
            for each in place
        )
        return "window" if slides else "contract"

    def _is_product(self, op: Operation) -> bool:
        """Whether a fold adds products of two inputs from memory, over some kept axis."""
        kept = [axis for axis in self.axes if not axis.folded]
        if not isinstance(op, arith.AddfOp | arith.AddiOp) or len(self.inputs) != 2 or not kept:
            return False
        factors = [each.owner for each in op.operands]
        product = next((f for f in factors if isinstance(f, arith.MulfOp | arith.MuliOp)), None)
        if product is None or not all(_is_memory(array) for array, _ in self.inputs):
            return False
        sources = {_widened(each) for each in product.operands}
        return sources == set(self.inputs.values())


def _widened(value: SSAValue) -> SSAValue:
    """What a value was before it was converted to a wider type."""
    op = value.owner
    wider = (arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp)
    return _widened(op.operands[0]) if isinstance(op, wider) else value


def _element(array: SSAValue) -> Attribute:
    return cast("MemRefType[Attribute]", array.type).element_type


def _is_memory(array: SSAValue) -> bool:
    return isinstance(array, BlockArgument)


def _is_over_loops(form: Form, forms: PointForms) -> bool:
    return all(atom in forms.loops for atom, _ in form.terms)
