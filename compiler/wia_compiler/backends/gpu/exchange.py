"""Folding the partial results of a warp or a block, the same way on every run."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    MemRefType,
    StringAttr,
    i16,
    i32,
    i64,
)
from xdsl.dialects.gpu import BarrierOp
from xdsl.ir import SSAValue

from wia_compiler.backends.gpu.architecture import WARP_SIZE
from wia_compiler.backends.gpu.builder import Builder
from wia_compiler.backends.gpu.index import Index
from wia_compiler.dialects.gpu_shuffle import ShuffleMode, ShuffleOp

Combine = Callable[[SSAValue, SSAValue], SSAValue]


def fold_warp(
    builder: Builder, value: SSAValue, combine: Combine, lanes: int = WARP_SIZE
) -> SSAValue:
    """Every lane's share of ``lanes`` neighbours folded; all of them get the same bits.

    A butterfly: at each of log2(lanes) steps a lane joins its value with that of the lane whose
    number differs in one bit. Both compute the same pair, so sums agree bit by bit.
    """
    distance = lanes // 2
    while distance:
        value = combine(value, exchange(builder, value, distance))
        distance //= 2
    return value


def exchange(builder: Builder, value: SSAValue, distance: int) -> SSAValue:
    """The value of lane ``lane ^ distance``, of any scalar type."""
    return _moved(builder, value, ("xor", distance))


def lane_before(builder: Builder, value: SSAValue, distance: int) -> SSAValue:
    """The value of lane ``lane - distance``; the lane's own where there is none."""
    return _moved(builder, value, ("up", distance))


_Move = tuple[ShuffleMode, int]


def _moved(builder: Builder, value: SSAValue, distance: _Move) -> SSAValue:
    match value.type:
        case Float32Type():
            return _shuffle(builder, value, distance)
        case Float64Type():
            bits = builder.add(arith.BitcastOp(value, i64)).result
            return builder.add(arith.BitcastOp(_wide(builder, bits, distance), value.type)).result
        case Float16Type() | BFloat16Type():
            bits = builder.add(arith.BitcastOp(value, i16)).result
            return builder.add(arith.BitcastOp(_narrow(builder, bits, distance), value.type)).result
        case IntegerType() if value.type.width.data == 32:
            return _shuffle(builder, value, distance)
        case IntegerType() if value.type.width.data == 64:
            return _wide(builder, value, distance)
        case _:
            return _narrow(builder, value, distance)


def _shuffle(builder: Builder, value: SSAValue, distance: _Move) -> SSAValue:
    mode, lanes = distance
    by, width = builder.number(lanes, i32), builder.number(WARP_SIZE, i32)
    return builder.add(ShuffleOp(mode, value, by, width)).result


def _narrow(builder: Builder, value: SSAValue, distance: _Move) -> SSAValue:
    widened = builder.add(arith.ExtUIOp(value, i32)).result
    moved = _shuffle(builder, widened, distance)
    narrow = cast(IntegerType, value.type)
    return builder.add(arith.TruncIOp(moved, narrow)).result


def _wide(builder: Builder, value: SSAValue, distance: _Move) -> SSAValue:
    half = builder.number(32, i64)
    low = builder.add(arith.TruncIOp(value, i32)).result
    upper = builder.add(arith.ShRUIOp(value, half)).result
    high = builder.add(arith.TruncIOp(upper, i32)).result
    low, high = (_shuffle(builder, part, distance) for part in (low, high))
    low64, high64 = (builder.add(arith.ExtUIOp(part, i64)).result for part in (low, high))
    shifted = builder.add(arith.ShLIOp(high64, half)).result
    return builder.add(arith.OrIOp(shifted, low64)).result


class BlockFold:
    """Folds of a whole block: butterflies in each warp, shared memory across, butterflies again.

    ``put`` every partial result, then one ``barrier``, then ``take`` each total: all get it. The
    number of warps is a power of two, so that a lane may read slot ``lane % warps`` and the
    last butterfly needs log2(warps) steps.
    """

    def __init__(self, builder: Builder, thread: Index, threads: int):
        warps = threads // WARP_SIZE
        if threads % WARP_SIZE or warps & (warps - 1):
            raise AssertionError(f"a block that folds has 32 · 2^n threads, not {threads}")
        self._builder = builder
        self._thread = thread
        self._warps = warps
        self._scratch: list[SSAValue] = []

    def put(self, value: SSAValue, combine: Combine) -> None:
        """Fold one value over its warp and leave the result for the others."""
        builder = self._builder
        value = fold_warp(builder, value, combine)
        space = MemRefType(value.type, [self._warps], memory_space=StringAttr("shared"))
        scratch = builder.at_entry(memref.AllocOp([], [], space)).memref
        self._scratch.append(scratch)
        lane, warp = self._thread.modulo(WARP_SIZE), self._thread.floor_divide(WARP_SIZE)
        builder.when(builder.within(lane, 1), lambda: builder.store(value, scratch, [warp]))

    def barrier(self) -> None:
        """Wait until every warp has left its result."""
        self._builder.add(BarrierOp())

    def take(self, number: int, combine: Combine) -> SSAValue:
        """The total of the ``number``-th value that was put."""
        lane = self._thread.modulo(self._warps)
        value = self._builder.load(self._scratch[number], [lane])
        return fold_warp(self._builder, value, combine, self._warps)
