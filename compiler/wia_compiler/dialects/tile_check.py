"""``tile.check``: what a kernel could not prove when it was compiled, tested while it runs."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    i1,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

MOST_INDICES = 14
"""Indices of one access that a status record holds."""


@irdl_op_definition
class CheckOp(IRDLOperation):
    """Notes a failure: ``tile.check %inside [%i, %j] of "A" sizes [4, 8] number 0``.

    Where ``%inside`` is false and nothing failed before in this call, the number of the check and
    the indices go to the kernel's status record, and the call ends with an error that names them.
    The op does nothing else: the access that it is about is left out by the code around it.
    ``number`` counts the checks of a module; ``sizes`` are those of the array (or what the indices
    must stay below).
    """

    name = "tile.check"

    condition = operand_def(i1)
    indices = var_operand_def(IndexType)
    array = prop_def(StringAttr)
    sizes = prop_def(ArrayAttr[IntegerAttr[IntegerType]])
    number = prop_def(IntegerAttr)

    traits = traits_def(MemoryWriteEffect())

    assembly_format = (
        "$condition `[` $indices `]` `of` $array `sizes` $sizes `number` $number attr-dict"
    )

    def __init__(
        self,
        condition: SSAValue,
        indices: Sequence[SSAValue],
        array: str,
        sizes: Sequence[int],
        number: int,
    ):
        super().__init__(
            operands=[condition, list(indices)],
            properties={
                "array": StringAttr(array),
                "sizes": ArrayAttr([IntegerAttr(size, i64) for size in sizes]),
                "number": IntegerAttr(number, i64),
            },
        )

    def verify_(self) -> None:
        if len(self.indices) != len(self.sizes):
            raise VerifyException(f"{len(self.indices)} indices for {len(self.sizes)} sizes")
        if len(self.indices) > MOST_INDICES:
            raise VerifyException(f"a check holds {MOST_INDICES} indices at most")
