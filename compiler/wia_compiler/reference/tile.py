"""Runs a whole mid-level module on numpy: host function and nests, before or after scheduling.

An oracle, not a fast path. It refuses what a target may not do either: reading memory that nothing
wrote, reading or writing outside a memref, writing one element twice in one leaf, an undefined
conversion or division. Loops other than those over ``reduce`` axes are taken all at once: their
iterations must not depend on each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from xdsl.dialects import cf, func, memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, StridedLayoutAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from wia_compiler.reference.rounding import Array
from wia_compiler.reference.scalar_ops import numpy_type
from wia_compiler.reference.tile_leaf import Memory, TileError
from wia_compiler.reference.tile_nest import allocate, run_nest


def run_tile_module(module: ModuleOp, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Run the host function of a mid-level module; outputs are written in place.

    ``inputs`` and ``outputs`` have the shapes and strides of its parameters; unsigned and signed
    bytes are both ``i8`` there.
    """
    with np.errstate(all="ignore"):  # inf - inf is NaN, not a fault
        _Host(module).run(inputs, outputs, counted=False)


def count_reads(module: ModuleOp, inputs: Sequence[Array], outputs: Sequence[Array]) -> list[Array]:
    """Run a module, and how often each element of each input was read from main memory.

    An element that a leaf needs for several of its points (a row of a matrix product's tile) is
    read once for them. Inputs are in C order.
    """
    with np.errstate(all="ignore"):
        return _Host(module).run(inputs, outputs, counted=True)


class _Host:
    """One run of a module: its host function walks its blocks and calls nests."""

    def __init__(self, module: ModuleOp):
        self.functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
        (self.host,) = (op for op in self.functions.values() if "wia.host" in op.attributes)
        self.values: dict[SSAValue, Memory] = {}
        self.conditions: dict[SSAValue, bool] = {}

    def run(
        self, inputs: Sequence[Array], outputs: Sequence[Array], *, counted: bool
    ) -> list[Array]:
        """Run the host function; the counters of the inputs, none where nothing is counted."""
        arguments = self.host.body.blocks[0].args
        arrays = (*inputs, *outputs)
        counters: list[Array] = []
        for number, (argument, array) in enumerate(zip(arguments, arrays, strict=True)):
            is_input = number < len(inputs)
            memory = _memory_of(array, cast("MemRefType[Attribute]", argument.type), is_input)
            if counted and is_input:
                if not array.flags.c_contiguous:
                    raise TileError("reads are counted of inputs in C order")
                counters.append(np.zeros(array.shape, np.int64))
                memory = replace(memory, reads=counters[-1])
            self.values[argument] = memory
        block: Block | None = self.host.body.blocks[0]
        while block is not None:
            block = self._block(block)
        for number, argument in enumerate(arguments[len(inputs) :]):
            if not self.values[argument].written.all():
                raise TileError(f"output {number} is not written everywhere")
        return counters

    def _block(self, block: Block) -> Block | None:
        """Run a block; the one that follows."""
        for op in block.ops:
            match op:
                case cf.BranchOp():
                    return op.successor
                case cf.ConditionalBranchOp():
                    return op.then_block if self.conditions[op.cond] else op.else_block
                case func.ReturnOp():
                    return None
                case _:
                    self._op(op)
        raise TileError("a block of a host function ends with a branch or func.return")

    def _op(self, op: Operation) -> None:
        values = self.values
        match op:
            case memref.AllocOp():
                values[op.memref] = allocate(op.memref.type, ())
            case memref.ReinterpretCastOp():
                values[op.result] = _reinterpreted(values[op.source], op)
            case memref.LoadOp():
                memory = values[op.memref]
                if not memory.written.all():
                    raise TileError("a condition is read before it is written")
                self.conditions[op.res] = bool(memory.data[()])
            case func.CallOp():
                nest = self.functions[op.callee.string_value()]
                run_nest(nest, [values[operand] for operand in op.operands])
            case _:
                raise TileError(f"a host function cannot hold {op.name}")


def _memory_of(array: Array, type: MemRefType[Attribute], written: bool) -> Memory:
    dtype = numpy_type(type.element_type)
    if array.dtype != dtype:
        array = array.view(dtype)
    wanted = tuple(stride * dtype.itemsize for stride in _strides(type))
    differs = any(n > 1 and a != b for n, a, b in zip(array.shape, array.strides, wanted))  # noqa: B905
    if array.shape != type.get_shape() or (array.size and differs):
        raise TileError(f"{array.shape} with strides {array.strides} is not {type}")
    flags = np.full(array.shape, written)
    return Memory(array, flags, 0)


def _strides(type: MemRefType[Attribute]) -> tuple[int, ...]:
    if isinstance(type.layout, StridedLayoutAttr):
        strides = type.layout.get_strides()
        return tuple(cast("Sequence[int]", strides))
    step, strides = 1, list[int]()
    for size in reversed(type.get_shape()):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _reinterpreted(memory: Memory, op: memref.ReinterpretCastOp) -> Memory:
    sizes = [int(size) for size in op.static_sizes.get_values()]
    strides = [int(stride) for stride in op.static_strides.get_values()]
    if any(op.static_offsets.get_values()):
        raise TileError("a host function reinterprets memory from its first element")

    def seen(array: Array) -> Array:
        steps = [stride * array.itemsize for stride in strides]
        return np.lib.stride_tricks.as_strided(array, sizes, steps)

    # Flags of an input are not laid out as its elements are; they are all set.
    flags = np.ones(sizes, np.bool_) if memory.written.all() else seen(memory.written)
    reads = None if memory.reads is None else seen(memory.reads)
    return Memory(seen(memory.data), flags, 0, reads)
