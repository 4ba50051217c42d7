"""Building blocks of a leaf's body: typed scalar values, constants and conversions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from wia_compiler.base.dtypes import F32, DType
from wia_compiler.dialects.tile import YieldOp
from wia_compiler.dialects.types import element_type


def scalar_type(dtype: DType) -> Attribute:
    """The MLIR type of an element from the mid level down: u8 is ``i8``, bool is ``i1``."""
    return IntegerType(8) if dtype.kind == "uint" else element_type(dtype)


def integer_type(dtype: DType) -> IntegerType:
    """The MLIR type of an integer or bool."""
    return cast("IntegerType", scalar_type(dtype))


def float_type(dtype: DType) -> AnyFloat:
    """The MLIR type of a float."""
    return cast("AnyFloat", scalar_type(dtype))


def compute_dtype(dtype: DType) -> DType:
    """The dtype in which a scalar op is carried out: f32 for f16 and bf16, else itself."""
    return F32 if dtype.is_float and dtype.bits == 16 else dtype


class Body:
    """A block of scalar ops under construction; ``location`` goes to every op that is added."""

    def __init__(self) -> None:
        self.block = Block()
        self.location: LocationAttr = UnknownLoc()
        self._constants: dict[Attribute, SSAValue] = {}

    def add(self, op: Operation) -> SSAValue:
        """Append an op and give its result."""
        op.location = self.location
        self.block.add_op(op)
        return op.results[0]

    def argument(self, type: Attribute, name: str | None) -> SSAValue:
        """Append an argument to the block."""
        value = self.block.insert_arg(type, len(self.block.args))
        value.name_hint = name
        return value

    def constant(self, number: bool | int | float, dtype: DType) -> SSAValue:
        """A number in a dtype; equal constants of one body are one op."""
        attribute: IntegerAttr[IntegerType] | FloatAttr[AnyFloat]
        if dtype.is_float:
            attribute = FloatAttr(float(number), float_type(dtype))
        else:
            kind = integer_type(dtype)
            attribute = IntegerAttr(_signed(int(number), kind.width.data), kind)
        known = self._constants.get(attribute)
        if known is None:
            known = self._constants[attribute] = self.add(arith.ConstantOp(attribute))
        return known

    def widen(self, value: SSAValue, dtype: DType) -> SSAValue:
        """An element in the dtype in which it is computed with (``arith.extf`` for f16, bf16)."""
        wide = compute_dtype(dtype)
        return value if wide == dtype else self.add(arith.ExtFOp(value, scalar_type(wide)))

    def narrow(self, value: SSAValue, dtype: DType) -> SSAValue:
        """What ``widen`` gave, rounded back to its dtype."""
        if compute_dtype(dtype) == dtype:
            return value
        return self.add(arith.TruncFOp(value, scalar_type(dtype)))

    def select(self, condition: SSAValue, first: SSAValue, second: SSAValue) -> SSAValue:
        """``condition ? first : second``."""
        return self.add(arith.SelectOp(condition, first, second))

    def compare(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """An ``i1``: ``cmpi`` or ``cmpf`` by the type of the operands."""
        if isinstance(a.type, IntegerType):
            return self.add(arith.CmpiOp(a, b, predicate))
        return self.add(arith.CmpfOp(a, b, predicate))

    def finish(self, values: Sequence[SSAValue]) -> Region:
        """The body as a region that yields ``values``."""
        yielded = YieldOp(values)
        yielded.location = self.location
        self.block.add_op(yielded)
        return Region(self.block)


def _signed(number: int, width: int) -> int:
    """The number as MLIR writes it in a signless type of ``width`` bits."""
    if width == 1:
        return number & 1
    half = 1 << (width - 1)
    return (number + half) % (1 << width) - half
