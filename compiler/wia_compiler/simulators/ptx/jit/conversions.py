"""Conversions of vectors between the types of the simulator, as numpy converts."""

from __future__ import annotations

from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.jit.code import BF16, Function, Value, element_type

F16, F32, F64 = (np.dtype(kind) for kind in (np.float16, np.float32, np.float64))
BOOL, U16, U32 = np.dtype(np.bool_), np.dtype(np.uint16), np.dtype(np.uint32)


def converted(function: Function, value: Value, dtype: np.dtype[Any]) -> Value:
    """The same numbers in another type; out of its range anything may come."""
    source = value.dtype
    if source == dtype:
        return value
    if source == BF16:
        return converted(function, _from_bf16(function, value), dtype)
    if dtype == BF16:
        return _to_bf16(function, converted_to_f32(function, value))
    if source.kind == "f":
        return _from_float(function, value, dtype)
    if dtype.kind == "f":
        word = "sitofp" if source.kind == "i" else "uitofp"
        if dtype == F16:
            # Integers above 2^11 round twice on the way through f32; f64 and odd do not.
            return _to_half(function, converted(function, value, F64))
        return _cast(function, word, value, dtype)
    if dtype == BOOL:
        zero = function.splat(0, source)
        return function.each(BOOL, f"icmp ne {function.vector(source)} {{0}}, {{1}}", value, zero)
    if source.itemsize == dtype.itemsize and source != BOOL:
        return Value(dtype, value.parts)
    if source == BOOL or dtype.itemsize > source.itemsize:
        return _cast(function, "sext" if source.kind == "i" else "zext", value, dtype)
    return _cast(function, "trunc", value, dtype)


def reinterpreted(function: Function, value: Value, dtype: np.dtype[Any]) -> Value:
    """The same bits as another type of the same width."""
    source, target = element_type(value.dtype), element_type(dtype)
    if source == target:
        return Value(dtype, value.parts)
    return _cast(function, "bitcast", value, dtype)


def _cast(function: Function, word: str, value: Value, dtype: np.dtype[Any]) -> Value:
    text = f"{word} {function.vector(value.dtype)} {{0}} to {function.vector(dtype)}"
    return function.each(dtype, text, value)


def _from_float(function: Function, value: Value, dtype: np.dtype[Any]) -> Value:
    source = value.dtype
    if dtype.kind == "f":
        if dtype == F16 and source == F64:
            return _to_half(function, value)
        return _cast(
            function, "fpext" if dtype.itemsize > source.itemsize else "fptrunc", value, dtype
        )
    if dtype == BOOL:
        zero = function.splat(0.0, source)
        return function.each(BOOL, f"fcmp une {function.vector(source)} {{0}}, {{1}}", value, zero)
    return _cast(function, "fptosi" if dtype.kind == "i" else "fptoui", value, dtype)


def converted_to_f32(function: Function, value: Value) -> Value:
    """f64 rounded to odd, so that rounding it once more is rounding once; others as they are."""
    if value.dtype != F64:
        return converted(function, value, F32)
    near = _cast(function, "fptrunc", value, F32)
    back = _cast(function, "fpext", near, F64)
    wide = function.vector(F64)
    inexact = function.each(BOOL, f"fcmp one {wide} {{0}}, {{1}}", back, value)
    size, had = (function.call("llvm.fabs", F64, each) for each in (back, value))
    over = function.each(BOOL, f"fcmp ogt {wide} {{0}}, {{1}}", size, had)
    bits = reinterpreted(function, near, U32)
    word = function.vector(U32)
    one = function.splat(1, U32)
    # Towards zero first, then the last bit set: odd, and on the right side of the value.
    lower = function.each(U32, f"sub {word} {{0}}, {{1}}", bits, one)
    cut = selected(function, over, lower, bits)
    odd = function.each(U32, f"or {word} {{0}}, {{1}}", cut, one)
    return reinterpreted(function, selected(function, inexact, odd, bits), F32)


def _to_half(function: Function, value: Value) -> Value:
    return _cast(function, "fptrunc", converted_to_f32(function, value), F16)


def _from_bf16(function: Function, value: Value) -> Value:
    wide = _cast(function, "zext", Value(U16, value.parts), U32)
    sixteen = function.splat(16, U32)
    moved = function.each(U32, f"shl {function.vector(U32)} {{0}}, {{1}}", wide, sixteen)
    return reinterpreted(function, moved, F32)


def _to_bf16(function: Function, value: Value) -> Value:
    """The upper half of an f32, ties to even; a NaN stays one."""
    word = function.vector(U32)
    bits = reinterpreted(function, value, U32)
    constants = [function.splat(number, U32) for number in (16, 1, 0x7FFF)]
    high = function.each(U32, f"lshr {word} {{0}}, {{1}}", bits, constants[0])
    odd = function.each(U32, f"and {word} {{0}}, {{1}}", high, constants[1])
    bias = function.each(U32, f"add {word} {{0}}, {{1}}", odd, constants[2])
    added = function.each(U32, f"add {word} {{0}}, {{1}}", bits, bias)
    rounded = function.each(U32, f"lshr {word} {{0}}, {{1}}", added, constants[0])
    unordered = function.each(BOOL, f"fcmp uno {function.vector(F32)} {{0}}, {{0}}", value)
    quiet = function.each(U32, f"or {word} {{0}}, {{1}}", high, function.splat(0x40, U32))
    chosen = selected(function, unordered, quiet, rounded)
    return Value(BF16, _cast(function, "trunc", chosen, U16).parts)


def selected(function: Function, condition: Value, yes: Value, no: Value) -> Value:
    """``yes`` where a condition holds."""
    type = function.vector(yes.dtype)
    text = f"select {function.vector(BOOL)} {{0}}, {type} {{1}}, {type} {{2}}"
    return function.each(yes.dtype, text, condition, yes, no)
