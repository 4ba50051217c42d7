"""Where one nest hands an array to another: the calls of the host, and taking one away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import FunctionType, MemRefType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineSymExpr

from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.dialects.tile_points import holds_point_code
from wia_compiler.passes.affine import linear_form
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    axis_of,
    leaves_of,
    loops_around,
)

NEST = "wia.nest"
"""Attribute of a function that holds one nest."""


@dataclass(frozen=True)
class Handover:
    """The host's calls of the nest that computes an array and of the one that reads it.

    ``fills`` are calls before that fill the array, all of which the producer then writes, with
    the views of it that they take.
    """

    producer: FuncOp
    call: CallOp
    reading: CallOp
    array: SSAValue
    fills: tuple[Operation, ...] = ()

    @property
    def written(self) -> int:
        """The number of the producer's parameter that is the array."""
        return list(self.call.operands).index(self.array)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the array."""
        return tuple(cast("MemRefType[Attribute]", self.array.type).get_shape())


def handover_of(consumer: FuncOp, parameter: SSAValue, name: str) -> Handover:
    """Which nest computes an array for another; ``IllegalRewrite`` where it must stay."""
    module = consumer.parent_op()
    assert isinstance(module, ModuleOp) and isinstance(parameter, BlockArgument)
    nests = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    calls = [op for op in module.walk() if isinstance(op, CallOp)]
    own = [op for op in calls if op.callee.string_value() == consumer.sym_name.data]
    if len(own) != 1:
        times = f"{len(own)} times, on different arrays"
        raise IllegalRewrite(f"{consumer.sym_name.data} is called {times}")
    (reading,) = own
    array = reading.operands[parameter.index]
    if not isinstance(array.owner, memref.AllocOp):
        raise IllegalRewrite(f"{name} is an argument or a result of the kernel, or a view of one")
    users = {use.operation for use in array.uses}
    writers = [op for op in users if isinstance(op, CallOp) and array in _written(op, nests)]
    block = reading.parent
    assert block is not None
    in_order = [op for op in block.ops if op in writers]
    if not in_order:
        raise IllegalRewrite(f"{name} is computed on another branch of the kernel")
    call = cast(CallOp, in_order[-1])
    producer = nests[call.callee.string_value()]
    fills = _fills(users - {call, reading}, call, nests)
    if fills is None or (fills and not _writes_all(producer, call, array)):
        raise IllegalRewrite(f"{name} is written or read elsewhere in the kernel too")
    if holds_point_code(producer):
        raise IllegalRewrite(f"{name} is computed by loops over elements, not by leaves")
    if _written(call, nests) != {array}:
        raise IllegalRewrite(f"{producer.sym_name.data} computes more than {name}")
    _check_unchanged(call, reading, nests, name)
    return Handover(producer, call, reading, array, fills)


def _fills(
    users: set[Operation], call: CallOp, nests: dict[str, FuncOp]
) -> tuple[Operation, ...] | None:
    """The calls before another that only write to an array, and their views of it."""
    found: list[Operation] = []
    pending = list(users)
    while pending:
        op = pending.pop()
        if isinstance(op, memref.ReinterpretCastOp):
            pending += [use.operation for use in op.result.uses]
        elif (
            not isinstance(op, CallOp)
            or len(op.operands) != 1
            or not _is_before(op, call)
            or len(_written(op, nests)) != 1
            or _reads(nests[op.callee.string_value()])
        ):
            return None
        found.append(op)
    return tuple(sorted(found, key=lambda op: isinstance(op, memref.ReinterpretCastOp)))


def _is_before(op: Operation, other: Operation) -> bool:
    return op.parent is other.parent and op.is_before_in_block(other)


def _reads(nest: FuncOp) -> bool:
    """Whether a nest reads any memory but its own."""
    arguments = set(nest.body.block.args)
    loads = (op.memref for op in nest.walk() if isinstance(op, memref.LoadOp))
    inputs = (value for leaf in leaves_of(nest) for value in leaf.inputs)
    return holds_point_code(nest) or any(value in arguments for value in (*loads, *inputs))


def _writes_all(producer: FuncOp, call: CallOp, array: SSAValue) -> bool:
    """Whether one leaf writes every element of the array, wherever it runs."""
    output = producer.body.block.args[list(call.operands).index(array)]
    leaves = [leaf for leaf in leaves_of(producer) if output in leaf.outputs]
    if len(leaves) != 1 or leaves[0].folds or leaves[0].limit_values:
        return False
    (leaf,) = leaves
    shape = cast("MemRefType[Attribute]", output.type).get_shape()
    index = leaf.output_maps[list(leaf.outputs).index(output)]
    covered: set[str] = set()
    for result, size in zip(index.results, shape, strict=True):
        axis = walked_axis(leaf, result)
        if axis is None:
            if size != 1:
                return False
            continue
        around = [loop for loop in loops_around(leaf) if axis_of(loop) == axis]
        extent = (
            around[0].extent.value.data
            if around
            else dict(zip(leaf.axis_names, leaf.sizes, strict=True))[axis]
        )
        if axis in covered or extent != size:
            return False
        covered.add(axis)
    return True


def walked_axis(leaf: ComputeOp, result: AffineExpr) -> str | None:
    """The axis that an index is: the sum of its loops' variables and its points, from 0."""
    form = linear_form(result)
    names: set[str] = set()
    for atom, factor in form.terms.items():
        if factor != 1 or not isinstance(atom, AffineDimExpr | AffineSymExpr):
            return None
        if isinstance(atom, AffineDimExpr):
            names.add(leaf.axis_names[atom.position])
        else:
            owner = leaf.ivs[atom.position].owner
            loop = owner.parent_op() if isinstance(owner, Block) else None
            names.add(axis_of(loop) if isinstance(loop, ForOp) else "")
    return names.pop() if len(names) == 1 and not form.constant else None


