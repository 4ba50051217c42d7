"""Ops of ``arith`` on vectors that xDSL defines on scalars alone, lane by lane.

Comparisons, ``arith.select`` and the conversions of integers. The classes here have MLIR's names,
stand in the place of xDSL's where the operands are vectors, and print and parse as MLIR's do.
"""

from __future__ import annotations

from typing import ClassVar, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, VectorType, i1, i64
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException


class CompareLanesOp(IRDLOperation):
    """What both comparisons share: one truth value for each lane."""

    predicate = prop_def(IntegerAttr)
    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    result = result_def(VectorType)

    traits = traits_def(Pure())

    ORDERS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, lhs: SSAValue, rhs: SSAValue, predicate: int):
        super().__init__(
            operands=[lhs, rhs],
            result_types=[_truths(lhs.type)],
            properties={"predicate": IntegerAttr(predicate, i64)},
        )

    def verify_(self) -> None:
        if self.lhs.type != self.rhs.type or self.result.type != _truths(self.lhs.type):
            raise VerifyException(f"{self.name} compares two vectors of one type, lane by lane")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.ORDERS[self.predicate.value.data]}, ")
        printer.print_list((self.lhs, self.rhs), printer.print_ssa_value)
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)

    @classmethod
    def parse(cls, parser: Parser) -> Operation:  # pyright: ignore[reportIncompatibleMethodOverride]
        """This op, or xDSL's where the operands are scalars."""
        word = parser.parse_identifier()
        parser.parse_punctuation(",")
        names = [parser.parse_unresolved_operand()]
        parser.parse_punctuation(",")
        names.append(parser.parse_unresolved_operand())
        flags = arith.FastMathFlagsAttr("none")
        if parser.parse_optional_keyword("fastmath"):
            flags = arith.FastMathFlagsAttr(arith.FastMathFlagsAttr.parse_parameter(parser))
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        left, right = (parser.resolve_operand(each, type_) for each in names)
        if isinstance(type_, VectorType):
            return cls(left, right, cls.ORDERS.index(word))
        if issubclass(cls, CompareIntegersOp):
            return arith.CmpiOp(left, right, word)
        return arith.CmpfOp(left, right, word, flags)


@irdl_op_definition
class CompareFloatsOp(CompareLanesOp):
    """``arith.cmpf olt, %a, %b : vector<16xf32>`` gives a ``vector<16xi1>``."""

    name = "arith.cmpf"
    ORDERS: ClassVar[tuple[str, ...]] = (
        *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
        *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
    )


@irdl_op_definition
class CompareIntegersOp(CompareLanesOp):
    """``arith.cmpi slt, %a, %b : vector<16xi32>`` gives a ``vector<16xi1>``."""

    name = "arith.cmpi"
    ORDERS: ClassVar[tuple[str, ...]] = (
        *("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"),
    )


