"""The arith and math ops as LLVM instructions; each works on scalars and on vectors."""

from __future__ import annotations

import math
from typing import Any, cast

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    i1,
)
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Operation, SSAValue

from wia_compiler.passes.llvm.rounding import computed, finish, widened
from wia_compiler.passes.llvm.types import (
    LLVMError,
    constant,
    intrinsic_suffix,
    llvm_type,
    scalar_of,
    with_element,
)
from wia_compiler.passes.llvm.writer import Handler, Writer

_INTEGER = {
    "arith.addi": "add",
    "arith.subi": "sub",
    "arith.muli": "mul",
    "arith.divsi": "sdiv",
    "arith.divui": "udiv",
    "arith.remsi": "srem",
    "arith.remui": "urem",
    "arith.andi": "and",
    "arith.ori": "or",
    "arith.xori": "xor",
    "arith.shli": "shl",
    "arith.shrsi": "ashr",
    "arith.shrui": "lshr",
}
_INTEGER_INTRINSICS = {
    "arith.minsi": "smin",
    "arith.maxsi": "smax",
    "arith.minui": "umin",
    "arith.maxui": "umax",
}
_FLOAT = {
    "arith.addf": "fadd",
    "arith.subf": "fsub",
    "arith.mulf": "fmul",
    "arith.divf": "fdiv",
    "arith.remf": "frem",
}
_FLOAT_INTRINSICS = {
    "arith.maximumf": "maximum",
    "arith.minimumf": "minimum",
    "arith.maxnumf": "maxnum",
    "arith.minnumf": "minnum",
    "math.fma": "fma",
    "math.sqrt": "sqrt",
    "math.floor": "floor",
    "math.ceil": "ceil",
    "math.roundeven": "roundeven",
    "math.round": "round",
    "math.trunc": "trunc",
    "math.absf": "fabs",
    "math.copysign": "copysign",
}
_ORDER = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_FLOAT_ORDER = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)


def flags_of(op: Operation) -> str:
    """The fast-math flags an op carries, with a blank after each; none are ever added."""
    attribute = op.properties.get("fastmath")
    if not isinstance(attribute, arith.FastMathFlagsAttr):
        return ""
    names = [flag.value for flag in FastMathFlag if flag in attribute.data]
    if len(names) == len(FastMathFlag):
        return "fast "
    return "".join(f"{name} " for name in names)


def _constant(writer: Writer, op: arith.ConstantOp) -> None:
    value, type_ = op.value, op.result.type
    match value:
        case IntegerAttr() | FloatAttr():
            number: Any = value.value.data
        case DenseIntOrFPElementsAttr():
            numbers = [
                constant(each, scalar_of(type_), writer.options) for each in value.get_values()
            ]
            if len(set(numbers)) > 1:
                element = llvm_type(scalar_of(type_), writer.options)
                lanes = ", ".join(f"{element} {each}" for each in numbers)
                writer.values[op.result] = f"<{lanes}>"
                return
            number = value.get_values()[0]
        case _:
            raise LLVMError(f"no LLVM constant for {value}")
    writer.values[op.result] = constant(number, type_, writer.options)


def _integer(writer: Writer, op: arith.SignlessIntegerBinaryOperation) -> None:
    flags = ""
    overflow = op.properties.get("overflowFlags")
    if isinstance(overflow, arith.IntegerOverflowAttr):
        flags = "".join(
            f"{flag.value} " for flag in arith.IntegerOverflowFlag if flag in overflow.data
        )
    values = writer.values
    writer.assign(
        op.result,
        f"{_INTEGER[op.name]} {flags}{writer.type(op.lhs)} {values[op.lhs]}, {values[op.rhs]}",
    )


def _integer_intrinsic(writer: Writer, op: arith.SignlessIntegerBinaryOperation) -> None:
    type_ = writer.type(op.lhs)
    name = f"llvm.{_INTEGER_INTRINSICS[op.name]}.{intrinsic_suffix(op.lhs.type)}"
    arguments = [(type_, writer.values[each]) for each in op.operands]
    writer.assign(op.result, writer.call(name, type_, arguments))


def _float(writer: Writer, op: arith.FloatingPointLikeBinaryOperation) -> None:
    type_, left = widened(writer, op.lhs)
    _, right = widened(writer, op.rhs)
    finish(writer, op.result, f"{_FLOAT[op.name]} {flags_of(op)}{type_} {left}, {right}")


def _negate(writer: Writer, op: arith.NegfOp) -> None:
    type_, value = widened(writer, op.operand)
    finish(writer, op.result, f"fneg {flags_of(op)}{type_} {value}")


def _float_intrinsic(writer: Writer, op: Operation) -> None:
    result = op.results[0]
    arguments = [widened(writer, each) for each in op.operands]
    type_ = arguments[0][0]
    suffix = intrinsic_suffix(computed(result.type, writer))
    name = f"llvm.{_FLOAT_INTRINSICS[op.name]}.{suffix}"
    finish(writer, result, writer.call(name, type_, arguments, flags_of(op)))


