"""Where the lanes of an access lie: the memory of a space, checks, gathers and scatters.

An access that leaves its memory or its alignment, and whatever else is not handled here, ends the
launch with ``bail``; the other engine then runs it from the start and says what is wrong and where.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.jit.code import Function, Value, name_suffix
from wia_compiler.simulators.ptx.jit.conversions import BOOL, converted
from wia_compiler.simulators.ptx.jit.lanes import Lanes, mask_bits
from wia_compiler.simulators.ptx.jit.specials import lane_thread, word
from wia_compiler.simulators.ptx.memory import DEVICE_BASE
from wia_compiler.simulators.ptx.syntax import Address, Operand, Register
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import UnknownForm

U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)
_GRANULE_SHIFT = 8
"""Buffers of device memory lie in granules of 256 bytes (see ``memory.DeviceMemory``)."""


@dataclass(frozen=True)
class Access:
    """One memory instruction: its space, the bytes a lane moves, and where it counts.

    ``size`` bytes must be aligned; the first ``inside`` of them must lie in a buffer.
    """

    space: str
    size: int
    inside: int
    slot: int | None


def address_of(lanes: Lanes, operand: Operand) -> Value:
    """The address in brackets, as unsigned 64 bits."""
    if not isinstance(operand, Address):
        raise UnknownForm(f"an operand {operand} where an address is expected")
    function = lanes.function
    base = lanes.scope.meant(operand.base)
    offset = operand.offset % (1 << 64)
    if base is None:
        return function.splat(offset, U64)
    bits = lanes.scope.register(base.name).bits if isinstance(base, Register) else 64
    value = lanes.read(base, TYPES[f"u{bits}"])
    if offset:
        shift = function.splat(offset % (1 << bits), value.dtype)
        value = function.each(
            value.dtype, f"add {function.vector(value.dtype)} {{0}}, {{1}}", value, shift
        )
    return converted(function, value, U64)


@dataclass(frozen=True)
class Window:
    """The memory of a space: where it begins, offsets into it, how many bytes are there.

    Where each lane has memory of its own, ``lead`` is where that begins.
    """

    base: str
    offset: Value
    limit: str
    lead: Value | None = None


def window_of(lanes: Lanes, access: Access, address: Value) -> Window:
    function = lanes.function
    match access.space:
        case "shared":
            return Window(word(function, "shared", "ptr"), address, word(function, "shared_bytes"))
        case "global":
            base = function.splat(DEVICE_BASE, U64)
            text = f"sub {function.vector(U64)} {{0}}, {{1}}"
            offset = function.each(U64, text, address, base)
            return Window(word(function, "arena", "ptr"), offset, word(function, "arena_bytes"))
        case _:
            size = word(function, "local_bytes")
            thread = lane_thread(lanes.function, lanes.layout, U64)
            type = function.vector(U64)
            each = function.spread(size, U64)
            lead = function.each(U64, f"mul {type} {{0}}, {{1}}", thread, each)
            return Window(word(function, "local", "ptr"), address, size, lead)


def led(function: Function, window: Window) -> Value:
    """Offsets from the beginning of the whole memory."""
    if window.lead is None:
        return window.offset
    text = f"add {function.vector(U64)} {{0}}, {{1}}"
    return function.each(U64, text, window.offset, window.lead)


def is_contiguous(function: Function, access: Access, window: Window) -> str:
    """Whether each lane's bytes follow those of the lane before."""
    type = function.vector(U64)
    first = function.new(f"extractelement {type} {window.offset.parts[0]}, i64 0")
    expected = function.lane_numbers(U64, access.size)
    start = function.spread(first, U64)
    ahead = function.each(U64, f"add {type} {{0}}, {{1}}", start, expected)
    same = function.each(BOOL, f"icmp eq {type} {{0}}, {{1}}", ahead, window.offset)
    return function.new(f"icmp eq i32 {mask_bits(function, same)}, -1")


def check_run(function: Function, access: Access, window: Window, first: str) -> None:
    """Bail unless all bytes of a contiguous access lie in one buffer, aligned."""
    last = function.new(f"add i64 {first}, {access.size * (WARP - 1) + access.inside}")
    low = function.new(f"and i64 {first}, {access.size - 1}")
    crooked = function.new(f"icmp ne i64 {low}, 0")
    limit = window.limit
    if access.space == "global":
        # The table has an entry for each granule of the arena, none behind it.
        outside = function.new(f"icmp uge i64 {first}, {limit}")
        safe = function.new(f"select i1 {outside}, i64 0, i64 {first}")
        granule = function.new(f"lshr i64 {safe}, {_GRANULE_SHIFT}")
        ends = word(function, "ends", "ptr")
        place = function.new(f"getelementptr i64, ptr {ends}, i64 {granule}")
        end = function.new(f"load i64, ptr {place}, align 8")
        beyond = function.new(f"icmp ugt i64 {last}, {end}")
        wrong = function.new(f"or i1 {outside}, {beyond}")
    else:
        wraps = function.new(f"icmp ult i64 {last}, {first}")
        beyond = function.new(f"icmp ugt i64 {last}, {limit}")
        wrong = function.new(f"or i1 {wraps}, {beyond}")
    bail_if(function, function.new(f"or i1 {wrong}, {crooked}"))


