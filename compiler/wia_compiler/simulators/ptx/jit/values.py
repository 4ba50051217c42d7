"""Instructions that compute: the rows of the semantics tables, written for the lanes of a warp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from wia_compiler.simulators.ptx.jit.code import Function, Value
from wia_compiler.simulators.ptx.jit.conversions import converted, reinterpreted
from wia_compiler.simulators.ptx.jit.lanes import Lanes
from wia_compiler.simulators.ptx.jit.traced import Traced
from wia_compiler.simulators.ptx.operands import items_of
from wia_compiler.simulators.ptx.syntax import Operand, Pair
from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.convert import shorter
from wia_compiler.simulators.ptx.values.form import Form, Row, UnknownForm

U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)
_NEAREST = frozenset({"rn", "full", "approx"})
"""Modifiers under which an operation is rounded to nearest and nothing else is done."""


def write_value(lanes: Lanes, form: Form, row: Row) -> None:
    """One instruction of a table."""
    target, *sources = form.instruction.operands
    types, results = row.sources(form), row.results(form)
    if len(types) != len(sources):
        raise UnknownForm(f"{form.instruction.name} with {len(sources)} sources")
    native = _NATIVE.get(form.instruction.opcode)
    if native is not None and form.flags <= _NEAREST and form.type.name in ("f32", "f64"):
        # The numbers are the table's; the one NaN of the hardware comes when bits are looked at.
        operands = [lanes.read(each, form.type, raw=True) for each in sources]
        lanes.write(target, form.type, native(lanes.function, *operands), raw=True)
        return
    if any(type.lanes > 1 for type in (*types, *results)):
        _write_packed(lanes, form, row)
        return
    made: Any = row.compute(
        form, *(lanes.traced(each, type) for each, type in zip(sources, types, strict=True))
    )
    values = cast("tuple[Any, ...]", made) if isinstance(made, tuple) else (made,)
    targets = (target.first, target.second) if isinstance(target, Pair) else (target,)
    for place, type, value in zip(targets, results, values, strict=False):
        lanes.write_traced(place, type, value)


def _binary(word: str) -> Callable[..., Value]:
    def write(function: Function, a: Value, b: Value) -> Value:
        return function.each(a.dtype, f"{word} {function.vector(a.dtype)} {{0}}, {{1}}", a, b)

    return write


def _fused(function: Function, a: Value, b: Value, c: Value) -> Value:
    return function.call("llvm.fma", a.dtype, a, b, c)


def _square_root(function: Function, a: Value) -> Value:
    return function.call("llvm.sqrt", a.dtype, a)


def _reciprocal(function: Function, a: Value) -> Value:
    return _binary("fdiv")(function, function.splat(1, a.dtype), a)


_NATIVE: dict[str, Callable[..., Value]] = {
    "add": _binary("fadd"),
    "sub": _binary("fsub"),
    "mul": _binary("fmul"),
    "fma": _fused,
    "mad": _fused,
    "div": _binary("fdiv"),
    "sqrt": _square_root,
    "rcp": _reciprocal,
}
"""Operations that one instruction of the processor rounds as the tables do."""


def _write_packed(lanes: Lanes, form: Form, row: Row) -> None:
    """An operation on two halves in one register: on each half, put together again."""
    target, *sources = form.instruction.operands
    types, (result, *_) = row.sources(form), row.results(form)
    if form.instruction.opcode == "cvt":
        if result.lanes != 2 or len(sources) != 2:
            raise UnknownForm(form.instruction.name)
        high, low = (lanes.traced(each, type) for each, type in zip(sources, types, strict=True))
        shorten: Callable[..., Any] = shorter
        halves = [_value(lanes, shorten(form, each, result), result) for each in (low, high)]
    else:
        halves: list[Value] = []
        for half in range(2):
            operands = [
                _half(lanes, each, type, half) for each, type in zip(sources, types, strict=True)
            ]
            made: Any = row.compute(form, *operands)
            first = cast("tuple[Any, ...]", made)[0] if isinstance(made, tuple) else made
            halves.append(_value(lanes, first, result))
    if result.kind == "predicate":
        targets = (target.first, target.second) if isinstance(target, Pair) else (target,)
        for place, value in zip(targets, halves, strict=False):
            lanes.write(place, result, value)
        return
    whole = TYPES[f"b{result.bits}"]
    lanes.write(target, whole, joined(lanes.function, halves, whole.value))


def _half(lanes: Lanes, operand: Operand, type: PtxType, half: int) -> Traced:
    if type.lanes == 1:
        return lanes.traced(operand, type)
    part = np.dtype(f"u{type.value.itemsize}")
    bits = part_of(lanes.function, lanes.read(operand, TYPES[f"b{type.bits}"]), half, part)
    return Traced(lanes.function, reinterpreted(lanes.function, bits, type.value))


def _value(lanes: Lanes, made: Any, type: PtxType) -> Value:
    if isinstance(made, Traced):
        return converted(lanes.function, made.value, type.value)
    return lanes.function.splat(np.asarray(made).astype(type.value)[()], type.value)


def joined(function: Function, parts: list[Value], dtype: np.dtype[Any]) -> Value:
    """Values put into one, the first lowest."""
    bits = dtype.itemsize * 8 // len(parts)
    narrow = np.dtype(f"u{bits // 8}")
    total: Value | None = None
    for number, part in enumerate(parts):
        wide = converted(function, reinterpreted(function, part, narrow), dtype)
        if number:
            shift = function.splat(number * bits, dtype)
            wide = function.each(dtype, f"shl {function.vector(dtype)} {{0}}, {{1}}", wide, shift)
        if total is not None:
            wide = function.each(dtype, f"or {function.vector(dtype)} {{0}}, {{1}}", total, wide)
        total = wide
    assert total is not None
    return total


def part_of(function: Function, value: Value, number: int, dtype: np.dtype[Any]) -> Value:
    """A part of a value's bits, as a narrower type."""
    if number:
        shift = function.splat(number * dtype.itemsize * 8, value.dtype)
        type = function.vector(value.dtype)
        value = function.each(value.dtype, f"lshr {type} {{0}}, {{1}}", value, shift)
    return converted(function, value, dtype)


def write_move(lanes: Lanes, form: Form) -> None:
    """``mov``: a register, an address, or the parts of a register put together or taken apart."""
    target, source = form.instruction.operands
    targets, sources = items_of(target), items_of(source)
    if len(targets) == len(sources) == 1:
        lanes.write(target, form.type, lanes.read(source, form.type))
        return
    whole = TYPES[f"b{form.type.bits}"]
    part = TYPES[f"b{form.type.bits // max(len(targets), len(sources))}"]
    function = lanes.function
    if len(sources) > 1:
        parts = [lanes.read(each, part) for each in sources]
        lanes.write(target, whole, joined(function, parts, whole.value))
        return
    value = lanes.read(source, whole)
    for number, each in enumerate(targets):
        lanes.write(each, part, part_of(function, value, number, part.value))
