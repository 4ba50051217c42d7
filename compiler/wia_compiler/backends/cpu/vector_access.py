"""How the vector code of a leaf reads and writes: whole, broadcast, masked, padded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, MemRefType, VectorType, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from wia_compiler.backends.cpu.vector_plan import Condition, VectorPlan, is_register
from wia_compiler.dialects.shared_attributes import vector_type
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import range_of
from wia_compiler.passes.emit_index import IndexEmitter

Points = list[SSAValue]
"""A place for each axis of a leaf."""


@dataclass
class TileAccess:
    """Loads and stores of one version of a leaf's code; ``masked`` at an edge.

    ``known`` holds what was loaded for the current point of the folded axes: rows and chunks that
    read the same share it.
    """

    plan: VectorPlan
    masked: bool
    known: dict[tuple[object, ...], SSAValue] = field(
        default_factory=dict["tuple[object, ...]", SSAValue]
    )

    @property
    def leaf(self) -> ComputeOp:
        """The leaf."""
        return self.plan.leaf

    def row_tests(self, emitter: IndexEmitter, points: Points) -> list[SSAValue]:
        if not self.masked:
            return []
        return [
            emitter.below(self._value(emitter, each.expression, points), each.limit)
            for each in self.plan.bounds
            if not self.plan.runs_along(each.expression)
        ]

    def _lane_conditions(self, operand: int | None) -> list[Condition]:
        """The conditions that depend on the lane, for an input or (``None``) an output."""
        if not self.masked:
            return []
        padding = self.plan.padding[operand] if operand is not None else ()
        every = [*self.plan.bounds, *(each for each in padding if each is not None)]
        return [each for each in every if self.plan.runs_along(each.expression)]

    def _value(self, emitter: IndexEmitter, expression: AffineExpr, points: Points) -> SSAValue:
        return emitter.affine(expression, points, self.plan.context.ivs)

    def input(self, emitter: IndexEmitter, operand: int, points: Points) -> SSAValue:
        """An input as a vector, loaded once for all rows and chunks that share it."""
        each = self.leaf.input_maps[operand]
        return self._once(
            ("input", operand, *self._places(each.results, points)),
            lambda: self._load(emitter, operand, points),
        )

    def _once(self, key: tuple[object, ...], make: Callable[[], SSAValue]) -> SSAValue:
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]

    def _places(self, expressions: Sequence[AffineExpr], points: Points) -> tuple[SSAValue, ...]:
        """Where the axes stand that expressions read."""
        used = {dim for expression in expressions for dim in expression.used_dims()}
        return tuple(value for axis, value in enumerate(points) if axis in used)

    def _load(self, emitter: IndexEmitter, operand: int, points: Points) -> SSAValue:
        array = self.plan.context.array(self.leaf.inputs[operand])
        if is_register(array):
            return self.read(emitter, points, operand=operand)
        each = self.leaf.input_maps[operand]
        indices = [self._value(emitter, expression, points) for expression in each.results]
        padded: list[SSAValue] = []
        if self.masked:
            for condition in self.plan.padding[operand]:
                if condition is not None and not self.plan.runs_along(condition.expression):
                    value = self._value(emitter, condition.expression, points)
                    padded.append(emitter.below(value, condition.limit))
        if self.leaf.folds:
            self.stay_inside(emitter, operand, indices)
        if padded:
            # Outside, an input is read at a place that exists, and replaced by 0.
            inside, start = emitter.both(padded), emitter.constant(0)
            for number, condition in enumerate(self.plan.padding[operand]):
                if condition is not None and not self.plan.runs_along(condition.expression):
                    indices[number] = emitter.emit(arith.SelectOp(inside, indices[number], start))
        value = self._access(emitter, operand, array, indices, points)
        if not padded:
            return value
        zero = emitter.emit(splat(0, cast("VectorType[Attribute]", value.type)))
        return emitter.emit(arith.SelectOp(emitter.both(padded), value, zero))

    def stay_inside(self, emitter: IndexEmitter, operand: int, indices: list[SSAValue]) -> None:
        """Past the last row a fold reads the last one again: bounded indices are limited."""
        for number, expression in enumerate(self.leaf.input_maps[operand].results):
            for bound in self.plan.bounds:
                if bound.expression == expression and not self.plan.runs_along(expression):
                    last = emitter.constant(bound.limit - 1)
                    indices[number] = emitter.minimum(indices[number], last)

    def _access(
        self,
        emitter: IndexEmitter,
        operand: int,
        array: SSAValue,
        indices: Sequence[SSAValue],
        points: Points,
    ) -> SSAValue:
        element = cast("MemRefType[Attribute]", array.type).element_type
        type_ = vector_type(element, self.plan.lanes)
        if not self.plan.runs_along(self.leaf.input_maps[operand]):
            scalar = emitter.emit(memref.LoadOp.get(array, indices))
            return emitter.emit(vector.BroadcastOp(scalar, type_))
        mask = self._mask(emitter, self._lane_conditions(operand), points)
        if mask is None:
            return emitter.emit(vector.LoadOp(array, indices, type_))
        zero = emitter.emit(splat(0, type_))
        return emitter.emit(vector.MaskedLoadOp(array, indices, mask, zero, type_))

    def _mask(
        self, emitter: IndexEmitter, conditions: Sequence[Condition], points: Points
    ) -> SSAValue | None:
        """Which lanes satisfy all conditions."""
        if not conditions:
            return None
        places = self._places([each.expression for each in conditions], points)
        return self._once(
            ("mask", *conditions, *places), lambda: self._make_mask(emitter, conditions, points)
        )

    def _make_mask(
        self, emitter: IndexEmitter, conditions: Sequence[Condition], points: Points
    ) -> SSAValue:
        shape = vector_type(i1, self.plan.lanes)
        masks: list[SSAValue] = []
        for condition in conditions:
            first = self._value(emitter, condition.expression, points)
            room = emitter.subtract(emitter.constant(condition.limit), first)
            masks.append(emitter.emit(_create_mask(room, shape)))
            if not self._is_positive(condition):
                below = emitter.subtract(emitter.constant(0), first)
                outside = emitter.emit(_create_mask(below, shape))
                masks.append(emitter.emit(arith.XOrIOp(outside, emitter.emit(splat(True, shape)))))
        total = masks[0]
        for each in masks[1:]:
            total = emitter.emit(arith.AndIOp(total, each))
        return total

    def _is_positive(self, condition: Condition) -> bool:
        context = self.plan.context
        found = range_of(condition.expression, context.dim_ranges, context.symbol_ranges)
        return found is not None and found[0] >= 0

    def read(
        self,
        emitter: IndexEmitter,
        points: Points,
        *,
        operand: int | None = None,
        output: int | None = None,
    ) -> SSAValue:
        """A vector (or broadcast scalar) of a buffer that holds the whole tile."""
        leaf, context = self.leaf, self.plan.context
        if operand is not None:
            array, each = context.array(leaf.inputs[operand]), leaf.input_maps[operand]
        else:
            assert output is not None
            array, each = context.array(leaf.outputs[output]), leaf.output_maps[output]
        indices = [self._value(emitter, expression, points) for expression in each.results]
        type_ = vector_type(cast("MemRefType[Attribute]", array.type).element_type, self.plan.lanes)
        if not self.plan.runs_along(each):
            scalar = emitter.emit(memref.LoadOp.get(array, indices))
            return emitter.emit(vector.BroadcastOp(scalar, type_))
        mask = (
            None if is_register(array) else self._mask(emitter, self._lane_conditions(None), points)
        )
        if mask is None:
            return emitter.emit(vector.LoadOp(array, indices, type_))
        zero = emitter.emit(splat(0, type_))
        return emitter.emit(vector.MaskedLoadOp(array, indices, mask, zero, type_))

    def write(self, emitter: IndexEmitter, output: int, points: Points, value: SSAValue) -> None:
        array = self.plan.context.array(self.leaf.outputs[output])
        each = self.leaf.output_maps[output]
        indices = [self._value(emitter, expression, points) for expression in each.results]
        mask = (
            None if is_register(array) else self._mask(emitter, self._lane_conditions(None), points)
        )
        store: Operation
        if mask is None:
            store = vector.StoreOp(value, array, indices)
        else:
            store = vector.MaskedStoreOp.build(operands=[array, indices, mask, value])
        emitter.put(store)


def splat(number: float | int, type_: VectorType[Attribute]) -> arith.ConstantOp:
    """A number in every lane."""
    value = DenseIntOrFPElementsAttr.from_list(cast("VectorType[Any]", type_), [number])
    return arith.ConstantOp(value, type_)


def _create_mask(count: SSAValue, shape: VectorType[Attribute]) -> Operation:
    """Lanes below ``count`` are on; all or none where it is out of range."""
    return vector.CreateMaskOp.build(operands=[[count]], result_types=[shape])
