"""A leaf as vector code: register tiles held in vectors while the ``reduce`` axes run.

Rows are unrolled, so that every access of a register buffer has a constant place and LLVM keeps the
buffer in registers. Tiles at ragged edges take a second version with masked loads and stores.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.dialects import scf
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineMap

from wia_compiler.backends.cpu.vector_access import Points, TileAccess
from wia_compiler.backends.cpu.vector_body import emit_vector_body
from wia_compiler.backends.cpu.vector_plan import Condition, VectorPlan, is_register
from wia_compiler.backends.cpu.vector_versions import write_versions
from wia_compiler.dialects.loop_hints import hand_on
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.emit_index import INDEX, IndexEmitter


def lower_leaf_to_vectors(plan: VectorPlan, builder: Builder) -> None:
    """Write the leaf's vector code at the builder's place."""
    emitter = IndexEmitter(builder, plan.leaf.location)
    write_versions(
        plan.leaf,
        plan.context.ivs,
        emitter,
        _tested(plan),
        lambda inside, masked: _Version(plan, masked=masked).write(inside),
    )


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


class _Version:
    """One version of the code: for whole tiles, or ``masked`` for those at an edge."""

    def __init__(self, plan: VectorPlan, *, masked: bool):
        self.plan = plan
        self.access = TileAccess(plan, masked)

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
            self.access.read(emitter, self._tile_points(emitter, row, chunk), output=output)
            for output, row, chunk in tiles
        ]
        results = self._fold(emitter, 0, {}, tiles, held)
        self.access.known = {}  # masks that were made inside of the fold's loops
        for (output, row, chunk), value in zip(tiles, results, strict=True):
            self.access.write(emitter, output, self._tile_points(emitter, row, chunk), value)

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
        size = self._end(emitter, axis)
        body = Block(arg_types=[zero.type, *(value.type for value in held)])
        body.args[0].name_hint = self.leaf.axis_names[axis]
        inner = emitter.nested(body)
        results = self._fold(
            inner, depth + 1, {**folded, axis: body.args[0]}, tiles, list(body.args[1:])
        )
        emitter.close(body, *results)
        loop = scf.ForOp(zero, size, one, held, Region(body))
        hand_on(self.leaf, self.leaf.axis_names[axis], loop)
        emitter.put(loop)
        return list(loop.results)

    def _end(self, emitter: IndexEmitter, axis: int) -> SSAValue:
        """Where a folded axis ends: at its size, or where a bound is reached."""
        end = emitter.constant(self.leaf.sizes[axis])
        zeros = [emitter.constant(0)] * len(self.leaf.sizes)
        for folded, bound in self.plan.ends:
            if folded == axis:
                first = emitter.affine(bound.expression, zeros, self.plan.context.ivs)
                room = emitter.subtract(emitter.constant(bound.limit), first)
                end = emitter.minimum(end, room)
        return end

    def _step(
        self,
        emitter: IndexEmitter,
        folded: dict[int, SSAValue],
        tiles: list[tuple[int, tuple[int, ...], int]],
        held: list[SSAValue],
    ) -> list[SSAValue]:
        """One point of the reduce axes for the whole tile."""
        self.access.known = {}
        outputs = range(len(self.leaf.outputs))
        current = dict(zip(tiles, held, strict=True))
        for row in self._rows():
            for chunk in range(self.plan.chunks):
                points = self._points(emitter, chunk, {**folded, **self._row_places(emitter, row)})
                inputs = [
                    self.access.input(emitter, number, points)
                    for number in range(len(self.leaf.inputs))
                ]
                sums = [current[(output, row, chunk)] for output in outputs]
                for output, value in enumerate(self._body(emitter, [*inputs, *sums])):
                    current[(output, row, chunk)] = value
        return [current[tile] for tile in tiles]

    def _map(self, emitter: IndexEmitter, at: dict[int, SSAValue], rows: list[int]) -> None:
        """Every row of a map: ``rows`` are still to be walked, ``at`` is where the others are."""
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
        emitter.close(body)
        start, end, step = (emitter.constant(each) for each in (0, size, 1))
        loop = scf.ForOp(start, end, step, [], Region(body))
        hand_on(self.leaf, self.leaf.axis_names[axis], loop)
        emitter.put(loop)

    def _guarded(self, emitter: IndexEmitter, at: dict[int, SSAValue]) -> None:
        """A row of a map, inside a test of the bounds that do not depend on the lane.

        Buffers of the nest hold whole tiles; main memory ends with the array, for reads too.
        """
        tests = self.access.row_tests(emitter, self._points(emitter, 0, at))
        operands = (*self.leaf.inputs, *self.leaf.outputs)
        if not tests or all(is_register(value) for value in operands):
            self._write_row(emitter, at)
            return
        block = Block()
        self._write_row(emitter.nested(block), at)
        emitter.close(block)
        branch = scf.IfOp(emitter.both(tests), [], Region(block))
        emitter.put(branch)

    def _write_row(self, emitter: IndexEmitter, at: dict[int, SSAValue]) -> None:
        """All vectors of one row of a map."""
        self.access.known = {}
        for chunk in range(self.plan.chunks):
            points = self._points(emitter, chunk, at)
            inputs = [
                self.access.input(emitter, number, points)
                for number in range(len(self.leaf.inputs))
            ]
            for output, value in enumerate(self._body(emitter, inputs)):
                self.access.write(emitter, output, points, value)

    def _body(self, emitter: IndexEmitter, arguments: Sequence[SSAValue]) -> list[SSAValue]:
        """The leaf's body with every scalar a vector."""
        return emit_vector_body(self.leaf, emitter, arguments, self.plan.lanes)
