"""The body of a leaf on vectors: every scalar a vector, every op lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from wia_compiler.dialects.arith_lanes import LANEWISE, SelectLanesOp, compare
from wia_compiler.dialects.tile import ComputeOp, YieldOp
from wia_compiler.passes.emit_index import IndexEmitter
from wia_compiler.passes.emit_leaf import fold_permissions


def emit_vector_body(
    leaf: ComputeOp, emitter: IndexEmitter, arguments: Sequence[SSAValue], lanes: int
) -> list[SSAValue]:
    """What a leaf yields for vectors of ``lanes`` points; ``arguments`` are its body's, as vectors.

    Ops keep their locations and names; those that fold get the permissions of the numerics
    contract.
    """
    block = leaf.body.block
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, arguments, strict=True))
    flags = fold_permissions(leaf)
    for op in block.ops:
        if isinstance(op, YieldOp):
            return [values[value] for value in op.arguments]
        made = _on_lanes(op, [values[value] for value in op.operands], lanes)
        if op in flags:
            made.properties["fastmath"] = flags[op]
        made.location = op.location
        emitter.builder.insert(made)
        for old, new in zip(op.results, made.results, strict=True):
            values[old] = new
            new.name_hint = old.name_hint
    raise ValueError("a leaf's body ends with tile.yield")


def _on_lanes(op: Operation, operands: Sequence[SSAValue], lanes: int) -> Operation:
    types = [VectorType(result.type, [lanes]) for result in op.results]
    match op:
        case arith.ConstantOp():
            return splat(cast("Any", op.value).value.data, types[0])
        case arith.CmpfOp() | arith.CmpiOp():
            return compare(op, *operands)
        case arith.SelectOp():
            return SelectLanesOp(*operands)
        case _ if op.name in LANEWISE:
            return LANEWISE[op.name](operands[0], types[0])
        case _:
            return type(op).create(
                operands=operands,
                result_types=types,
                properties=dict(op.properties),
                attributes=dict(op.attributes),
            )


def splat(number: float | int, type_: VectorType[Attribute]) -> arith.ConstantOp:
    """A number in every lane."""
    value = DenseIntOrFPElementsAttr.from_list(cast("VectorType[Any]", type_), [number])
    return arith.ConstantOp(value, type_)
