"""Ops of the mid level by which leaves know where they are, and read where a number says.

``tile.positions`` is an array that no memory holds: its element at ``i`` is ``i``. A leaf reads it
as it reads any input, so that loops, tiles and schedules move its index along, and a target puts
the index itself in the place of the read. ``tile.lookup`` stands in the body of a leaf and reads
an array at indices that the body computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, MemRefType, StringAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

POSITIONS = "positions"
"""The memory space of ``tile.positions``."""


@irdl_op_definition
class PositionsOp(IRDLOperation):
    """The numbers from 0 as an array: ``%n = tile.positions : memref<1000xi64, "positions">``."""

    name = "tile.positions"

    memref = result_def(MemRefType)

    traits = traits_def(Pure())

    assembly_format = "attr-dict `:` type($memref)"

    def __init__(self, size: int):
        type = MemRefType(i64, [size], memory_space=StringAttr(POSITIONS))
        super().__init__(result_types=[type])

    def verify_(self) -> None:
        type = self.memref.type
        if type.element_type != i64 or len(type.get_shape()) != 1:
            raise VerifyException("tile.positions is a memref of one axis of i64")
        if type.memory_space != StringAttr(POSITIONS):
            raise VerifyException(f'tile.positions is in the memory space "{POSITIONS}"')


@irdl_op_definition
class LookupOp(IRDLOperation):
    """The element of an array at computed indices, in the body of a leaf.

    ``%v = tile.lookup %table[%i, %j] checks [0] : memref<50x8xf32>`` reads ``table[i, j]``; indices
    are i64. Those of the axes under ``checks`` may be out of range: the element is then 0, and
    where the lookup has the ``number`` of a check (see ``tile.check``), a target that can report
    does. The others are in range by construction.
    """

    name = "tile.lookup"

    memref = operand_def(MemRefType)
    indices = var_operand_def(i64)
    checks = prop_def(ArrayAttr[IntegerAttr])
    number = opt_prop_def(IntegerAttr)
    result = result_def()

    traits = traits_def(Pure())

    assembly_format = (
        "$memref `[` $indices `]` `checks` $checks (`number` $number^)? attr-dict `:` "
        "type($memref) `->` type($result)"
    )

    def __init__(self, memref: SSAValue, indices: Sequence[SSAValue], checks: Sequence[int]):
        type = cast("MemRefType[Attribute]", memref.type)
        super().__init__(
            operands=[memref, list(indices)],
            properties={"checks": ArrayAttr([IntegerAttr(axis, i64) for axis in checks])},
            result_types=[type.element_type],
        )

    @property
    def checked_axes(self) -> tuple[int, ...]:
        """Axes whose index may be out of range."""
        return tuple(axis.value.data for axis in self.checks)

    def verify_(self) -> None:
        type = cast("MemRefType[Attribute]", self.memref.type)
        if len(self.indices) != len(type.get_shape()):
            raise VerifyException(f"{len(self.indices)} indices look up {type}")
        if type.element_type != self.result.type:
            raise VerifyException(f"a lookup in {type} does not give {self.result.type}")
