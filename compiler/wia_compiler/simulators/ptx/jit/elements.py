"""Elements of matrices as f64: what ``matrix_elements.numbers`` does, in LLVM IR."""

from __future__ import annotations

import numpy as np

from wia_compiler.simulators.ptx.jit.code import BF16, Function, Value
from wia_compiler.simulators.ptx.jit.conversions import (
    BOOL,
    converted,
    reinterpreted,
    selected,
)
from wia_compiler.simulators.ptx.jit.values import part_of
from wia_compiler.simulators.ptx.matrix_elements import BITS, ELEMENTS
from wia_compiler.simulators.ptx.values.form import Form

F64, F32, F16 = (np.dtype(kind) for kind in (np.float64, np.float32, np.float16))
I64, I32 = np.dtype(np.int64), np.dtype(np.int32)
U8, U16, U32 = (np.dtype(kind) for kind in (np.uint8, np.uint16, np.uint32))
_E4M3_BIAS = 256.0
"""What the larger bias of an f16 exponent takes away from an e4m3 in its place: 2 ** (15 - 7)."""


def numbers_of(function: Function, value: Value, name: str) -> list[Value]:
    """The elements of a register as f64, the lowest first."""
    if name in ("s4", "u4"):
        return [_nibble(function, value, number, name) for number in range(8)]
    size = BITS[name] // 8
    bits = np.dtype(f"u{size}")
    parts = [part_of(function, value, n, bits) for n in range(value.dtype.itemsize // size)]
    return [number_of(function, part, name) for part in parts]


def number_of(function: Function, bits: Value, name: str) -> Value:
    """An element as f64, from an unsigned integer of its width."""
    match name:
        case "tf32":
            mask = function.splat(0xFFFFE000, U32)
            cut = function.each(U32, f"and {function.vector(U32)} {{0}}, {{1}}", bits, mask)
            return converted(function, reinterpreted(function, cut, F32), F64)
        case "bf16":
            return converted(function, Value(BF16, bits.parts), F64)
        case "e5m2":
            # The upper half of an f16.
            half = _shifted(function, converted(function, bits, U16), 8)
            return converted(function, reinterpreted(function, half, F16), F64)
        case "e4m3":
            return _from_e4m3(function, bits)
        case _:
            return converted(function, reinterpreted(function, bits, ELEMENTS[name]), F64)


def _shifted(function: Function, value: Value, amount: int) -> Value:
    type = function.vector(value.dtype)
    return function.each(
        value.dtype, f"shl {type} {{0}}, {{1}}", value, function.splat(amount, value.dtype)
    )


def _from_e4m3(function: Function, bits: Value) -> Value:
    """Exponent and mantissa in those of an f16, which is then too small by a power of two."""
    wide = converted(function, bits, U16)
    type = function.vector(U16)
    size = function.each(U16, f"and {type} {{0}}, {{1}}", wide, function.splat(0x7F, U16))
    sign = function.each(U16, f"and {type} {{0}}, {{1}}", wide, function.splat(0x80, U16))
    half = function.each(
        U16,
        f"or {type} {{0}}, {{1}}",
        _shifted(function, size, 7),
        _shifted(function, sign, 8),
    )
    number = converted(function, reinterpreted(function, half, F16), F64)
    text = f"fmul {function.vector(F64)} {{0}}, {{1}}"
    number = function.each(F64, text, number, function.splat(_E4M3_BIAS, F64))
    odd = function.each(BOOL, f"icmp eq {type} {{0}}, {{1}}", size, function.splat(0x7F, U16))
    return selected(function, odd, function.splat(np.nan, F64), number)


def _nibble(function: Function, value: Value, number: int, name: str) -> Value:
    """4 bits, moved to the top and back down with or without their sign."""
    type = function.vector(value.dtype)
    top = _shifted(function, value, 28 - 4 * number) if number < 7 else value
    word = "ashr" if name == "s4" else "lshr"
    moved = function.each(
        value.dtype, f"{word} {type} {{0}}, {{1}}", top, function.splat(28, value.dtype)
    )
    return converted(function, Value(I32, moved.parts), F64)


def rounded(function: Function, value: Value, dtype: np.dtype[np.generic], form: Form) -> Value:
    """Exact sums as a type (see ``matrix_elements.rounded_sums``)."""
    if dtype.kind == "f":
        made = converted(function, value, dtype)
        bits = np.dtype(f"u{dtype.itemsize}")
        odd = function.each(BOOL, f"fcmp uno {function.vector(dtype)} {{0}}, {{0}}", made)
        nan = {2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FF8000000000000}[dtype.itemsize]
        held = reinterpreted(function, made, bits)
        return selected(function, odd, function.splat(nan, bits), held)
    if "satfinite" in form.flags:
        limits = np.iinfo(np.int32)
        for test, limit in (("ogt", limits.max), ("olt", limits.min)):
            edge = function.splat(float(limit), F64)
            text = f"fcmp {test} {function.vector(F64)} {{0}}, {{1}}"
            value = selected(function, function.each(BOOL, text, value, edge), edge, value)
    return converted(function, converted(function, converted(function, value, I64), I32), U32)
