"""Runs lowered kernels on numpy, one block at a time, all threads of a block in step.

What it catches, beside wrong numbers: a shared element that one thread writes and another touches
with no barrier between (race), a barrier or shuffle that some threads do not reach, an element read
before it was written, an index outside its buffer, two blocks or threads that write one element of
global memory differently ordered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from unit import gpu_matrix_ops
from wia_compiler.dialects.gpu_memory import is_workgroup
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

Array = np.ndarray[Any, Any]
WARP = 32


class KernelFault(AssertionError):
    """Something a kernel must not do."""


def dtype_of(attribute: Attribute) -> np.dtype[Any]:
    match attribute:
        case Float64Type():
            return np.dtype(np.float64)
        case Float32Type():
            return np.dtype(np.float32)
        case Float16Type():
            return np.dtype(np.float16)
        case BFloat16Type():
            return np.dtype(ml_dtypes.bfloat16)
        case IndexType():
            return np.dtype(np.int64)
        case IntegerType():
            width = attribute.width.data
            return np.dtype(np.bool_) if width == 1 else np.dtype(f"int{width}")
        case _:
            raise TypeError(str(attribute))


class Buffer:
    """Global memory: an array and which of its elements hold a value."""

    def __init__(self, array: Array, *, written: bool = True):
        self.shape = array.shape
        self.array = array.reshape(array.shape or (1,))
        self.valid = np.full(self.array.shape, written)
        self.writer = np.full(self.array.shape, -1, np.int64)

    def view(self, shape: Sequence[int], strides: Sequence[int]) -> Buffer:
        """The same memory under another shape and strides (in elements)."""
        made = Buffer.__new__(Buffer)
        made.shape = tuple(shape)
        for name in ("array", "valid", "writer"):
            own = getattr(self, name)
            steps = tuple(stride * own.itemsize for stride in strides)
            seen = np.lib.stride_tricks.as_strided(own, tuple(shape), steps)
            setattr(made, name, seen.reshape(made.shape or (1,)))
        return made


class Shared:
    """Shared memory of one block, with who touched an element since the last barrier."""

    def __init__(self, shape: Sequence[int], dtype: np.dtype[Any]):
        self.array = np.zeros(shape or (1,), dtype)
        self.valid = np.zeros(shape or (1,), bool)
        self.reset()

    def reset(self) -> None:
        shape = self.array.shape
        self.writer = np.full(shape, -1, np.int64)
        self.reader = np.full(shape, -1, np.int64)  # -2: several


class Private:
    """A buffer of which every thread has its own."""

    def __init__(self, threads: int, shape: Sequence[int], dtype: np.dtype[Any]):
        self.array = np.zeros((threads, *(shape or (1,))), dtype)
        self.valid = np.zeros((threads, *(shape or (1,))), bool)


def run_kernel(kernel: func.FuncOp, buffers: Sequence[Buffer]) -> None:
    """Run all blocks of a kernel; ``buffers`` stand for its arguments."""
    threads = kernel.attributes["wia.block_size"].value.data  # type: ignore[attr-defined]
    blocks = kernel.attributes["wia.grid_size"].value.data  # type: ignore[attr-defined]
    for block in range(blocks):
        _BlockRun(kernel, threads, block, blocks, buffers).run()


class _BlockRun:
    def __init__(
        self, kernel: func.FuncOp, threads: int, block: int, blocks: int, buffers: Sequence[Buffer]
    ):
        self.kernel, self.threads, self.block, self.blocks = kernel, threads, block, blocks
        self.values: dict[SSAValue, Any] = {}
        self.shared: list[Shared] = []
        self.lanes = np.arange(threads)
        for argument, buffer in zip(kernel.body.block.args, buffers, strict=True):
            assert tuple(argument.type.get_shape()) == buffer.shape, argument.type  # type: ignore[attr-defined]
            self.values[argument] = buffer

    def run(self) -> None:
        with np.errstate(all="ignore"):
            self.body(self.kernel.body.block, np.ones(self.threads, bool))

    def body(self, block: Block, active: Array) -> list[Any]:
        for op in block.ops:
            if isinstance(op, scf.YieldOp | scf.ConditionOp):
                return [self.values[value] for value in op.operands]
            if isinstance(op, func.ReturnOp):
                return []
            self.step(op, active)
        return []

    def step(self, op: Operation, active: Array) -> None:
        match op:
            case scf.IfOp():
                self.branch(op, active)
            case scf.ForOp():
                self.loop(op, active)
            case scf.WhileOp():
                self.repeat(op, active)
            case memref.LoadOp():
                self.values[op.res] = self.load(op.memref, op.indices, active)
            case memref.StoreOp():
                self.store(self.values[op.value], op.memref, op.indices, active)
            case memref.AtomicRMWOp():
                added = self.values[op.value]
                self.values[op.result] = self.add_atomically(added, op.memref, op.indices, active)
            case memref.AllocOp() | memref.AllocaOp():
                self.allocate(op)
            case arith.ConstantOp():
                self.values[op.result] = self.constant(op.value, op.result.type)
            case Operation(name="gpu.thread_id"):
                self.values[op.results[0]] = self.lanes.astype(np.int64)
            case Operation(name="gpu.block_id"):
                self.values[op.results[0]] = np.full(self.threads, self.block, np.int64)
            case Operation(name="gpu.barrier"):
                self.barrier(active)
            case Operation(name="gpu.shuffle"):
                self.shuffle(op, active)
            case _ if gpu_matrix_ops.step(self, op, active):
                pass
            case _:
                arguments = [self.values[value] for value in op.operands]
                self.values[op.results[0]] = scalar(op, arguments)

    def constant(self, attribute: Attribute, type: Attribute) -> Array:
        assert isinstance(attribute, IntegerAttr | FloatAttr)
        return np.full(self.threads, attribute.value.data, dtype_of(type))

    def branch(self, op: scf.IfOp, active: Array) -> None:
        condition = self.values[op.cond]
        sides = (active & condition, active & ~condition)
        regions = (op.true_region, op.false_region)
        results: list[list[Any]] = []
        for side, region in zip(sides, regions, strict=True):
            # A side nobody takes still gives its (unused) values.
            results.append(self.body(region.block, side) if region.blocks else [])
        for number, result in enumerate(op.results):
            taken, other = results[0][number], results[1][number]
            self.values[result] = np.where(condition, taken, other).astype(taken.dtype)

    def loop(self, op: scf.ForOp, active: Array) -> None:
        low, high, step = (self.values[value] for value in (op.lb, op.ub, op.step))
        position = low.copy()
        carried = [self.values[value] for value in op.iter_args]
        while True:
            running = active & (position < high)
            if not running.any():
                break
            block = op.body.block
            self.values[block.args[0]] = position
            for argument, value in zip(block.args[1:], carried, strict=True):
                self.values[argument] = value
            made = self.body(block, running)
            carried = [
                np.where(running, new, old).astype(new.dtype)
                for new, old in zip(made, carried, strict=True)
            ]
            position = position + step
        for result, value in zip(op.results, carried, strict=True):
            self.values[result] = value

    def repeat(self, op: scf.WhileOp, active: Array) -> None:
        """Threads whose condition no longer holds wait, with the values they left with."""
        carried = [self.values[value] for value in op.arguments]
        running, left = active, [np.zeros(0)] * len(op.results)
        for turn in itertools.count():
            self.values.update(zip(op.before_region.block.args, carried, strict=True))
            condition, *passed = self.body(op.before_region.block, running)
            left = [
                new if turn == 0 else np.where(running, new, old).astype(new.dtype)
                for new, old in zip(passed, left, strict=True)
            ]
            running = running & condition
            if not running.any():
                break
            self.values.update(zip(op.after_region.block.args, left, strict=True))
            made = self.body(op.after_region.block, running)
            carried = [
                np.where(running, new, old).astype(new.dtype)
                for new, old in zip(made, carried, strict=True)
            ]
        self.values.update(zip(op.results, left, strict=True))

    def allocate(self, op: memref.AllocOp | memref.AllocaOp) -> None:
        type = op.memref.type
        assert isinstance(type, MemRefType)
        shape, dtype = type.get_shape(), dtype_of(type.element_type)
        if is_workgroup(type):
            self.values[op.memref] = Shared(shape, dtype)
            self.shared.append(self.values[op.memref])
        else:
            self.values[op.memref] = Private(self.threads, shape, dtype)

    def allocate_view(self, value: SSAValue) -> None:
        """A part of a launch's shared memory."""
        type = value.type
        assert isinstance(type, MemRefType)
        self.values[value] = Shared(type.get_shape(), dtype_of(type.element_type))
        self.shared.append(self.values[value])

    def places(self, buffer: Any, indices: Sequence[SSAValue], active: Array) -> tuple[Any, ...]:
        positions = [self.values[index][active] for index in indices]
        if not positions:  # of rank 0, kept as one element
            positions = [np.zeros(active.sum(), np.int64)]
        shape = buffer.array.shape[1:] if isinstance(buffer, Private) else buffer.array.shape
        for axis, (position, size) in enumerate(zip(positions, shape, strict=True)):
            outside = (position < 0) | (position >= size)
            if outside.any():
                raise KernelFault(
                    f"block {self.block}: index {position[outside][0]} on axis {axis} of {shape}"
                )
        if isinstance(buffer, Private):
            return (self.lanes[active], *positions)
        return tuple(positions)

    def load(self, source: SSAValue, indices: Sequence[SSAValue], active: Array) -> Array:
        buffer = self.values[source]
        result = np.zeros(self.threads, buffer.array.dtype)
        if not active.any():
            return result
        places = self.places(buffer, indices, active)
        if not buffer.valid[places].all():
            raise KernelFault(f"block {self.block} reads {source.type} where nothing was written")
        if isinstance(buffer, Shared):
            self.note_reads(buffer, places, self.lanes[active])
        result[active] = buffer.array[places]
        return result

    def note_reads(self, buffer: Shared, places: tuple[Any, ...], threads: Array) -> None:
        flat = np.ravel_multi_index(places, buffer.array.shape)
        writer, reader = buffer.writer.reshape(-1), buffer.reader.reshape(-1)
        foreign = (writer[flat] >= 0) & (writer[flat] != threads)
        if foreign.any():
            raise KernelFault(
                f"race: thread {threads[foreign][0]} reads a shared element that thread "
                f"{writer[flat][foreign][0]} wrote, with no barrier between"
            )
        several = (reader[flat] != -1) & (reader[flat] != threads)
        first = ~several
        reader[flat[first]] = threads[first]
        # Threads that read one element in this very step are several, too.
        unique, counts = np.unique(flat, return_counts=True)
        reader[unique[counts > 1]] = -2
        reader[flat[several]] = -2

    def store(
        self, value: Array, target: SSAValue, indices: Sequence[SSAValue], active: Array
    ) -> None:
        if not active.any():
            return
        buffer = self.values[target]
        places = self.places(buffer, indices, active)
        threads = self.lanes[active]
        if not isinstance(buffer, Private):
            flat = np.ravel_multi_index(places, buffer.array.shape)
            if len(np.unique(flat)) != len(flat):
                raise KernelFault(f"race: two threads write one element of {target.type} at once")
            if isinstance(buffer, Shared):
                self.note_writes(buffer, flat, threads)
            else:
                self.note_global_writes(buffer, flat, threads)
        buffer.array[places] = value[active]
        buffer.valid[places] = True

    def add_atomically(
        self, value: Array, target: SSAValue, indices: Sequence[SSAValue], active: Array
    ) -> Array:
        """One thread after the other, in their order; what each of them found."""
        buffer = self.values[target]
        found = np.zeros(self.threads, buffer.array.dtype)
        for place, thread in zip(
            zip(*self.places(buffer, indices, active), strict=True), self.lanes[active], strict=True
        ):
            found[thread] = buffer.array[place]
            buffer.array[place] += value[thread]
        return found

    def note_writes(self, buffer: Shared, flat: Array, threads: Array) -> None:
        writer, reader = buffer.writer.reshape(-1), buffer.reader.reshape(-1)
        for who, what in ((writer, "wrote"), (reader, "read")):
            foreign = (who[flat] != -1) & (who[flat] != threads)
            if foreign.any():
                raise KernelFault(
                    f"race: thread {threads[foreign][0]} writes a shared element that thread "
                    f"{who[flat][foreign][0]} {what}, with no barrier between"
                )
        writer[flat] = threads

    def note_global_writes(self, buffer: Buffer, flat: Array, threads: Array) -> None:
        writer = buffer.writer.reshape(-1)
        me = self.block * self.threads + threads
        foreign = (writer[flat] != -1) & (writer[flat] != me)
        if foreign.any():
            raise KernelFault("race: two threads write one element of global memory")
        writer[flat] = me

    def barrier(self, active: Array) -> None:
        if not active.any():
            return  # a side of a branch that nobody takes
        if not active.all():
            raise KernelFault(f"a barrier that {(~active).sum()} threads do not reach")
        for buffer in self.shared:
            buffer.reset()

    def shuffle(self, op: Operation, active: Array) -> None:
        value, offset = self.values[op.operands[0]], self.values[op.operands[1]]
        mode = op.properties["mode"].data  # type: ignore[attr-defined]
        assert mode == "xor", mode
        source = self.lanes ^ offset
        # Every warp that gets here must be whole: the member mask names all 32 lanes.
        warps = np.add.reduceat(active, range(0, self.threads, WARP))
        if ((warps != 0) & (warps != WARP)).any():
            raise KernelFault("a shuffle that some lanes of a warp do not reach")
        assert (source // WARP == self.lanes // WARP).all()
        self.values[op.results[0]] = value[source]
        self.values[op.results[1]] = np.ones(self.threads, bool)


def unsigned(value: Array) -> Array:
    return value.view(np.dtype(f"u{value.dtype}")) if value.dtype.kind == "i" else value


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "math.powf": np.power,
    "math.copysign": np.copysign,
}
_UNSIGNED: dict[str, Callable[[Any, Any], Any]] = {
    "arith.maxui": np.maximum,
    "arith.minui": np.minimum,
    "arith.divui": lambda a, b: a // b,
    "arith.remui": lambda a, b: a % b,
    "arith.shrui": np.right_shift,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "arith.negf": np.negative,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.log": np.log,
    "math.log2": np.log2,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.tanh": np.tanh,
    "math.erf": lambda x: np.array([math.erf(v) for v in x], x.dtype),
    "math.absf": np.abs,
    "math.absi": np.abs,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_CMPF = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
    "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip


def scalar(op: Operation, arguments: Sequence[Array]) -> Array:
    """The result of a scalar op for every thread."""
    type = dtype_of(op.results[0].type)
    name = op.name
    if name in _BINARY:
        return _BINARY[name](*arguments).astype(type)
    if name in _UNSIGNED:
        a, b = (unsigned(each) for each in arguments)
        if name in ("arith.divui", "arith.remui"):
            b = np.where(b == 0, 1, b).astype(b.dtype)  # lanes that are not running
        return _UNSIGNED[name](a, b).astype(b.dtype).view(type)
    if name in _UNARY:
        return _UNARY[name](arguments[0]).astype(type)
    match op:
        case arith.SelectOp():
            return np.where(*arguments).astype(type)
        case arith.CmpiOp():
            return _compare(_CMPI[op.predicate.value.data], arguments)
        case arith.CmpfOp():
            return _compare_float(_CMPF[op.predicate.value.data], arguments)
        case arith.DivSIOp() | arith.RemSIOp():
            return _divide(op, arguments).astype(type)
        case arith.BitcastOp():
            return arguments[0].view(type)
        case arith.ExtUIOp() | arith.UIToFPOp() | arith.FPToUIOp():
            return unsigned(arguments[0]).astype(type)
        case _ if name == "math.fma":
            return _fma(*arguments)
        case _ if name in _CASTS:
            return arguments[0].astype(type)
        case _:
            raise NotImplementedError(name)


_CASTS = {
    "arith.extf", "arith.truncf", "arith.extsi", "arith.trunci", "arith.sitofp", "arith.fptosi",
    "arith.index_cast", "arith.index_castui",
}  # fmt: skip


def _fma(a: Array, b: Array, c: Array) -> Array:
    if a.dtype == np.float64:
        return a * b + c
    return (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(a.dtype)


def _divide(op: Operation, arguments: Sequence[Array]) -> Array:
    a, b = arguments
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    quotient = (np.abs(a) // np.abs(safe)) * np.sign(a) * np.sign(safe)
    quotient = np.where(safe == -1, -a, quotient)
    return quotient if isinstance(op, arith.DivSIOp) else a - quotient * safe


def _compare(predicate: str, arguments: Sequence[Array]) -> Array:
    a, b = arguments
    if predicate in ("eq", "ne"):
        return _COMPARISONS[predicate](a, b)
    if predicate[0] == "u":
        a, b = unsigned(a), unsigned(b)
    return _COMPARISONS[predicate[1:]](a, b)


def _compare_float(predicate: str, arguments: Sequence[Array]) -> Array:
    a, b = arguments
    unordered = np.isnan(a) | np.isnan(b)
    match predicate:
        case "ord":
            return ~unordered
        case "uno":
            return unordered
        case "true" | "false":
            return np.full(a.shape, predicate == "true")
        case _:
            plain = _COMPARISONS[predicate[1:]](a, b)
            return plain | unordered if predicate[0] == "u" else plain & ~unordered