@irdl_op_definition
class SelectLanesOp(IRDLOperation):
    """``arith.select %c, %a, %b : vector<16xi1>, vector<16xf32>`` chooses in each lane."""

    name = "arith.select"

    cond = operand_def(VectorType)
    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    result = result_def(VectorType)

    traits = traits_def(Pure())

    def __init__(self, cond: SSAValue, lhs: SSAValue, rhs: SSAValue):
        super().__init__(operands=[cond, lhs, rhs], result_types=[lhs.type])

    def verify_(self) -> None:
        types = {self.lhs.type, self.rhs.type, self.result.type}
        if len(types) != 1 or self.cond.type != _truths(self.lhs.type):
            raise VerifyException("arith.select of vectors has a truth value for each lane")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list((self.cond, self.lhs, self.rhs), printer.print_ssa_value)
        printer.print_string(" : ")
        printer.print_list((self.cond.type, self.lhs.type), printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> Operation:  # pyright: ignore[reportIncompatibleMethodOverride]
        """This op, or xDSL's where one truth value chooses."""
        names = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            names.append(parser.parse_unresolved_operand())
        parser.parse_punctuation(":")
        types: list[Attribute] = [parser.parse_type()]
        lanewise = parser.parse_optional_punctuation(",") is not None
        types.append(parser.parse_type() if lanewise else types[0])
        cond = parser.resolve_operand(names[0], types[0] if lanewise else i1)
        left, right = (parser.resolve_operand(each, types[1]) for each in names[1:])
        return cls(cond, left, right) if lanewise else arith.SelectOp(cond, left, right)


class CastLanesOp(IRDLOperation):
    """What the conversions share: ``arith.sitofp %a : vector<8xi32> to vector<8xf32>``."""

    input = operand_def(VectorType)
    result = result_def(VectorType)

    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, result: Attribute):
        super().__init__(operands=[value], result_types=[result])

    def verify_(self) -> None:
        if _truths(self.input.type) != _truths(self.result.type):
            raise VerifyException(f"{self.name} of a vector keeps its lanes")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.input)
        printer.print_string(" : ")
        printer.print_attribute(self.input.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Operation:  # pyright: ignore[reportIncompatibleMethodOverride]
        """This op, or xDSL's of a scalar."""
        name = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        parser.parse_keyword("to")
        result = parser.parse_type()
        value = parser.resolve_operand(name, type_)
        if isinstance(type_, VectorType):
            return cls(value, result)
        return _SCALARS[cls.name].create(operands=[value], result_types=[result])


@irdl_op_definition
class ExtendSignedLanesOp(CastLanesOp):
    """Signed integers in more bits."""

    name = "arith.extsi"


@irdl_op_definition
class ExtendUnsignedLanesOp(CastLanesOp):
    """Unsigned integers in more bits."""

    name = "arith.extui"


@irdl_op_definition
class TruncateLanesOp(CastLanesOp):
    """The low bits of integers."""

    name = "arith.trunci"


@irdl_op_definition
class SignedToFloatLanesOp(CastLanesOp):
    """Signed integers as floats."""

    name = "arith.sitofp"


@irdl_op_definition
class UnsignedToFloatLanesOp(CastLanesOp):
    """Unsigned integers as floats."""

    name = "arith.uitofp"


@irdl_op_definition
class FloatToSignedLanesOp(CastLanesOp):
    """Floats as signed integers."""

    name = "arith.fptosi"


@irdl_op_definition
class FloatToUnsignedLanesOp(CastLanesOp):
    """Floats as unsigned integers."""

    name = "arith.fptoui"


def compare(op: arith.CmpfOp | arith.CmpiOp, lhs: SSAValue, rhs: SSAValue) -> CompareLanesOp:
    """A comparison of scalars, done on vectors."""
    kind = CompareFloatsOp if isinstance(op, arith.CmpfOp) else CompareIntegersOp
    return kind(lhs, rhs, op.predicate.value.data)


def _truths(type_: Attribute) -> VectorType[Attribute]:
    shape = cast("VectorType[Attribute]", type_).get_shape()
    return VectorType(i1, list(shape))


LANEWISE: dict[str, type[CastLanesOp]] = {
    op.name: op
    for op in (
        ExtendSignedLanesOp,
        ExtendUnsignedLanesOp,
        TruncateLanesOp,
        SignedToFloatLanesOp,
        UnsignedToFloatLanesOp,
        FloatToSignedLanesOp,
        FloatToUnsignedLanesOp,
    )
}
"""The conversions of vectors by MLIR's names."""

_SCALARS = {op.name: op for op in arith.Arith.operations if op.name in LANEWISE}
_OWN = {
    op.name: op for op in (CompareFloatsOp, CompareIntegersOp, SelectLanesOp, *LANEWISE.values())
}
ArithLanes = Dialect(
    arith.Arith.name,
    [_OWN.get(op.name, op) for op in arith.Arith.operations],
    list(arith.Arith.attributes),
)
"""The dialect ``arith`` as it is read: also where xDSL's own ops are for scalars alone."""
