"""Scalar ops on the lanes of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from wia_compiler.dialects.arith_lanes import LANEWISE, SelectLanesOp, compare
from wia_compiler.dialects.shared_attributes import vector_type


def on_lanes(op: Operation, operands: Sequence[SSAValue], lanes: int) -> Operation:
    """An ``arith`` or ``math`` op on vectors of ``lanes`` elements; ``operands`` are such."""
    types = [vector_type(result.type, lanes) for result in op.results]
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
    return lane_numbers([number], type_)


def lane_numbers(numbers: Sequence[float | int], type_: VectorType[Attribute]) -> arith.ConstantOp:
    """A number for each lane."""
    value = DenseIntOrFPElementsAttr.from_list(cast("VectorType[Any]", type_), numbers)
    return arith.ConstantOp(value, type_)