def check_lanes(function: Function, access: Access, window: Window, active: Value | None) -> None:
    """Bail unless every lane's bytes lie in a buffer, aligned."""
    type, offset = function.vector(U64), window.offset
    low = function.each(
        U64, f"and {type} {{0}}, {{1}}", offset, function.splat(access.size - 1, U64)
    )
    wrong = function.each(BOOL, f"icmp ne {type} {{0}}, {{1}}", low, function.splat(0, U64))
    limit = function.spread(window.limit, U64)
    outside = function.each(BOOL, f"icmp uge {type} {{0}}, {{1}}", offset, limit)
    last = function.each(
        U64, f"add {type} {{0}}, {{1}}", offset, function.splat(access.inside, U64)
    )
    if access.space == "global":
        zero = function.splat(0, U64)
        bits = function.vector(BOOL)
        text = f"select {bits} {{0}}, {type} {{1}}, {type} {{2}}"
        safe = function.each(U64, text, outside, zero, offset)
        shift = function.splat(_GRANULE_SHIFT, U64)
        granule = function.each(U64, f"lshr {type} {{0}}, {{1}}", safe, shift)
        table = Window(word(function, "ends", "ptr"), granule, "")
        limit = gather(function, table, None, U64, 0, scale="i64")
    beyond = function.each(BOOL, f"icmp ugt {type} {{0}}, {{1}}", last, limit)
    for more in (outside, beyond):
        wrong = function.each(BOOL, f"or {function.vector(BOOL)} {{0}}, {{1}}", wrong, more)
    if active is not None:
        wrong = function.each(BOOL, f"and {function.vector(BOOL)} {{0}}, {{1}}", wrong, active)
    bail_if(function, function.new(f"icmp ne i32 {mask_bits(function, wrong)}, 0"))


def bail_if(function: Function, condition: str) -> None:
    """End the launch where a condition holds: the other engine takes it over."""
    fine = function.fresh("fine")
    function.emit(f"br i1 {condition}, label %bail, label %{fine}, !prof !0")
    function.start(fine)


def _pointers(function: Function, window: Window, number: int, size: int, scale: str) -> Value:
    type = function.vector(U64)
    width = function.width
    offset = led(function, window)
    if number:
        shift = function.splat(number * size, U64)
        offset = function.each(U64, f"add {type} {{0}}, {{1}}", offset, shift)
    text = f"getelementptr {scale}, ptr {window.base}, <{width} x i64> {{0}}"
    return function.each(U64, text, offset)


def gather(
    function: Function, window: Window, active: Value | None, dtype: np.dtype[Any], number: int,
    scale: str = "i8",
) -> Value:  # fmt: skip
    """An element of each lane's access; 0 in lanes that do not run."""
    width, type = function.width, function.vector(dtype)
    pointers = _pointers(function, window, number, dtype.itemsize, scale)
    name = f"llvm.masked.gather.v{width}{name_suffix(dtype)}.v{width}p0"
    function.declare(name, f"declare {type} @{name}(<{width} x ptr>, <{width} x i1>, {type})")
    mask = active or function.splat(True, BOOL)
    return function.each(
        dtype,
        f"call {type} @{name}(<{width} x ptr> align {dtype.itemsize} {{0}}, <{width} x i1> {{1}}, "
        f"{type} zeroinitializer)",
        pointers,
        mask,
    )


def scatter(function: Function, window: Window, active: Value | None, values: list[Value]) -> None:
    width = function.width
    mask = active or function.splat(True, BOOL)
    for number, value in enumerate(values):
        type, size = function.vector(value.dtype), value.dtype.itemsize
        pointers = _pointers(function, window, number, size, "i8")
        name = f"llvm.masked.scatter.v{width}{name_suffix(value.dtype)}.v{width}p0"
        function.declare(name, f"declare void @{name}({type}, <{width} x ptr>, <{width} x i1>)")
        for part in range(function.parts):
            function.emit(
                f"call void @{name}({type} {value.parts[part]}, <{width} x ptr> align {size} "
                f"{pointers.parts[part]}, <{width} x i1> {mask.parts[part]})"
            )
