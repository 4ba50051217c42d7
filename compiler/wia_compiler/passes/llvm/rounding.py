"""The narrow floats: bf16 carried as an integer, and roundings that must happen once."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, Float64Type, f32, f64, i1, i16, i32
from xdsl.ir import Attribute, SSAValue

from wia_compiler.passes.llvm.types import (
    constant,
    intrinsic_suffix,
    is_bf16,
    llvm_type,
    scalar_of,
    with_element,
)
from wia_compiler.passes.llvm.writer import Writer


def widened(writer: Writer, value: SSAValue) -> tuple[str, str]:
    """A float operand as (type, value) that instructions take: bf16 carried as i16 becomes f32."""
    if not (is_bf16(value.type) and writer.options.bf16 == "integer"):
        return writer.type(value), writer.values[value]
    return _bf16_to_f32(writer, value.type, writer.values[value])


def finish(writer: Writer, result: SSAValue, text: str) -> None:
    """Assign a float result that was computed on ``widened`` operands."""
    if is_bf16(result.type) and writer.options.bf16 == "integer":
        wide = writer.temporary(text)
        writer.values[result] = _f32_to_bf16(writer, result.type, wide)
    else:
        writer.assign(result, text)


def computed(type_: Attribute, writer: Writer) -> Attribute:
    """The type an instruction computes in where the value is of ``type_``."""
    if is_bf16(type_) and writer.options.bf16 == "integer":
        return with_element(type_, f32)
    return type_


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
    """An f64 rounded to odd, as an f32: rounding that once more gives what a single one would."""
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


def narrow(writer: Writer, element: Attribute, result: Attribute, value: str) -> str:
    """Round a value of type ``element`` (f64, f32 or f16, of ``result``'s shape) to ``result``."""
    options = writer.options
    target = scalar_of(result)
    is_half = not isinstance(target, Float32Type)
    if isinstance(element, Float64Type) and is_half and options.f64_to_half == "odd":
        value, element = _f64_to_odd_f32(writer, result, value), f32
    source = llvm_type(with_element(result, element), options)
    if is_bf16(result) and options.bf16 == "integer":
        if not isinstance(element, Float32Type):
            wide = llvm_type(with_element(result, f32), options)
            value = writer.temporary(f"fpext {source} {value} to {wide}")
        return _f32_to_bf16(writer, result, value)
    return writer.temporary(f"fptrunc {source} {value} to {llvm_type(result, options)}")
