"""``atom`` and ``red``: one lane after the other, in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.combiners import COMBINERS
from wia_compiler.simulators.ptx.decode_memory import check_memory_flags, space_of
from wia_compiler.simulators.ptx.jit.access import Access, address_of
from wia_compiler.simulators.ptx.jit.code import Function, Value, element_type
from wia_compiler.simulators.ptx.jit.conversions import reinterpreted
from wia_compiler.simulators.ptx.jit.lanes import Lanes, mask_bits
from wia_compiler.simulators.ptx.jit.loops import each_lane
from wia_compiler.simulators.ptx.jit.mbarrier import keep, kept_row
from wia_compiler.simulators.ptx.jit.memory import Slots, checked, memory_space
from wia_compiler.simulators.ptx.jit.traced import Traced
from wia_compiler.simulators.ptx.operands import items_of
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm


def write_atomic(lanes: Lanes, form: Form, slots: Slots) -> None:
    """A loop over the lanes that run: what the place holds, then what it holds afterwards."""
    instruction, type = form.instruction, form.type
    operation = form.one_of(tuple(COMBINERS))
    check_memory_flags(form, frozenset({operation}))
    if not operation:
        raise UnknownForm(instruction.name)
    returns = instruction.opcode == "atom"
    operands = instruction.operands[1:] if returns else instruction.operands
    function = lanes.function
    space = memory_space(space_of(form))
    items = items_of(operands[1])
    size = type.size_bytes * len(items)
    access = Access(space, size, size, slots.get(space))
    active = lanes.active()
    base, offset = checked(lanes, access, address_of(lanes, operands[0]), active)
    if len(items) > 1 or type.lanes > 1:
        targets = items_of(instruction.operands[0]) if returns else ()
        _vector(lanes, type, operation, (base, offset), items, targets)
        return
    values = [reinterpreted(function, lanes.read(each, type), type.holder) for each in operands[1:]]
    _keep(function, "places", offset)
    _keep(function, "first", values[0])
    _keep(function, "second", values[-1])
    bits = "-1" if active is None else mask_bits(function, active)
    _loop(function, base, bits, type, operation)
    if returns:
        before = Value(type.holder, tuple(_kept(function, "before", type.holder)))
        lanes.write(instruction.operands[0], type, reinterpreted(function, before, type.value))


def _vector(
    lanes: Lanes, type: PtxType, operation: str, place: tuple[str, Value], items: tuple[Any, ...],
    targets: tuple[Any, ...],
) -> None:  # fmt: skip
    """Elements of a vector, and halves of a packed type, each an operation of its own."""
    function, active = lanes.function, lanes.active()
    base, offset = place
    held = TYPES[f"b{type.bits}"]
    _keep(function, "places", offset)
    for row, item in enumerate(items):
        keep(function, "bulk", lanes.read(item, held), row)
    bits = "-1" if active is None else mask_bits(function, active)
    element = np.dtype(f"u{type.value.itemsize}")
    word, step = element_type(element), element.itemsize

    def turn(lane: str) -> None:
        at = function.new(f"getelementptr i64, ptr %places, i32 {lane}")
        start = function.new(f"load i64, ptr {at}, align 8")
        wide = function.new(f"zext i32 {lane} to i64")
        own = function.new(f"mul i64 {wide}, {held.size_bytes}")
        for number in range(len(items) * type.lanes):
            row, half = divmod(number, type.lanes)
            far = function.new(f"add i64 {own}, {row * WARP * held.size_bytes + half * step}")
            mine = function.new(f"getelementptr i8, ptr %bulk, i64 {far}")
            there = function.new(f"add i64 {start}, {number * step}")
            to = function.new(f"getelementptr i8, ptr {base}, i64 {there}")
            one = function.single()
            old, value = (
                function.new(f"load {word}, ptr {each}, align {step}") for each in (to, mine)
            )
            values = [Traced(one, _single_of(one, each, element, type)) for each in (old, value)]
            made: Any = COMBINERS[operation](values[0], values[1], values[1])  # pyright: ignore[reportArgumentType]
            new = reinterpreted(one, made.astype(type.value).value, element)
            scalar = one.new(f"extractelement <1 x {word}> {new.parts[0]}, i64 0")
            function.emit(f"store {word} {scalar}, ptr {to}, align {step}")
            function.emit(f"store {word} {old}, ptr {mine}, align {step}")

    each_lane(function, bits, turn)
    for row, target in enumerate(targets):
        lanes.write(target, held, kept_row(function, "bulk", held.holder, row))


def _single_of(one: Function, scalar: str, holder: np.dtype[Any], type: PtxType) -> Value:
    """A scalar as a vector of one lane, of the element type of a packed one."""
    word = element_type(holder)
    made = one.new(f"insertelement <1 x {word}> poison, {word} {scalar}, i64 0")
    return reinterpreted(one, Value(holder, (made,)), type.value)


def _keep(function: Function, name: str, value: Value) -> None:
    """Put a value where a loop over lanes finds it."""
    element, width = element_type(value.dtype), function.width
    for part, each in enumerate(value.parts):
        place = function.new(f"getelementptr {element}, ptr %{name}, i64 {part * width}")
        function.emit(f"store <{width} x {element}> {each}, ptr {place}, align 8")


def _kept(function: Function, name: str, dtype: np.dtype[Any]) -> list[str]:
    element, width = element_type(dtype), function.width
    found: list[str] = []
    for part in range(function.parts):
        place = function.new(f"getelementptr {element}, ptr %{name}, i64 {part * width}")
        found.append(function.new(f"load <{width} x {element}>, ptr {place}, align 8"))
    return found


def _loop(function: Function, base: str, bits: str, type: PtxType, operation: str) -> None:
    element = element_type(type.holder)
    before, turn, work, after = (function.fresh(each) for each in ("here", "turn", "work", "after"))
    function.emit(f"br label %{before}")
    function.start(before)
    function.emit(f"br label %{turn}")
    function.start(turn)
    next_rest = function.fresh("%next")
    rest = function.new(f"phi i32 [ {bits}, %{before} ], [ {next_rest}, %{work}_end ]")
    none = function.new(f"icmp eq i32 {rest}, 0")
    function.emit(f"br i1 {none}, label %{after}, label %{work}")
    function.start(work)
    count = function.declare("llvm.cttz.i32", "declare i32 @llvm.cttz.i32(i32, i1)")
    lane = function.new(f"call i32 @{count}(i32 {rest}, i1 true)")

    def of_lane(name: str, kind: str) -> str:
        place = function.new(f"getelementptr {kind}, ptr %{name}, i32 {lane}")
        return function.new(f"load {kind}, ptr {place}, align {type.size_bytes}")

    place = function.new(f"getelementptr i8, ptr {base}, i64 {of_lane('places', 'i64')}")
    old = function.new(f"load {element}, ptr {place}, align {type.size_bytes}")
    one = function.single()
    values = [
        Traced(one, _single(one, each, type))
        for each in (old, of_lane("first", element), of_lane("second", element))
    ]
    made: Any = COMBINERS[operation](*values)  # pyright: ignore[reportArgumentType]
    new = reinterpreted(one, made.astype(type.value).value, type.holder)
    scalar = one.new(f"extractelement <1 x {element}> {new.parts[0]}, i64 0")
    function.emit(f"store {element} {scalar}, ptr {place}, align {type.size_bytes}")
    result = function.new(f"getelementptr {element}, ptr %before, i32 {lane}")
    function.emit(f"store {element} {old}, ptr {result}, align {type.size_bytes}")
    function.emit(f"br label %{work}_end")
    function.start(f"{work}_end")
    less = function.new(f"sub i32 {rest}, 1")
    function.emit(f"{next_rest} = and i32 {rest}, {less}")
    function.emit(f"br label %{turn}")
    function.start(after)


def _single(one: Function, scalar: str, type: PtxType) -> Value:
    """A scalar as a vector of one lane."""
    element = element_type(type.holder)
    made = one.new(f"insertelement <1 x {element}> poison, {element} {scalar}, i64 0")
    return reinterpreted(one, Value(type.holder, (made,)), type.value)