def _extremum(writer: Writer, op: arith.FloatingPointLikeBinaryOperation) -> None:
    """maximumf and minimumf: with a constant operand a compare and a select, which keep NaN.

    ``max(x, c)`` is ``c > x ? c : x``, one ``vmaxps`` where the intrinsic takes five instructions;
    for the zero that would win over the other zero it is ``x <= c ? c : x`` (two).
    """
    literal = next((each for each in (op.rhs, op.lhs) if _ordered_constant(each) is not None), None)
    if literal is None or writer.options.extremum == "intrinsic":
        _float_intrinsic(writer, op)
        return
    other = op.lhs if literal is op.rhs else op.rhs
    type_, bound = widened(writer, literal)
    _, value = widened(writer, other)
    word, winner = ("gt", 1.0) if op.name == "arith.maximumf" else ("lt", -1.0)
    number = _ordered_constant(literal)
    if number == 0.0 and number is not None and math.copysign(1.0, number) == winner:
        compared, chosen, rest = f"u{word} {type_} {value}, {bound}", value, bound
    else:
        compared, chosen, rest = f"o{word} {type_} {bound}, {value}", bound, value
    truth = llvm_type(with_element(op.result.type, i1), writer.options)
    test = writer.temporary(f"fcmp {compared}")
    finish(writer, op.result, f"select {truth} {test}, {type_} {chosen}, {type_} {rest}")


def _ordered_constant(value: SSAValue) -> float | None:
    """The number behind a float constant or splat that is no NaN."""
    if not isinstance(value.owner, arith.ConstantOp):
        return None
    number: float | None = None
    match value.owner.value:
        case FloatAttr() as attribute:
            number = attribute.value.data
        case DenseIntOrFPElementsAttr() as attribute if attribute.is_splat():
            number = float(cast(float, attribute.get_values()[0]))
        case _:
            pass
    return number if number is not None and number == number else None


def _compare_integers(writer: Writer, op: arith.CmpiOp) -> None:
    order = _ORDER[op.predicate.value.data]
    left, right = writer.values[op.lhs], writer.values[op.rhs]
    writer.assign(op.result, f"icmp {order} {writer.type(op.lhs)} {left}, {right}")


def _compare_floats(writer: Writer, op: arith.CmpfOp) -> None:
    order = _FLOAT_ORDER[op.predicate.value.data]
    type_, left = widened(writer, op.lhs)
    _, right = widened(writer, op.rhs)
    writer.assign(op.result, f"fcmp {flags_of(op)}{order} {type_} {left}, {right}")


def _select(writer: Writer, op: arith.SelectOp) -> None:
    writer.assign(
        op.result,
        f"select {writer.typed(op.cond)}, {writer.typed(op.lhs)}, {writer.typed(op.rhs)}",
    )


def _absolute_integer(writer: Writer, op: Operation) -> None:
    value, result = op.operands[0], op.results[0]
    type_ = writer.type(value)
    arguments = [(type_, writer.values[value]), ("i1", "false")]
    writer.assign(result, writer.call(f"llvm.abs.{intrinsic_suffix(value.type)}", type_, arguments))


def _count(writer: Writer, op: Operation) -> None:
    value, result = op.operands[0], op.results[0]
    type_ = writer.type(value)
    arguments = [(type_, writer.values[value])]
    if op.name != "math.ctpop":
        arguments.append(("i1", "false"))
    name = f"llvm.{op.name.removeprefix('math.')}.{intrinsic_suffix(value.type)}"
    writer.assign(result, writer.call(name, type_, arguments))


def _multiply_wide(writer: Writer, op: arith.MulExtendedBase) -> None:
    shape = op.lhs.type
    width = cast("IntegerType", scalar_of(shape)).width.data
    double = with_element(shape, IntegerType(2 * width))
    type_, wide = writer.type(op.lhs), llvm_type(double, writer.options)
    extend = "zext" if isinstance(op, arith.MulUIExtendedOp) else "sext"
    operands = [
        writer.temporary(f"{extend} {type_} {writer.values[each]} to {wide}")
        for each in (op.lhs, op.rhs)
    ]
    product = writer.temporary(f"mul {wide} {operands[0]}, {operands[1]}")
    count = constant(width, double, writer.options)
    high = writer.temporary(f"lshr {wide} {product}, {count}")
    writer.assign(op.low, f"trunc {wide} {product} to {type_}")
    writer.assign(op.high, f"trunc {wide} {high} to {type_}")


def _intrinsic(writer: Writer, op: llvm.CallIntrinsicOp) -> None:
    """A function of LLVM by its name; the whitelist says which a machine has."""
    arguments = [(writer.type(each), writer.values[each]) for each in op.args]
    if op.ress is None:
        writer.line(writer.call(op.intrin.data, "void", arguments))
        return
    writer.assign(op.ress, writer.call(op.intrin.data, writer.type(op.ress), arguments))


SCALARS: dict[str, Handler] = {
    "arith.constant": _constant,
    **dict.fromkeys(_INTEGER, _integer),
    **dict.fromkeys(_INTEGER_INTRINSICS, _integer_intrinsic),
    **dict.fromkeys(_FLOAT, _float),
    **dict.fromkeys(_FLOAT_INTRINSICS, _float_intrinsic),
    "arith.maximumf": _extremum,
    "arith.minimumf": _extremum,
    "arith.negf": _negate,
    "arith.cmpi": _compare_integers,
    "arith.cmpf": _compare_floats,
    "arith.select": _select,
    "arith.mului_extended": _multiply_wide,
    "arith.mulsi_extended": _multiply_wide,
    "llvm.call_intrinsic": _intrinsic,
    "math.absi": _absolute_integer,
    "math.ctlz": _count,
    "math.cttz": _count,
    "math.ctpop": _count,
}
