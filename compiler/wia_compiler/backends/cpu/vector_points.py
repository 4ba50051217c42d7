"""Point code whose sums run across a vector: lanes are iterations of an independent loop.

LLVM vectorises innermost loops; the innermost loop of a matrix product as it is usually written
carries a sum, in order, and stays scalar. The loop around it is independent, and its neighbours
read neighbours: one vector holds the sums of many of its iterations, each in its own order.

::

    tile.for %j in 100 { %s = scf.for %k … { %sum + A[i, k] * B[k, j] }; C[i, j] = %s }
      →  scf.for %j = 0 to 64 step 64 { the same with vector<64xf32> }   … 64 to 96 step 16 …
         scf.for %j = 96 to 100 step 1 { as it was }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, math, memref, scf, vector
from xdsl.dialects.builtin import (
    Float32Type,
    Float64Type,
    IndexType,
    IntegerAttr,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from wia_compiler.dialects import tile
from wia_compiler.passes.llvm.types import strides_of

_LANEWISE = (
    arith.AddfOp,
    arith.SubfOp,
    arith.MulfOp,
    arith.DivfOp,
    arith.NegfOp,
    arith.MaximumfOp,
    arith.MinimumfOp,
    math.AbsFOp,
    math.SqrtOp,
)
"""Ops that are the same on every lane of a vector."""
_VECTORS = 4
"""Vectors that one turn works on: their sums do not wait for each other."""


class _NotVectors(Exception):
    """A loop whose iterations cannot be the lanes of a vector."""


def lower_points_to_vectors(loop: tile.ForOp, vector_bytes: int) -> bool:
    """Replace a loop by vector code and a scalar rest, where that is what its body is; else leave
    it and give ``False``.

    Every op is done for the same lanes in the same order as before, so that each iteration rounds
    as it did. Its iterations are independent (``tile.for``), and its body branches nowhere.
    """
    extent = loop.extent.value.data
    sums = [op for op in loop.body.block.ops if isinstance(op, scf.ForOp) and op.results]
    if loop.step.value.data != 1 or not sums:
        return False
    kinds = {each.type for op in sums for each in op.results}
    if len(kinds) != 1:
        return False
    (kind,) = kinds
    if not isinstance(kind, Float32Type | Float64Type):
        return False
    lanes = vector_bytes // kind.size
    made: list[Operation] = []
    start = 0
    try:
        for width in (_VECTORS * lanes, lanes):
            stop = start + (extent - start) // width * width
            if stop > start:
                made += _vector_loop(loop, kind, start, stop, width)
            start = stop
    except _NotVectors:
        return False
    if not made:
        return False
    if start < extent:
        made += _scalar_loop(loop, start, extent)
    block = loop.parent
    assert block is not None
    block.insert_ops_before(made, loop)
    loop.detach()
    loop.erase()
    return True


def _loop(like: tile.ForOp, start: int, stop: int, step: int, body: Block) -> list[Operation]:
    """A loop with its bounds, for a part of the iterations of another."""
    body.add_op(scf.YieldOp())
    lower, upper, by = (
        arith.ConstantOp(IntegerAttr(each, IndexType())) for each in (start, stop, step)
    )
    loop = scf.ForOp(lower, upper, by, [], Region(body))
    made: list[Operation] = [lower, upper, by, loop]
    for op in (*made, body.last_op):
        if op is not None:
            op.location = like.location
    return made


def _scalar_loop(loop: tile.ForOp, start: int, stop: int) -> list[Operation]:
    body = Block(arg_types=[IndexType()])
    values: dict[SSAValue, SSAValue] = {loop.induction_variable: body.args[0]}
    for op in loop.body.block.ops:
        body.add_op(op.clone(values))
    return _loop(loop, start, stop, 1, body)


def _vector_loop(
    loop: tile.ForOp, kind: Attribute, start: int, stop: int, width: int
) -> list[Operation]:
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = loop.induction_variable.name_hint
    lanes = _Lanes(loop.induction_variable, body.args[0], VectorType(kind, [width]))
    lanes.block(loop.body.block, body)
    return _loop(loop, start, stop, width, body)


class _Lanes:
    """A body written anew: what differs between iterations of the loop is a vector."""

    def __init__(self, variable: SSAValue, first: SSAValue, type: VectorType[Attribute]):
        self.variable = variable
        self.type = type
        self.values: dict[SSAValue, SSAValue] = {variable: first}
        self.vectors: set[SSAValue] = set()

    def block(self, source: Block, body: Block) -> None:
        """Write the ops of a block of the loop at the end of another."""
        for op in source.ops:
            match op:
                case scf.ForOp():
                    self._loop(op, body)
                case memref.LoadOp():
                    self._load(op, body)
                case memref.StoreOp():
                    self._store(op, body)
                case scf.YieldOp():
                    pass
                case _:
                    self._scalar(op, body)

    def _differs(self, value: SSAValue) -> bool:
        return value is self.variable or value in self.vectors

    def _add(self, op: Operation, like: Operation, body: Block) -> None:
        op.location = like.location
        body.add_op(op)

    def _same(self, op: Operation, body: Block) -> None:
        copy = op.clone(self.values)
        self._add(copy, op, body)

    def _vector(self, value: SSAValue, like: Operation, body: Block) -> SSAValue:
        """A value in every lane."""
        made = self.values.get(value, value)
        if value in self.vectors:
            return made
        if value.type != self.type.element_type:
            raise _NotVectors
        spread = vector.BroadcastOp(made, self.type)
        self._add(spread, like, body)
        return spread.results[0]

    def _scalar(self, op: Operation, body: Block) -> None:
        if op.regions:
            raise _NotVectors
        if not any(self._differs(each) for each in op.operands):
            self._same(op, body)
            return
        if isinstance(op, arith.IndexCastOp) and not op.result.uses.get_length():
            return
        if not isinstance(op, _LANEWISE):
            raise _NotVectors
        operands = [self._vector(each, op, body) for each in op.operands]
        made = op.create(
            operands=operands,
            result_types=[self.type],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
        )
        self._define(op.results[0], made.results[0])
        self._add(made, op, body)

    def _define(self, value: SSAValue, made: SSAValue) -> None:
        self.values[value] = made
        self.vectors.add(value)
        made.name_hint = value.name_hint

    def _runs_along(self, array: SSAValue, indices: Sequence[SSAValue]) -> bool:
        """Whether neighbouring iterations access neighbours; the same place is ``False``."""
        if not any(self._differs(each) for each in indices):
            return False
        type_ = cast("MemRefType[Attribute]", array.type)
        if strides_of(type_)[-1] != 1:
            raise _NotVectors
        if indices[-1] is not self.variable or any(self._differs(each) for each in indices[:-1]):
            raise _NotVectors
        if type_.element_type != self.type.element_type:
            raise _NotVectors
        return True

    def _load(self, op: memref.LoadOp, body: Block) -> None:
        if not self._runs_along(op.memref, op.indices):
            self._same(op, body)
            return
        indices = [self.values.get(each, each) for each in op.indices]
        made = vector.LoadOp(op.memref, indices, self.type)
        self._define(op.res, made.results[0])
        self._add(made, op, body)

    def _store(self, op: memref.StoreOp, body: Block) -> None:
        if not self._runs_along(op.memref, op.indices):
            raise _NotVectors
        indices = [self.values.get(each, each) for each in op.indices]
        value = self._vector(op.value, op, body)
        self._add(vector.StoreOp(value, op.memref, indices), op, body)

    def _loop(self, op: scf.ForOp, body: Block) -> None:
        if any(self._differs(each) for each in (op.lb, op.ub, op.step)):
            raise _NotVectors
        if any(each.type != self.type.element_type for each in op.iter_args):
            raise _NotVectors
        starts = [self._vector(each, op, body) for each in op.iter_args]
        inside = Block(arg_types=[IndexType(), *(self.type for _ in starts)])
        variable, *carried = op.body.block.args
        self.values[variable] = inside.args[0]
        for value, made in zip(carried, inside.args[1:], strict=True):
            self._define(value, made)
        self.block(op.body.block, inside)
        last = op.body.block.last_op
        assert last is not None
        yielded = [self._vector(each, last, inside) for each in last.operands]
        self._add(scf.YieldOp(*yielded), last, inside)
        bounds = [self.values.get(each, each) for each in (op.lb, op.ub, op.step)]
        loop = scf.ForOp(bounds[0], bounds[1], bounds[2], starts, Region(inside))
        loop.attributes = dict(op.attributes)
        for value, made in zip(op.results, loop.results, strict=True):
            self._define(value, made)
        self._add(loop, op, body)
