"""The registers of a warp while one block of its code is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.jit.code import Function, Value
from wia_compiler.simulators.ptx.jit.conversions import (
    BOOL,
    converted,
    reinterpreted,
    selected,
)
from wia_compiler.simulators.ptx.jit.layout import WarpLayout
from wia_compiler.simulators.ptx.jit.specials import special_value
from wia_compiler.simulators.ptx.jit.traced import Traced
from wia_compiler.simulators.ptx.operands import Scope
from wia_compiler.simulators.ptx.syntax import Immediate, Operand, Pair, Register, Symbol
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.types import HOLDERS, TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import UnknownForm
from wia_compiler.simulators.ptx.values.rounding import canonical

U32 = np.dtype(np.uint32)


@dataclass(frozen=True)
class Held:
    """What a register holds; ``raw`` where a NaN in it may have any bits yet."""

    value: Value
    raw: bool = False


class Lanes:
    """Registers by name: loaded from the warp's memory when first read, stored at the end.

    ``mask`` says which lanes run (``None``: all of them), ``predicate`` for which of these the
    current instruction holds (``None``: for all). A result replaces what a lane held where both
    hold; the mask is applied when the block stores what outlives it.
    """

    def __init__(self, function: Function, scope: Scope, layout: WarpLayout, mask: Value | None):
        self.function = function
        self.scope = scope
        self.layout = layout
        self.mask = mask
        self.predicate: Value | None = None
        self._held: dict[str, Held] = {}

    def read(self, operand: Operand, type: PtxType, *, raw: bool = False) -> Value:
        """An operand as numbers of a type; with ``raw``, its NaNs may have any bits."""
        meant = self.scope.meant(operand) or operand
        match meant:
            case Register():
                return self._register(meant, type, raw)
            case Immediate():
                return self.function.splat(_number(meant, type), type.value)
            case Symbol("WARP_SZ"):
                return self.function.splat(WARP, type.value)
            case Symbol():
                return self.function.splat(self.scope.address(meant), type.value)
            case _:
                raise UnknownForm(f"an operand {meant} where a value is expected")

    def traced(self, operand: Operand, type: PtxType) -> Traced:
        """The same as what stands for an array in the tables."""
        return Traced(self.function, self.read(operand, type))

    def _register(self, operand: Register, type: PtxType, raw: bool) -> Value:
        declared = self.scope.register(operand.name)
        if operand.name not in self.scope.entry.registers:
            value = special_value(self, operand.name)
        else:
            value = self._value(operand.name, declared, raw)
        if declared.kind == "predicate":
            return self._negated(value) if operand.negated else value
        if value.dtype == type.value:
            return value
        bits = reinterpreted(self.function, value, declared.holder)
        if declared.bits != type.bits:
            bits = converted(self.function, bits, type.holder)
        return reinterpreted(self.function, bits, type.value)

    def _negated(self, value: Value) -> Value:
        text = f"xor {self.function.vector(BOOL)} {{0}}, splat (i1 true)"
        return self.function.each(BOOL, text, value)

    def _value(self, name: str, declared: PtxType, raw: bool) -> Value:
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = Held(self._load(name, declared))
        if held.raw and not raw:
            made = canonical(Traced(self.function, held.value))  # pyright: ignore[reportArgumentType]
            assert isinstance(made, Traced)
            held = self._held[name] = Held(made.value)
        return held.value

    def write(
        self, operand: Operand | None, type: PtxType, value: Value, *, raw: bool = False
    ) -> None:
        """Give a register numbers of a type; a wider register is filled up by sign or 0."""
        meant = self.scope.meant(operand)
        if meant is None or meant == Pair(None, None):
            return
        if not isinstance(meant, Register):
            raise UnknownForm(f"an operand {meant} where a register is expected")
        name, declared = meant.name, self.scope.register(meant.name)
        if value.dtype != type.value:
            value = converted(self.function, value, type.value)
        if declared.bits != type.bits:
            between = np.dtype(np.int64 if type.kind == "signed" else np.uint64)
            value = converted(
                self.function, converted(self.function, value, between), declared.holder
            )
        if self.predicate is not None:
            old = self._register(Register(name), _like(declared, value), raw)
            old = reinterpreted(self.function, old, value.dtype)
            value = selected(self.function, self.predicate, value, old)
        self._held[name] = Held(value, raw)

    def write_traced(self, operand: Operand | None, type: PtxType, value: Any) -> None:
        """Give a register a result of the tables, which may be a constant."""
        made = (
            value.value
            if isinstance(value, Traced)
            else self.function.splat(np.asarray(value).astype(type.value)[()], type.value)
        )
        self.write(operand, type, made)

    def held(self) -> dict[str, Held]:
        """What each register holds here."""
        return dict(self._held)

    def matched(self, before: Mapping[str, Held]) -> dict[str, Held]:
        """What registers hold here that held something else before, as the types of then."""
        return {
            name: Held(
                reinterpreted(self.function, self._held[name].value, old.value.dtype),
                self._held[name].raw,
            )
            for name, old in before.items()
            if self._held[name] != old
        }

    def join(
        self, before: Mapping[str, Held], skipped: str, made: Mapping[str, Held], worked: str
    ) -> None:
        """Go on after two ways: from one label with what was held before, from another with what
        was made there. What was only read on the second is forgotten.
        """
        self._held = dict(before)
        for name, new in made.items():
            old = before[name]
            type = self.function.vector(old.value.dtype)
            parts = tuple(
                self.function.new(f"phi {type} [ {a}, %{skipped} ], [ {b}, %{worked} ]")
                for a, b in zip(old.value.parts, new.value.parts, strict=True)
            )
            self._held[name] = Held(Value(old.value.dtype, parts), old.raw or new.raw)

    def active(self) -> Value | None:
        """Where the current instruction runs: mask and predicate; ``None`` for all lanes."""
        if self.mask is None or self.predicate is None:
            return self.predicate if self.mask is None else self.mask
        text = f"and {self.function.vector(BOOL)} {{0}}, {{1}}"
        return self.function.each(BOOL, text, self.mask, self.predicate)

    def _place(self, name: str, part: int, size: int) -> str:
        offset = self.layout.registers[name] + part * size
        return self.function.new(f"getelementptr i8, ptr %warp, i64 {offset}")

    def _load(self, name: str, declared: PtxType) -> Value:
        function, width = self.function, self.function.width
        if name not in self.layout.registers:
            # Never written before: 0, as the other engine has it.
            return function.splat(0, declared.holder)
        names: list[str] = []
        for part in range(function.parts):
            if declared.kind == "predicate":
                place = self._place(name, part, width // 8)
                bits = function.new(f"load i{width}, ptr {place}, align 1")
                names.append(function.new(f"bitcast i{width} {bits} to <{width} x i1>"))
            else:
                size = width * declared.holder.itemsize
                type = function.vector(declared.holder)
                place = self._place(name, part, size)
                names.append(function.new(f"load {type}, ptr {place}, align {min(size, 64)}"))
        return Value(declared.holder, tuple(names))

    def store(self, name: str) -> None:
        """Put a register where the next block finds it, in the lanes that run."""
        if name not in self._held:
            return
        declared = self.scope.register(name)
        value = self._value(name, declared, raw=False)
        function, width = self.function, self.function.width
        if declared.kind != "predicate":
            value = reinterpreted(function, value, declared.holder)
        if self.mask is not None:
            value = selected(function, self.mask, value, self._load(name, declared))
        for part, each in enumerate(value.parts):
            if declared.kind == "predicate":
                bits = function.new(f"bitcast <{width} x i1> {each} to i{width}")
                place = self._place(name, part, width // 8)
                function.emit(f"store i{width} {bits}, ptr {place}, align 1")
            else:
                size = width * declared.holder.itemsize
                place = self._place(name, part, size)
                type = function.vector(declared.holder)
                function.emit(f"store {type} {each}, ptr {place}, align {min(size, 64)}")


def _like(declared: PtxType, value: Value) -> PtxType:
    """The type that reads a register as the bits of a value of its width."""
    if declared.kind == "predicate":
        return declared
    return TYPES[f"b{declared.bits}"]


def _number(operand: Immediate, type: PtxType) -> Any:
    """An immediate as one number of a type (see ``operands.reader``)."""
    if type.kind == "predicate":
        return bool(operand.value)
    if operand.bits is not None:
        bits = np.array(operand.value, HOLDERS[operand.bits])
        if type.kind == "float" and type.bits != operand.bits:
            return bits.view(f"f{operand.bits // 8}").astype(type.value)[()]
        return bits.astype(type.holder).view(type.value)[()]
    if type.kind == "float" and isinstance(operand.value, float):
        return type.value.type(operand.value)
    whole = int(operand.value) % (1 << type.bits)
    return np.array(whole, type.holder).view(type.value)[()]


def mask_bits(function: Function, value: Value) -> str:
    """A truth value of every lane as one i32, lane 0 lowest."""
    width = function.width
    total = "0"
    for part, each in enumerate(value.parts):
        bits = function.new(f"bitcast <{width} x i1> {each} to i{width}")
        wide = function.new(f"zext i{width} {bits} to i32") if width < WARP else bits
        if part:
            wide = function.new(f"shl i32 {wide}, {part * width}")
        total = function.new(f"or i32 {total}, {wide}")
    return total


def lanes_of_mask(function: Function, bits: str) -> Value:
    """The lanes whose bit is set in an i32."""
    width = function.width
    parts: list[str] = []
    for part in range(function.parts):
        moved = function.new(f"lshr i32 {bits}, {part * width}") if part else bits
        narrow = function.new(f"trunc i32 {moved} to i{width}") if width < WARP else moved
        parts.append(function.new(f"bitcast i{width} {narrow} to <{width} x i1>"))
    return Value(BOOL, tuple(parts))
