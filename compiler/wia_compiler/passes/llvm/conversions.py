"""Conversions between number types as LLVM instructions; none is ever undefined."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, f64, i1, i64
from xdsl.ir import Attribute, Operation

from wia_compiler.passes.llvm.rounding import computed, narrow, widened
from wia_compiler.passes.llvm.types import (
    constant,
    integer_width,
    intrinsic_suffix,
    is_bf16,
    llvm_type,
    scalar_of,
    with_element,
)
from wia_compiler.passes.llvm.writer import Handler, Writer

_CASTS = {
    "arith.extsi": "sext",
    "arith.extui": "zext",
    "arith.trunci": "trunc",
    "arith.sitofp": "sitofp",
    "arith.uitofp": "uitofp",
}


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
    if (integer_width(element) or 0) > 53:
        value = _sticky(writer, source.type, value)
    number = writer.temporary(f"{_CASTS[op.name]} {type_} {value} to {wide}")
    return narrow(writer, f64, result.type, number)


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
    kind = op.name.removeprefix("arith.")
    result = writer.type(op.result)
    suffix = (
        f"{intrinsic_suffix(op.result.type)}.{intrinsic_suffix(computed(op.input.type, writer))}"
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
    writer.values[result] = narrow(writer, element, result.type, writer.values[source])


def _bitcast(writer: Writer, op: arith.BitcastOp) -> None:
    source, result = writer.type(op.input), writer.type(op.result)
    if source == result:
        writer.values[op.result] = writer.values[op.input]
        return
    writer.assign(op.result, f"bitcast {writer.typed(op.input)} to {result}")


def _index_cast(writer: Writer, op: arith.IndexCastOp) -> None:
    source, result = op.input.type, op.result.type
    width, wanted = integer_width(source) or 0, integer_width(result) or 0
    if width == wanted:
        writer.values[op.result] = writer.values[op.input]
        return
    kind = "sext" if wanted > width else "trunc"
    writer.assign(op.result, f"{kind} {writer.typed(op.input)} to {writer.type(op.result)}")


CONVERSIONS: dict[str, Handler] = {
    **dict.fromkeys(_CASTS, _cast),
    "arith.fptosi": _to_integer,
    "arith.fptoui": _to_integer,
    "arith.extf": _extend,
    "arith.truncf": _truncate,
    "arith.bitcast": _bitcast,
    "arith.index_cast": _index_cast,
}