def _check_unchanged(call: CallOp, reading: CallOp, nests: dict[str, FuncOp], name: str) -> None:
    """What the producer reads must be the same where the consumer runs, and while it does."""
    if call.parent is not reading.parent:
        raise IllegalRewrite(f"{name} is computed on another branch of the kernel")
    read = {_memory(value) for value in call.operands}
    op: Operation | None = call.next_op
    while op is not None:
        changed = (
            {_memory(value) for value in _written(op, nests)} if isinstance(op, CallOp) else ()
        )
        if read & set(changed):
            raise IllegalRewrite(f"what {name} is computed from is written before {name} is read")
        if op is reading:
            return
        op = op.next_op


def _memory(value: SSAValue) -> SSAValue:
    """The array that a value is, or is a view of."""
    while isinstance(value.owner, memref.ReinterpretCastOp):
        value = value.owner.source
    return value


def _written(call: CallOp, nests: dict[str, FuncOp]) -> set[SSAValue]:
    """What a call writes."""
    nest = nests[call.callee.string_value()]
    stored = {op.memref for op in nest.walk() if isinstance(op, memref.StoreOp)}
    stored |= {value for leaf in leaves_of(nest) for value in leaf.outputs}
    pairs = zip(call.operands, nest.body.block.args, strict=True)
    return {value for value, parameter in pairs if parameter in stored}


def take_over(
    handed: Handover, consumer: FuncOp, parameter: SSAValue, buffer: SSAValue
) -> list[Operation]:
    """The producer's ops on the consumer's parameters and a buffer for its array.

    The consumer takes what the producer read in the place of the array; the call of the producer,
    the array, and the producer where nothing else calls it, are gone.
    """
    assert isinstance(parameter, BlockArgument)
    block = consumer.body.block
    operands = list(handed.reading.operands)
    values: dict[SSAValue, SSAValue] = {}
    pairs = zip(handed.call.operands, handed.producer.body.block.args, strict=True)
    for value, own in pairs:
        if value is handed.array:
            values[own] = buffer
        elif value in operands:
            values[own] = block.args[operands.index(value)]
        else:
            place = parameter.index
            values[own] = block.insert_arg(own.type, place)
            values[own].name_hint = own.name_hint
            operands.insert(place, value)
    del operands[parameter.index]
    block.erase_arg(parameter)
    inputs = [argument.type for argument in block.args]
    consumer.function_type = FunctionType.from_lists(inputs, [])
    made: list[Operation] = []
    for op in handed.producer.body.block.ops:
        if not isinstance(op, ReturnOp):
            copied = op.clone(values)
            for new, old in zip(copied.walk(), op.walk(), strict=True):
                new.location = old.location
            made.append(copied)
    call = CallOp(consumer.sym_name.data, operands, [])
    call.location = handed.reading.location
    host = handed.reading.parent
    assert host is not None
    host.insert_op_before(call, handed.reading)
    for op in (handed.reading, handed.call, *handed.fills, handed.array.owner):
        assert isinstance(op, Operation)
        op.detach()
        op.erase()
    module = consumer.parent_op()
    assert isinstance(module, ModuleOp)
    called = {op.callee.string_value() for op in module.walk() if isinstance(op, CallOp)}
    for nest in list(module.ops):
        if (
            isinstance(nest, FuncOp)
            and NEST in nest.attributes
            and nest.sym_name.data not in called
        ):
            nest.detach()
            nest.erase()
    return made
