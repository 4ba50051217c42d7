"""The arith and math ops as LLVM instructions; each works on scalars and on vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    f32,
    f64,
    i1,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from wia_compiler.passes.llvm.types import (
    LLVMError,
    constant,
    intrinsic_suffix,
    is_bf16,
    llvm_type,
    scalar_of,
    with_element,
)
from wia_compiler.passes.llvm.writer import Writer

Handler = Callable[[Writer, Any], None]

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
_CASTS = {
    "arith.extsi": "sext",
    "arith.extui": "zext",
    "arith.trunci": "trunc",
    "arith.sitofp": "sitofp",
    "arith.uitofp": "uitofp",
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
    names = [flag.value for flag in arith.FastMathFlag if flag in attribute.data]
    if len(names) == len(arith.FastMathFlag):
        return "fast "
    return "".join(f"{name} " for name in names)


def widened(writer: Writer, value: SSAValue) -> tuple[str, str]:
    """A float operand as (type, value) that instructions take: bf16 carried as i16 becomes f32."""
    if not (is_bf16(value.type) and writer.options.bf16 == "integer"):
        return writer.type(value), writer.values[value]
    return _bf16_to_f32(writer, value.type, writer.values[value])


def _finish(writer: Writer, result: SSAValue, text: str) -> None:
    """Assign a float result that was computed on ``widened`` operands."""
    if is_bf16(result.type) and writer.options.bf16 == "integer":
        wide = writer.temporary(text)
        writer.values[result] = _f32_to_bf16(writer, result.type, wide)
    else:
        writer.assign(result, text)


def _bf16_to_f32(writer: Writer, bf16: Attribute, value: str) -> tuple[str, str]:
    narrow, bits = (llvm_type(with_element(bf16, each), writer.options) for each in (i16, i32))
    wide = llvm_type(with_element(bf16, f32), writer.options)
    sixteen = constant(16, with_element(bf16, i32), writer.options)
    extended = writer.temporary(f"zext {narrow} {value} to {bits}")
    shifted = writer.temporary(f"shl {bits} {extended}, {sixteen}")
    return wide, writer.temporary(f"bitcast {bits} {shifted} to {wide}")


def _f32_to_bf16(writer: Writer, bf16: Attribute, value: str) -> str:
    """Round to nearest even by integers; a NaN stays a quiet NaN with its sign and high payload."""
    options = writer.options
    integer = with_element(bf16, i32)
    narrow, bits = llvm_type(with_element(bf16, i16), options), llvm_type(integer, options)
    wide = llvm_type(with_element(bf16, f32), options)

    def number(each: int) -> str:
        return constant(each, integer, options)

    raw = writer.temporary(f"bitcast {wide} {value} to {bits}")
    high = writer.temporary(f"lshr {bits} {raw}, {number(16)}")
    odd = writer.temporary(f"and {bits} {high}, {number(1)}")
    bias = writer.temporary(f"add {bits} {odd}, {number(0x7FFF)}")
    sum_ = writer.temporary(f"add {bits} {raw}, {bias}")
    rounded = writer.temporary(f"lshr {bits} {sum_}, {number(16)}")
    quiet = writer.temporary(f"or {bits} {high}, {number(0x40)}")
    truth = llvm_type(with_element(bf16, i1), options)
    nan = writer.temporary(f"fcmp uno {wide} {value}, {value}")
    chosen = writer.temporary(f"select {truth} {nan}, {bits} {quiet}, {bits} {rounded}")
    return writer.temporary(f"trunc {bits} {chosen} to {narrow}")


def _f64_to_odd_f32(writer: Writer, shape: Attribute, value: str) -> str:
    """An f64 as the f32 from which a second rounding gives what a single one would (round to odd)."""
    options = writer.options
    narrow, wide, bits, truth = (
        llvm_type(with_element(shape, each), options) for each in (f32, f64, i32, i1)
    )

    def number(each: int) -> str:
        return constant(each, with_element(shape, i32), options)

    near = writer.temporary(f"fptrunc {wide} {value} to {narrow}")
    back = writer.temporary(f"fpext {narrow} {near} to {wide}")
    inexact = writer.temporary(f"fcmp one {wide} {back}, {value}")
    raw = writer.temporary(f"bitcast {narrow} {near} to {bits}")
    parity = writer.temporary(f"and {bits} {raw}, {number(1)}")
    even = writer.temporary(f"icmp eq {bits} {parity}, {number(0)}")
    magnitudes = [
        writer.temporary(
            writer.call(
                f"llvm.fabs.{intrinsic_suffix(with_element(shape, f64))}", wide, [(wide, each)]
            )
        )
        for each in (back, value)
    ]
    above = writer.temporary(f"fcmp ogt {wide} {magnitudes[0]}, {magnitudes[1]}")
    step = writer.temporary(f"select {truth} {above}, {bits} {number(-1)}, {bits} {number(1)}")
    moved = writer.temporary(f"add {bits} {raw}, {step}")
    change = writer.temporary(f"and {truth} {inexact}, {even}")
    odd = writer.temporary(f"select {truth} {change}, {bits} {moved}, {bits} {raw}")
    return writer.temporary(f"bitcast {bits} {odd} to {narrow}")


def _constant(writer: Writer, op: arith.ConstantOp) -> None:
    value, type_ = op.value, op.result.type
    match value:
        case IntegerAttr() | FloatAttr():
            number: Any = value.value.data
        case DenseIntOrFPElementsAttr() if value.is_splat():
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
    _finish(writer, op.result, f"{_FLOAT[op.name]} {flags_of(op)}{type_} {left}, {right}")


def _negate(writer: Writer, op: arith.NegfOp) -> None:
    type_, value = widened(writer, op.operand)
    _finish(writer, op.result, f"fneg {flags_of(op)}{type_} {value}")


def _float_intrinsic(writer: Writer, op: Operation) -> None:
    result = op.results[0]
    arguments = [widened(writer, each) for each in op.operands]
    type_ = arguments[0][0]
    suffix = intrinsic_suffix(_computed(result.type, writer))
    name = f"llvm.{_FLOAT_INTRINSICS[op.name]}.{suffix}"
    _finish(writer, result, writer.call(name, type_, arguments, flags_of(op)))


def _computed(type_: Attribute, writer: Writer) -> Attribute:
    """The type an instruction computes in where the value is of ``type_``."""
    if is_bf16(type_) and writer.options.bf16 == "integer":
        return with_element(type_, f32)
    return type_


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
    _finish(writer, op.result, f"select {truth} {test}, {type_} {chosen}, {type_} {rest}")


def _ordered_constant(value: SSAValue) -> float | None:
    """The number behind a float constant or splat that is no NaN."""
    if not isinstance(value.owner, arith.ConstantOp):
        return None
    number: float | None = None
    match value.owner.value:
        case FloatAttr() as attribute:
            number = attribute.value.data
        case DenseIntOrFPElementsAttr() as attribute if attribute.is_splat():
            number = float(attribute.get_values()[0])
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


def _cast(writer: Writer, op: Operation) -> None:
    source, result = op.operands[0], op.results[0]
    if op.name in ("arith.sitofp", "arith.uitofp") and is_bf16(result.type):
        writer.values[result] = _integer_to_bf16(writer, op)
        return
    writer.assign(result, f"{_CASTS[op.name]} {writer.typed(source)} to {writer.type(result)}")


def _integer_to_bf16(writer: Writer, op: Operation) -> str:
    """Through f64 (exact up to 53 bits; wider ones keep a sticky bit) so that it rounds once."""
    source, result = op.operands[0], op.results[0]
    options = writer.options
    type_, value = writer.type(source), writer.values[source]
    wide = llvm_type(with_element(result.type, f64), options)
    element = scalar_of(source.type)
    if isinstance(element, IndexType) or cast("IntegerType", element).width.data > 53:
        value = _sticky(writer, source.type, value)
    number = writer.temporary(f"{_CASTS[op.name]} {type_} {value} to {wide}")
    return _narrow(writer, f64, result.type, number)


def _sticky(writer: Writer, shape: Attribute, value: str) -> str:
    """A 64-bit integer whose low 10 bits are folded into bit 10 where they would not fit an f64."""
    options = writer.options
    type_, truth = (llvm_type(with_element(shape, each), options) for each in (i64, i1))

    def number(each: int) -> str:
        return constant(each, with_element(shape, i64), options)

    low = writer.temporary(f"and {type_} {value}, {number(1023)}")
    lost = writer.temporary(f"icmp ne {type_} {low}, {number(0)}")
    cleared = writer.temporary(f"and {type_} {value}, {number(-1024)}")
    marked = writer.temporary(f"or {type_} {cleared}, {number(1024)}")
    folded = writer.temporary(f"select {truth} {lost}, {type_} {marked}, {type_} {value}")
    shifted = writer.temporary(f"add {type_} {value}, {number(1 << 53)}")
    large = writer.temporary(f"icmp ugt {type_} {shifted}, {number(1 << 54)}")
    return writer.temporary(f"select {truth} {large}, {type_} {folded}, {type_} {value}")


def _to_integer(writer: Writer, op: arith.FPToSIOp | arith.FPToUIOp) -> None:
    """Saturating, NaN to 0: the plain instructions leave values out of range undefined."""
    type_, value = widened(writer, op.input)
    kind = "fptosi" if isinstance(op, arith.FPToSIOp) else "fptoui"
    result = writer.type(op.result)
    suffix = (
        f"{intrinsic_suffix(op.result.type)}.{intrinsic_suffix(_computed(op.input.type, writer))}"
    )
    writer.assign(op.result, writer.call(f"llvm.{kind}.sat.{suffix}", result, [(type_, value)]))


def _extend(writer: Writer, op: arith.ExtFOp) -> None:
    source, result = op.input, op.result
    if is_bf16(source.type) and writer.options.bf16 == "integer":
        type_, value = widened(writer, source)
        if isinstance(scalar_of(result.type), Float32Type):
            writer.values[result] = value
            return
        writer.assign(result, f"fpext {type_} {value} to {writer.type(result)}")
        return
    writer.assign(result, f"fpext {writer.typed(source)} to {writer.type(result)}")


def _truncate(writer: Writer, op: arith.TruncFOp) -> None:
    source, result = op.input, op.result
    element = scalar_of(source.type)
    writer.values[result] = _narrow(writer, element, result.type, writer.values[source])


def _narrow(writer: Writer, element: Attribute, result: Attribute, value: str) -> str:
    """Round a value of type ``element`` (f64, f32 or f16, of ``result``'s shape) to ``result``."""
    options = writer.options
    target = scalar_of(result)
    if isinstance(element, Float64Type) and not isinstance(target, Float32Type):
        if options.f64_to_half == "odd":
            value, element = _f64_to_odd_f32(writer, result, value), f32
    source = llvm_type(with_element(result, element), options)
    if is_bf16(result) and options.bf16 == "integer":
        if not isinstance(element, Float32Type):
            wide = llvm_type(with_element(result, f32), options)
            value = writer.temporary(f"fpext {source} {value} to {wide}")
        return _f32_to_bf16(writer, result, value)
    return writer.temporary(f"fptrunc {source} {value} to {llvm_type(result, options)}")


def _bitcast(writer: Writer, op: arith.BitcastOp) -> None:
    source, result = writer.type(op.input), writer.type(op.result)
    if source == result:
        writer.values[op.result] = writer.values[op.input]
        return
    writer.assign(op.result, f"bitcast {writer.typed(op.input)} to {result}")


def _index_cast(writer: Writer, op: arith.IndexCastOp) -> None:
    source, result = op.input.type, op.result.type
    width = 64 if isinstance(source, IndexType) else cast("IntegerType", source).width.data
    wanted = 64 if isinstance(result, IndexType) else cast("IntegerType", result).width.data
    if width == wanted:
        writer.values[op.result] = writer.values[op.input]
        return
    kind = "sext" if wanted > width else "trunc"
    writer.assign(op.result, f"{kind} {writer.typed(op.input)} to {writer.type(op.result)}")


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


SCALARS: dict[str, Handler] = {
    "arith.constant": _constant,
    **dict.fromkeys(_INTEGER, _integer),
    **dict.fromkeys(_INTEGER_INTRINSICS, _integer_intrinsic),
    **dict.fromkeys(_FLOAT, _float),
    **dict.fromkeys(_FLOAT_INTRINSICS, _float_intrinsic),
    **dict.fromkeys(_CASTS, _cast),
    "arith.maximumf": _extremum,
    "arith.minimumf": _extremum,
    "arith.negf": _negate,
    "arith.cmpi": _compare_integers,
    "arith.cmpf": _compare_floats,
    "arith.select": _select,
    "arith.fptosi": _to_integer,
    "arith.fptoui": _to_integer,
    "arith.extf": _extend,
    "arith.truncf": _truncate,
    "arith.bitcast": _bitcast,
    "arith.index_cast": _index_cast,
    "arith.mului_extended": _multiply_wide,
    "arith.mulsi_extended": _multiply_wide,
    "math.absi": _absolute_integer,
    "math.ctlz": _count,
    "math.cttz": _count,
    "math.ctpop": _count,
}
