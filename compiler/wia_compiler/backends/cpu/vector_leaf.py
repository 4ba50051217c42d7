"""A leaf as vector code: register tiles held in vectors while the ``reduce`` axes run.

Rows are unrolled, so that every access of a register buffer has a constant place and LLVM keeps the
buffer in registers. Tiles at ragged edges take a second version with masked loads and stores.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, MemRefType, VectorType, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from wia_compiler.backends.cpu.vector_plan import Condition, VectorPlan, is_register
from wia_compiler.dialects.tile import ComputeOp, YieldOp
from wia_compiler.passes.affine import linear_form, range_of
from wia_compiler.passes.emit_index import INDEX, IndexEmitter
from wia_compiler.passes.emit_leaf import fold_permissions

Points = list[SSAValue]


def lower_leaf_to_vectors(plan: VectorPlan, builder: Builder) -> None:
    """Write the leaf's vector code at the builder's place."""
    emitter = IndexEmitter(builder, plan.leaf.location)
    outside = _tested(plan)
    if not outside:
        _Version(plan, masked=False).write(emitter)
        return
    full = _holds_everywhere(plan, emitter, outside)
    blocks: list[Block] = []
    for masked in (False, True):
        block = Block()
        _Version(plan, masked=masked).write(emitter.nested(block))
        block.add_op(_located(scf.YieldOp(), emitter))
        blocks.append(block)
    branch = scf.IfOp(full, [], Region(blocks[0]), Region(blocks[1]))
    builder.insert(_located(branch, emitter))


def _tested(plan: VectorPlan) -> list[Condition]:
    """What decides between the versions: padding, and bounds where main memory is touched.

    A fold needs no test of its rows: past the last one it reads the last once more and what it
    computes there is not used. Buffers of the nest hold whole tiles.
    """
    padding = [each for row in plan.padding for each in row if each is not None]
    leaf = plan.leaf
    bounds = list(plan.bounds)
    touched = [
        (value, each)
        for value, each in zip((*leaf.inputs, *leaf.outputs), _maps(leaf), strict=True)
        if not is_register(value)
    ]
    if not touched:
        bounds = []
    elif leaf.folds and all(is_register(value) for value in leaf.outputs):
        along = any(plan.runs_along(each) for _, each in touched)
        bounds = [each for each in bounds if along and plan.runs_along(each.expression)]
    return [*bounds, *padding]


def _maps(leaf: ComputeOp) -> list[AffineMap]:
    return [*leaf.input_maps, *leaf.output_maps]


def _holds_everywhere(
    plan: VectorPlan, emitter: IndexEmitter, conditions: Sequence[Condition]
) -> SSAValue:
    """Whether all conditions hold at every point: each at the corners where it is extreme."""
    tests: list[SSAValue] = []
    for condition in conditions:
        form = linear_form(condition.expression)
        for highest in (False, True):
            corner = [
                emitter.constant(
                    size - 1 if (form.terms.get(AffineDimExpr(axis), 0) > 0) == highest else 0
                )
                for axis, size in enumerate(plan.leaf.sizes)
            ]
            value = emitter.affine(condition.expression, corner, plan.context.ivs)
            tests.append(emitter.below(value, condition.limit))
    return emitter.both(list(dict.fromkeys(tests)))


@dataclass
class _Version:
    """One version of the code: for whole tiles, or ``masked`` for those at an edge."""

    plan: VectorPlan
    masked: bool
    known: dict[tuple[object, ...], SSAValue] = field(
        default_factory=dict["tuple[object, ...]", SSAValue]
    )

    @property
    def leaf(self) -> ComputeOp:
        """The leaf."""
        return self.plan.leaf

    def write(self, emitter: IndexEmitter) -> None:
        """The whole leaf."""
        if not self.leaf.folds:
            self._map(emitter, {}, list(self.plan.rows))
            return
        tiles = [
            (output, row, chunk)
            for output in range(len(self.leaf.outputs))
            for row in self._rows()
            for chunk in range(self.plan.chunks)
        ]
        held = [
            self._read(emitter, self._tile_points(emitter, row, chunk), output=output)
            for output, row, chunk in tiles
        ]
        results = self._fold(emitter, 0, {}, tiles, held)
        for (output, row, chunk), value in zip(tiles, results, strict=True):
            self._write(emitter, output, self._tile_points(emitter, row, chunk), value)

    def _rows(self) -> list[tuple[int, ...]]:
        """Every combination of points of the row axes."""
        return list(itertools.product(*(range(self.leaf.sizes[axis]) for axis in self.plan.rows)))

    def _points(self, emitter: IndexEmitter, chunk: int, at: dict[int, SSAValue]) -> Points:
        """A place for each axis: ``at`` where it is given, else 0; ``chunk`` along the lanes."""
        points: Points = [emitter.constant(0)] * len(self.leaf.sizes)
        points[self.plan.axis] = emitter.constant(chunk * self.plan.lanes)
        for axis, value in at.items():
            points[axis] = value
        return points

    def _tile_points(self, emitter: IndexEmitter, row: tuple[int, ...], chunk: int) -> Points:
        return self._points(emitter, chunk, self._row_places(emitter, row))

    def _row_places(self, emitter: IndexEmitter, row: tuple[int, ...]) -> dict[int, SSAValue]:
        return {
            axis: emitter.constant(value) for axis, value in zip(self.plan.rows, row, strict=True)
        }

    def _fold(
        self,
        emitter: IndexEmitter,
        depth: int,
        folded: dict[int, SSAValue],
        tiles: list[tuple[int, tuple[int, ...], int]],
        held: list[SSAValue],
    ) -> list[SSAValue]:
        """Loops over the reduce axes from ``depth`` on, the tile's vectors carried along."""
        if depth == len(self.plan.reduce):
            return self._step(emitter, folded, tiles, held)
        axis = self.plan.reduce[depth]
        zero, one = emitter.constant(0), emitter.constant(1)
        size = emitter.constant(self.leaf.sizes[axis])
        body = Block(arg_types=[zero.type, *(value.type for value in held)])
        body.args[0].name_hint = self.leaf.axis_names[axis]
        inner = emitter.nested(body)
        results = self._fold(
            inner, depth + 1, {**folded, axis: body.args[0]}, tiles, list(body.args[1:])
        )
        body.add_op(_located(scf.YieldOp(*results), emitter))
        loop = scf.ForOp(zero, size, one, held, Region(body))
        emitter.builder.insert(_located(loop, emitter))
        return list(loop.results)

    def _step(
        self,
        emitter: IndexEmitter,
        folded: dict[int, SSAValue],
        tiles: list[tuple[int, tuple[int, ...], int]],
        held: list[SSAValue],
    ) -> list[SSAValue]:
        """One point of the reduce axes for the whole tile."""
        self.known = {}
        outputs = range(len(self.leaf.outputs))
        current = dict(zip(tiles, held, strict=True))
        for row in self._rows():
            for chunk in range(self.plan.chunks):
                points = self._points(emitter, chunk, {**folded, **self._row_places(emitter, row)})
                inputs = [
                    self._input(emitter, number, points) for number in range(len(self.leaf.inputs))
                ]
                sums = [current[(output, row, chunk)] for output in outputs]
                for output, value in enumerate(self._body(emitter, [*inputs, *sums])):
                    current[(output, row, chunk)] = value
        return [current[tile] for tile in tiles]

    def _map(self, emitter: IndexEmitter, at: dict[int, SSAValue], rows: list[int]) -> None:
        """Every row of a map: the axes ``rows`` are still to be walked, ``at`` are where they are."""
        if not rows:
            self._guarded(emitter, at)
            return
        axis, *rest = rows
        size = self.leaf.sizes[axis]
        if self.plan.unrolled or size == 1:
            for position in range(size):
                self._map(emitter, {**at, axis: emitter.constant(position)}, rest)
            return
        body = Block(arg_types=[INDEX])
        body.args[0].name_hint = self.leaf.axis_names[axis]
        self._map(emitter.nested(body), {**at, axis: body.args[0]}, rest)
        body.add_op(_located(scf.YieldOp(), emitter))
        bounds = (emitter.constant(each) for each in (0, size, 1))
        loop = scf.ForOp(*bounds, [], Region(body))
        emitter.builder.insert(_located(loop, emitter))

    def _guarded(self, emitter: IndexEmitter, at: dict[int, SSAValue]) -> None:
        """A row of a map, inside a test of the bounds that do not depend on the lane."""
        tests = self._row_tests(emitter, self._points(emitter, 0, at))
        if not tests or all(is_register(value) for value in self.leaf.outputs):
            self._write_row(emitter, at)
            return
        block = Block()
        self._write_row(emitter.nested(block), at)
        block.add_op(_located(scf.YieldOp(), emitter))
        branch = scf.IfOp(emitter.both(tests), [], Region(block))
        emitter.builder.insert(_located(branch, emitter))

    def _write_row(self, emitter: IndexEmitter, at: dict[int, SSAValue]) -> None:
        """All vectors of one row of a map."""
        self.known = {}
        for chunk in range(self.plan.chunks):
            points = self._points(emitter, chunk, at)
            inputs = [
                self._input(emitter, number, points) for number in range(len(self.leaf.inputs))
            ]
            for output, value in enumerate(self._body(emitter, inputs)):
                self._write(emitter, output, points, value)

    def _row_tests(self, emitter: IndexEmitter, points: Points) -> list[SSAValue]:
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

    def _input(self, emitter: IndexEmitter, operand: int, points: Points) -> SSAValue:
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
            return self._read(emitter, points, operand=operand)
        each = self.leaf.input_maps[operand]
        indices = [self._value(emitter, expression, points) for expression in each.results]
        padded: list[SSAValue] = []
        if self.masked:
            for condition in self.plan.padding[operand]:
                if condition is not None and not self.plan.runs_along(condition.expression):
                    value = self._value(emitter, condition.expression, points)
                    padded.append(emitter.below(value, condition.limit))
        if self.leaf.folds:
            self._stay_inside(emitter, operand, indices)
        if padded:
            # Outside, an input is read at a place that exists, and replaced by 0.
            inside, start = emitter.both(padded), emitter.constant(0)
            for number in range(len(indices) - self.plan.runs_along(each)):
                indices[number] = emitter.emit(arith.SelectOp(inside, indices[number], start))
        value = self._access(emitter, operand, array, indices, points)
        if not padded:
            return value
        zero = emitter.emit(_splat(0, cast("VectorType[Attribute]", value.type)))
        return emitter.emit(arith.SelectOp(emitter.both(padded), value, zero))

    def _stay_inside(self, emitter: IndexEmitter, operand: int, indices: list[SSAValue]) -> None:
        """Past the last row a fold reads the last one again: an index that bounds name is limited."""
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
        type_ = VectorType(element, [self.plan.lanes])
        if not self.plan.runs_along(self.leaf.input_maps[operand]):
            scalar = emitter.emit(memref.LoadOp.get(array, indices))
            return emitter.emit(vector.BroadcastOp(scalar, type_))
        mask = self._mask(emitter, self._lane_conditions(operand), points)
        if mask is None:
            return emitter.emit(vector.LoadOp(array, indices, type_))
        zero = emitter.emit(_splat(0, type_))
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
        shape = VectorType(i1, [self.plan.lanes])
        masks: list[SSAValue] = []
        for condition in conditions:
            first = self._value(emitter, condition.expression, points)
            room = emitter.subtract(emitter.constant(condition.limit), first)
            masks.append(emitter.emit(_create_mask(room, shape)))
            if not self._is_positive(condition):
                below = emitter.subtract(emitter.constant(0), first)
                outside = emitter.emit(_create_mask(below, shape))
                masks.append(emitter.emit(arith.XOrIOp(outside, emitter.emit(_splat(True, shape)))))
        total = masks[0]
        for each in masks[1:]:
            total = emitter.emit(arith.AndIOp(total, each))
        return total

    def _is_positive(self, condition: Condition) -> bool:
        context = self.plan.context
        found = range_of(condition.expression, context.dim_ranges, context.symbol_ranges)
        return found is not None and found[0] >= 0

    def _read(
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
        type_ = VectorType(
            cast("MemRefType[Attribute]", array.type).element_type, [self.plan.lanes]
        )
        if not self.plan.runs_along(each):
            scalar = emitter.emit(memref.LoadOp.get(array, indices))
            return emitter.emit(vector.BroadcastOp(scalar, type_))
        mask = (
            None if is_register(array) else self._mask(emitter, self._lane_conditions(None), points)
        )
        if mask is None:
            return emitter.emit(vector.LoadOp(array, indices, type_))
        zero = emitter.emit(_splat(0, type_))
        return emitter.emit(vector.MaskedLoadOp(array, indices, mask, zero, type_))

    def _write(self, emitter: IndexEmitter, output: int, points: Points, value: SSAValue) -> None:
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
        emitter.builder.insert(_located(store, emitter))

    def _body(self, emitter: IndexEmitter, arguments: Sequence[SSAValue]) -> list[SSAValue]:
        """The leaf's body with every scalar a vector."""
        block = self.leaf.body.block
        values: dict[SSAValue, SSAValue] = dict(zip(block.args, arguments, strict=True))
        flags = fold_permissions(self.leaf)
        for op in block.ops:
            if isinstance(op, YieldOp):
                return [values[value] for value in op.arguments]
            types = [VectorType(result.type, [self.plan.lanes]) for result in op.results]
            made: Operation
            if isinstance(op, arith.ConstantOp):
                made = _splat(op.value.value.data, types[0])  # pyright: ignore
            else:
                properties = dict(op.properties)
                if op in flags:
                    properties["fastmath"] = flags[op]
                made = type(op).create(
                    operands=[values[value] for value in op.operands],
                    result_types=types,
                    properties=properties,
                    attributes=dict(op.attributes),
                )
            made.location = op.location
            emitter.builder.insert(made)
            for old, new in zip(op.results, made.results, strict=True):
                values[old] = new
                new.name_hint = old.name_hint
        raise ValueError("a leaf's body ends with tile.yield")


def _splat(number: float | int, type_: VectorType[Attribute]) -> arith.ConstantOp:
    value = DenseIntOrFPElementsAttr.from_list(type_, [number])  # pyright: ignore
    return arith.ConstantOp(value, type_)


def _create_mask(count: SSAValue, shape: VectorType[Attribute]) -> Operation:
    """``vector.create_mask``: lanes below ``count`` are on, all or none where it is out of range."""
    return vector.CreateMaskOp.build(operands=[[count]], result_types=[shape])


def _located(op: Operation, emitter: IndexEmitter) -> Operation:
    op.location = emitter.location
    return op
