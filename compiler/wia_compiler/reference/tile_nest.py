"""Runs one nest on numpy: loops, leaves and point code, many iterations at once.

The iterations of a ``tile.for`` are independent, so they are taken together: a value of point code
is an array with one axis for each such loop around it (the batch), and an ``active`` array says
which of them run. A branch is taken by those of its condition, a loop with bounds or a ``while``
goes on as long as one of them does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from wia_compiler.base.errors import OutOfRangeError
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.dialects.tile_check import CheckOp
from wia_compiler.dialects.tile_places import PositionsOp
from wia_compiler.dialects.tile_points import SCALAR_DIALECTS
from wia_compiler.reference.rounding import Array
from wia_compiler.reference.scalar_ops import apply, numpy_type
from wia_compiler.reference.tile_leaf import Memory, TileError, run_leaf

_LARGEST_BATCH = 1 << 21
"""Points of a leaf that are evaluated at once; above it, the outermost loops run one by one."""
_UNDEFINED_OPERANDS = ("divsi", "divui", "remsi", "remui", "fptosi", "fptoui", "shli", "shrsi")
"""Ops that are undefined for some operands: iterations that do not run them must not be asked."""


def allocate(type: MemRefType[Attribute], batch: tuple[int, ...]) -> Memory:
    """Unwritten memory, one for each point of the loops around it that are taken at once."""
    shape = (*batch, *type.get_shape())
    data = np.zeros(shape, numpy_type(type.element_type))
    return Memory(data, np.zeros(shape, np.bool_), len(batch))


def run_nest(nest: func.FuncOp, arguments: Sequence[Memory]) -> None:
    """Run one nest function on memory."""
    block = nest.body.block
    memories: dict[SSAValue, Memory] = dict(zip(block.args, arguments, strict=True))
    _Nest(memories, {}).run(block, (), np.ones((), np.bool_))


@dataclass
class _Nest:
    """Values of one call. ``batch`` is the shape of the loops taken at once, outermost first."""

    memories: dict[SSAValue, Memory]
    values: dict[SSAValue, Array]

    def run(self, block: Block, batch: tuple[int, ...], active: Array) -> list[Array]:
        """Run a block for the active part of the batch; what its terminator passes on."""
        for op in block.ops:
            match op:
                case ForOp():
                    self._tile_loop(op, batch, active)
                case memref.AllocOp() | memref.AllocaOp():
                    self.memories[op.memref] = allocate(op.memref.type, batch)
                case PositionsOp():
                    self.memories[op.memref] = _positions(op)
                case ComputeOp():
                    ivs = [self._value(iv, batch) for iv in op.ivs]
                    run_leaf(op, self.memories, batch, ivs, _spread(active, batch))
                case scf.ForOp():
                    self._loop(op, batch, active)
                case scf.IfOp():
                    self._branch(op, batch, active)
                case scf.WhileOp():
                    self._while(op, batch, active)
                case memref.LoadOp():
                    self.values[op.res] = self._load(op, batch, active)
                case memref.StoreOp():
                    self._store(op, batch, active)
                case CheckOp():
                    self._check(op, batch, active)
                case scf.YieldOp() | scf.ConditionOp():
                    return [self._value(value, batch) for value in op.operands]
                case func.ReturnOp():
                    return []
                case _:
                    self._scalar(op, batch, active)
        return []

    def _value(self, value: SSAValue, batch: tuple[int, ...]) -> Array:
        return _spread(self.values[value], batch)

    def _define(self, targets: Sequence[SSAValue], values: Sequence[Array]) -> None:
        self.values.update(zip(targets, values, strict=True))

    def _tile_loop(self, op: ForOp, batch: tuple[int, ...], active: Array) -> None:
        steps = np.arange(op.trip_count) * op.step.value.data
        block = op.body.block
        points = math.prod(batch) * op.trip_count * _points_inside(op)
        if _is_folded(op) or points > _LARGEST_BATCH:
            for step in steps:
                self.values[op.induction_variable] = np.asarray(step)
                self.run(block, batch, active)
        elif op.trip_count:
            self.values[op.induction_variable] = steps.reshape((*(1,) * len(batch), -1))
            self.run(block, (*batch, op.trip_count), active)

    def _loop(self, op: scf.ForOp, batch: tuple[int, ...], active: Array) -> None:
        variable, *carried = op.body.block.args
        current, end, step = (self._value(each, batch) for each in (op.lb, op.ub, op.step))
        if np.any((step <= 0) & active):
            raise TileError("an scf.for has a step above 0")
        held = [self._value(value, batch) for value in op.iter_args]
        while np.any(live := _spread(active, batch) & (current < end)):
            self._define([variable, *carried], [current, *held])
            made = self.run(op.body.block, batch, live)
            held = [np.where(live, new, old) for new, old in zip(made, held, strict=True)]
            current = np.where(live, current + step, current)
        self._define(op.results, held)

    def _branch(self, op: scf.IfOp, batch: tuple[int, ...], active: Array) -> None:
        condition = self._value(op.cond, batch)
        made: list[tuple[Array, list[Array]]] = []
        for region, chosen in ((op.true_region, condition), (op.false_region, ~condition)):
            live = _spread(active, batch) & chosen
            if region.blocks and np.any(live):
                made.append((chosen, self.run(region.block, batch, live)))
        for index, result in enumerate(op.results):
            total = np.zeros((), numpy_type(result.type))
            for chosen, values in made:
                total = np.where(chosen, values[index], total)
            self.values[result] = total

    def _while(self, op: scf.WhileOp, batch: tuple[int, ...], active: Array) -> None:
        live = _spread(active, batch)
        held = [self._value(value, batch) for value in op.arguments]
        results = [np.zeros((), numpy_type(result.type)) for result in op.results]
        while np.any(live):
            self._define(op.before_region.block.args, held)
            condition, *passed = self.run(op.before_region.block, batch, live)
            leaves = live & ~condition
            results = [np.where(leaves, n, o) for n, o in zip(passed, results, strict=True)]
            live = live & condition
            if not np.any(live):
                break
            self._define(op.after_region.block.args, passed)
            made = self.run(op.after_region.block, batch, live)
            held = [np.where(live, new, old) for new, old in zip(made, passed, strict=True)]
        self._define(op.results, results)

    def _scalar(self, op: Operation, batch: tuple[int, ...], active: Array) -> None:
        operands = [self._value(value, batch) for value in op.operands]
        dialect, _, name = op.name.partition(".")
        if dialect not in SCALAR_DIALECTS:
            raise TileError(f"a nest cannot hold {op.name}")
        if name in _UNDEFINED_OPERANDS:
            live = _spread(active, batch)
            operands = [np.where(live, each, np.ones((), each.dtype)) for each in operands]
        self.values[op.results[0]] = apply(op, operands)

    def _check(self, op: CheckOp, batch: tuple[int, ...], active: Array) -> None:
        """Raise the error of the first iteration in which a check fails, if there is one."""
        failed = _spread(active, batch) & ~self._value(op.condition, batch)
        if not np.any(failed):
            return
        place = tuple(each[0] for each in np.nonzero(failed)) if failed.ndim else ()
        values = [np.broadcast_to(self._value(each, batch), failed.shape) for each in op.indices]
        index = tuple(int(each[place]) for each in values)
        sizes = tuple(size.value.data for size in op.sizes)
        raise OutOfRangeError(op.array.data, index, sizes, next(iter(spans_of(op)), None))

    def _places(
        self,
        op: memref.LoadOp | memref.StoreOp,
        batch: tuple[int, ...],
        active: Array,
    ) -> tuple[Memory, tuple[Array, ...]]:
        """The memory that an op works on and where; all places of the active part are inside."""
        memory = self.memories[op.memref]
        own = [_along(n, batch) for n in range(memory.batch_rank)]
        index = [*own, *(self._value(each, batch) for each in op.indices)]
        places: list[Array] = []
        for each, size in zip(index, memory.data.shape, strict=True):
            outside = ((each < 0) | (each >= size)) & active
            if np.any(outside):
                found = np.broadcast_to(each, outside.shape)[outside].flat[0]
                raise TileError(f"{op.name} at index {found} of an axis of size {size}")
            places.append(np.where(active, each, 0))
        return memory, tuple(places)

    def _load(self, op: memref.LoadOp, batch: tuple[int, ...], active: Array) -> Array:
        live = _spread(active, batch)
        memory, places = self._places(op, batch, live)
        if not memory.data.size:
            return np.zeros((), memory.data.dtype)
        if not np.all(memory.written[places] | ~live):
            raise TileError("memref.load reads an element before it is written")
        memory.count(places, live, batch)
        return np.asarray(memory.data[places])

    def _store(self, op: memref.StoreOp, batch: tuple[int, ...], active: Array) -> None:
        live = np.broadcast_to(_spread(active, batch), batch)
        memory, places = self._places(op, batch, live)
        elements = np.broadcast_to(self._value(op.value, batch), batch)[live]
        where = tuple(np.broadcast_to(place, batch)[live] for place in places)
        if not elements.size:
            return
        if where and len(np.unique(np.stack(where), axis=1)[0]) != elements.size:
            raise TileError("iterations of a tile.for store to the same element")
        if not where and elements.size > 1:
            raise TileError("iterations of a tile.for store to the same element")
        memory.data[where or ...] = elements if where else elements[0]
        memory.written[where or ...] = True


def _positions(op: PositionsOp) -> Memory:
    (size,) = op.memref.type.get_shape()
    return Memory(np.arange(size), np.ones(size, np.bool_), 0)


def _spread(value: Array, batch: tuple[int, ...]) -> Array:
    """A value with an axis for each loop of the batch; those inside its own have size 1."""
    return value.reshape((*value.shape, *(1,) * (len(batch) - value.ndim)))


def _along(axis: int, batch: tuple[int, ...]) -> Array:
    return np.arange(batch[axis]).reshape([-1 if n == axis else 1 for n in range(len(batch))])


def _is_folded(loop: ForOp) -> bool:
    """Whether a loop walks an axis that a leaf inside it folds."""
    axis = loop.axis.data.partition(".")[0]
    return any(
        isinstance(op, ComputeOp) and axis in {name.data for name in op.reduce_axes}
        for op in loop.walk()
    )


def _points_inside(op: Operation) -> int:
    """The most points that one leaf visits in one iteration of an op's loops."""
    return max((_points_of(each) for region in op.regions for each in _ops_of(region)), default=1)


def _points_of(op: Operation) -> int:
    match op:
        case ComputeOp():
            return math.prod(op.sizes)
        case ForOp():
            return op.trip_count * _points_inside(op)
        case _:
            return _points_inside(op)


def _ops_of(region: Region) -> Sequence[Any]:
    return [op for block in region.blocks for op in block.ops]
