"""A map leaf as vector instructions: its scalar body, done to whole tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import Float32Type, FloatAttr, MemRefType
from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.backends.tpu.spelling import ELEMENTS, relu_operand
from wia_compiler.dialects.tile import ComputeOp, YieldOp
from wia_compiler.dialects.tpu.meaning import round_to
from wia_compiler.dialects.tpu.ops import ActivateOp, VectorAddOp, VectorRoundOp


@dataclass(frozen=True)
class Tile:
    """A value of the body: what it is held in, and the dtype it must still be rounded to."""

    held: SSAValue | float
    rounding: str | None = None


@dataclass
class VectorBody:
    """Emits the instructions of one body.

    ``new_buffer(n)`` gives the n-th buffer for results and ``add(instruction, for_op)`` appends an
    instruction. A buffer is taken again once nothing behind needs its tile.
    """

    new_buffer: Callable[[int], SSAValue]
    add: Callable[[Operation, Operation], None]
    tiles: dict[SSAValue, Tile] = field(default_factory=dict[SSAValue, Tile])
    places: dict[Operation, int] = field(default_factory=dict[Operation, int])

    def run(self, block: Block, inputs: Sequence[SSAValue]) -> list[Tile]:
        """The tile of each value that the body yields, not yet rounded to its dtype."""
        self.places = {op: place for place, op in enumerate(block.ops)}
        for argument, buffer in zip(block.args, inputs, strict=True):
            self.tiles[argument] = Tile(buffer)
        for op in block.ops:
            if isinstance(op, YieldOp):
                return [self.tiles[value] for value in op.arguments]
            self.tiles[op.results[0]] = self._compute(op)
        raise ValueError("a body ends with tile.yield")

    def _compute(self, op: Operation) -> Tile:
        match op:
            case arith.ConstantOp():
                assert isinstance(op.value, FloatAttr)
                dtype = ELEMENTS[op.result.type]
                return Tile(float(op.value.value.data), None if dtype == "f32" else dtype)
            case arith.ExtFOp():
                return Tile(self._ready(op.input, op))
            case arith.TruncFOp():
                return Tile(self._ready(op.input, op), ELEMENTS[op.result.type])
            case arith.AddfOp():
                return self._add(op)
            case arith.MaximumfOp():
                source = relu_operand(op)
                assert source is not None
                return self._relu(op, source)
            case _:
                raise ValueError(f"{op.name} was not checked")

    def _add(self, op: arith.AddfOp) -> Tile:
        left, right = self._ready(op.lhs, op), self._ready(op.rhs, op)
        if not isinstance(left, SSAValue):
            left, right = right, left
        if not isinstance(left, SSAValue):
            assert not isinstance(right, SSAValue)
            return Tile(float(np.float32(left) + np.float32(right)))
        destination = self._take(self.places[op] + 1)
        self.add(VectorAddOp(destination, left, right), op)
        return Tile(destination)

    def _relu(self, op: Operation, source: SSAValue) -> Tile:
        value = self._ready(source, op)
        if not isinstance(value, SSAValue):
            return Tile(float(np.maximum(value, 0.0)))
        destination = self._take(self.places[op] + 1)
        self.add(ActivateOp("relu", destination, value), op)
        return Tile(destination)

    def _ready(self, value: SSAValue, user: Operation) -> SSAValue | float:
        """What holds a value with every rounding done; the instruction that rounds is added."""
        tile = self.tiles[value]
        if tile.rounding is None:
            return tile.held
        if not isinstance(tile.held, SSAValue):
            return float(round_to(np.full((1, 1), tile.held, np.float32), tile.rounding)[0, 0])
        owner = value.owner
        assert isinstance(owner, Operation)
        # The user still reads its other operands, so their buffers are not free.
        destination = self._take(self.places[user])
        self.add(VectorRoundOp(destination, tile.held, tile.rounding), owner)
        self.tiles[value] = Tile(destination)
        return destination

    def _take(self, place: int) -> SSAValue:
        """A buffer whose tile no op from ``place`` on reads."""
        number = 0
        while self._is_needed(buffer := self.new_buffer(number), place):
            number += 1
        return buffer

    def _is_needed(self, buffer: SSAValue, place: int) -> bool:
        return any(
            tile.held is buffer and any(self.places[use.operation] >= place for use in value.uses)
            for value, tile in self.tiles.items()
        )


def result_buffers(leaf: ComputeOp) -> int:
    """How many buffers the results of a leaf's vector instructions need at a time."""
    made: list[memref.AllocOp] = []
    emitted: list[Operation] = []

    def buffer(number: int) -> SSAValue:
        while len(made) <= number:
            made.append(memref.AllocOp([], [], MemRefType(Float32Type(), [1, 1])))
        return made[number].memref

    block = leaf.body.block
    VectorBody(buffer, lambda op, _: emitted.append(op)).run(block, block.args)
    for op in (*emitted, *made):
        op.erase()
    return len(made)
