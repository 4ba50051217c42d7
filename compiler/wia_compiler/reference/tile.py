"""Runs a whole mid-level module on numpy: host function and nests, before or after scheduling.

An oracle, not a fast path. It refuses what a target may not do either: reading memory that nothing
wrote, reading or writing outside a memref, writing one element twice in one leaf, an undefined
conversion or division. Loops other than those over ``reduce`` axes are taken all at once: their
iterations must not depend on each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, StridedLayoutAttr
from xdsl.ir import Attribute, Block, SSAValue

from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.reference.rounding import Array
from wia_compiler.reference.scalar_ops import numpy_type
from wia_compiler.reference.tile_leaf import Memory, TileError, run_leaf

_LARGEST_BATCH = 1 << 21
"""Points of a leaf that are evaluated at once; above it, the outermost loops run one by one."""


def run_tile_module(module: ModuleOp, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Run the host function of a mid-level module; outputs are written in place.

    ``inputs`` and ``outputs`` have the shapes and strides of its parameters; unsigned and signed
    bytes are both ``i8`` there.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
    (host,) = (op for op in functions.values() if "wia.host" in op.attributes)
    values: dict[SSAValue, Memory] = {}
    arguments = host.body.block.args
    written = [True] * len(inputs) + [False] * len(outputs)
    for argument, array, known in zip(arguments, (*inputs, *outputs), written, strict=True):
        values[argument] = _memory_of(array, cast("MemRefType[Attribute]", argument.type), known)
    for op in host.body.block.ops:
        match op:
            case memref.AllocOp():
                values[op.memref] = allocate(op.memref.type, ())
            case memref.ReinterpretCastOp():
                values[op.result] = _reinterpreted(values[op.source], op)
            case func.CallOp():
                nest = functions[op.callee.string_value()]
                run_nest(nest, [values[operand] for operand in op.operands])
            case func.ReturnOp():
                break
            case _:
                raise TileError(f"a host function cannot hold {op.name}")
    for number, argument in enumerate(arguments[len(inputs) :]):
        if not values[argument].written.all():
            raise TileError(f"output {number} is not written everywhere")


def run_nest(nest: func.FuncOp, arguments: Sequence[Memory]) -> None:
    """Run one nest function on memory."""
    block = nest.body.block
    values: dict[SSAValue, Memory] = dict(zip(block.args, arguments, strict=True))
    _Nest(values).run(block, (), {})


def allocate(type: MemRefType[Attribute], batch: tuple[int, ...]) -> Memory:
    """Unwritten memory, one for each point of the loops around it that are taken at once."""
    shape = (*batch, *type.get_shape())
    data = np.zeros(shape, numpy_type(type.element_type))
    return Memory(data, np.zeros(shape, np.bool_), len(batch))


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
    return Memory(seen(memory.data), flags, 0)


@dataclass
class _Nest:
    """Loops of one call. ``batch`` is the shape of the loops taken at once, outermost first."""

    values: dict[SSAValue, Memory]

    def run(
        self, block: Block, batch: tuple[int, ...], ivs: dict[SSAValue, tuple[int | None, Any]]
    ) -> None:
        """Run a block; an induction variable is a number, or the place of its loop in ``batch``."""
        for op in block.ops:
            match op:
                case ForOp():
                    self._loop(op, batch, ivs)
                case memref.AllocOp():
                    self.values[op.memref] = allocate(op.memref.type, batch)
                case ComputeOp():
                    run_leaf(op, self.values, batch, [_spread(ivs[iv], batch) for iv in op.ivs])
                case func.ReturnOp():
                    return
                case _:
                    raise TileError(f"a nest cannot hold {op.name}")

    def _loop(
        self, op: ForOp, batch: tuple[int, ...], ivs: dict[SSAValue, tuple[int | None, Any]]
    ) -> None:
        steps = np.arange(op.trip_count) * op.step.value.data
        block = op.body.block
        points = int(np.prod([*batch, op.trip_count])) * _points_inside(op)
        if _is_folded(op) or points > _LARGEST_BATCH:
            for step in steps:
                self.run(block, batch, {**ivs, op.induction_variable: (None, int(step))})
        elif op.trip_count:
            inside = {**ivs, op.induction_variable: (len(batch), steps)}
            self.run(block, (*batch, op.trip_count), inside)


def _spread(iv: tuple[int | None, Any], batch: tuple[int, ...]) -> Any:
    """An induction variable's values along its own loop of the batch."""
    place, values = iv
    if place is None:
        return values
    return values.reshape([-1 if n == place else 1 for n in range(len(batch))])


def _is_folded(loop: ForOp) -> bool:
    """Whether a loop walks an axis that a leaf inside it folds."""
    axis = loop.axis.data.partition(".")[0]
    return any(
        isinstance(op, ComputeOp) and axis in {name.data for name in op.reduce_axes}
        for op in loop.walk()
    )


def _points_inside(loop: ForOp) -> int:
    """The most points that one leaf visits in one iteration of a loop."""
    most = 1
    for op in loop.body.block.ops:
        if isinstance(op, ComputeOp):
            most = max(most, int(np.prod(op.sizes)))
        elif isinstance(op, ForOp):
            most = max(most, op.trip_count * _points_inside(op))
    return most
