"""Accesses of a warp to memory: a vector load where neighbours read neighbours, else a gather.

An access that leaves its memory or its alignment, and whatever else is not handled here, ends the
launch with ``bail``; the other engine then runs it from the start and says what is wrong and where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from wia_compiler.simulators.ptx.decode_memory import (
    check_memory_flags,
    is_fixed,
    space_of,
)
from wia_compiler.simulators.ptx.jit.code import Function, Value, element_type
from wia_compiler.simulators.ptx.jit.conversions import BOOL, converted, reinterpreted
from wia_compiler.simulators.ptx.jit.lanes import Lanes, mask_bits
from wia_compiler.simulators.ptx.jit.layout import TRAFFIC_WORDS
from wia_compiler.simulators.ptx.jit.specials import lane_thread, word
from wia_compiler.simulators.ptx.memory import DEVICE_BASE, LOCAL_WINDOW, SHARED_WINDOW
from wia_compiler.simulators.ptx.operands import items_of
from wia_compiler.simulators.ptx.syntax import Address, Group, Immediate, Operand, Register, Symbol
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)
_GRANULE_SHIFT = 8
"""Buffers of device memory lie in granules of 256 bytes (see ``memory.DeviceMemory``)."""


Slots = Mapping[str, int]
"""Where an instruction counts its accesses to each space; empty where nothing is counted."""
MATRIX_ROW_BYTES = 16


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


def write_address(lanes: Lanes, form: Form) -> None:
    """``cvta``: between generic addresses and those of a space."""
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space_of(form), 0)
    shift = (-window if "to" in form.flags else window) % (1 << 64)
    value = lanes.read(form.instruction.operands[1], TYPES["u64"])
    if shift:
        function = lanes.function
        text = f"add {function.vector(U64)} {{0}}, {{1}}"
        value = function.each(U64, text, value, function.splat(shift, U64))
    lanes.write(form.instruction.operands[0], TYPES["u64"], value)


def write_load(lanes: Lanes, form: Form, slots: Slots) -> None:
    """``ld``: one element, or the elements of a vector, for each lane."""
    check_memory_flags(form)
    instruction, type = form.instruction, form.type
    targets = items_of(instruction.operands[0])
    space = space_of(form)
    if space == "param":
        _load_parameters(lanes, form, targets)
        return
    size = type.size_bytes * len(targets)
    place = memory_space(space)
    access = Access(place, size, type.size_bytes, slots.get(place))
    holder = type.holder if type.kind != "predicate" else np.dtype(np.uint8)
    address = address_of(lanes, instruction.operands[1])
    values = _loaded(lanes, access, address, holder, len(targets))
    for target, value in zip(targets, values, strict=True):
        lanes.write(target, type, reinterpreted(lanes.function, value, type.value))


def accesses_of(form: Form) -> tuple[tuple[str, int], ...]:
    """The spaces that a memory instruction touches, and the bytes that a lane moves there."""
    if form.instruction.opcode in ("ldmatrix", "stmatrix"):
        return (("shared", MATRIX_ROW_BYTES),)
    if form.instruction.opcode == "cp":
        size = form.instruction.operands[2] if len(form.instruction.operands) > 2 else None
        bytes_ = int(size.value) if isinstance(size, Immediate) else 0
        return (("global", bytes_), ("shared", bytes_)) if bytes_ else ()
    items = [items_of(each) for each in form.instruction.operands if isinstance(each, Group)]
    count = max((len(each) for each in items), default=1)
    return ((memory_space(space_of(form)), form.type.size_bytes * count),)


def memory_space(space: str) -> str:
    """Generic addresses are taken for those of device memory, and bail where they are not."""
    return "global" if space in ("generic", "const") else space


def _load_parameters(lanes: Lanes, form: Form, targets: tuple[Any, ...]) -> None:
    if not is_fixed(form.instruction):
        raise UnknownForm(f"{form.instruction.name} of a computed address")
    function, type = lanes.function, form.type
    address = form.instruction.operands[1]
    assert isinstance(address, Address) and isinstance(address.base, Symbol)
    start = lanes.scope.address(address.base) + address.offset
    base = word(function, "parameters", "ptr")
    for number, target in enumerate(targets):
        place = function.new(
            f"getelementptr i8, ptr {base}, i64 {start + number * type.size_bytes}"
        )
        scalar = function.new(f"load {element_type(type.holder)}, ptr {place}, align 1")
        value = function.spread(scalar, type.holder)
        lanes.write(target, type, reinterpreted(function, value, type.value))


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


def checked(
    lanes: Lanes, access: Access, address: Value, active: Value | None
) -> tuple[str, Value]:
    """A memory and where in it each lane's access lies, checked and counted."""
    function = lanes.function
    window = window_of(lanes, access, address)
    check_lanes(function, access, window, active)
    count_lanes(function, access, window, active)
    return window.base, _led(function, window)


def _led(function: Function, window: Window) -> Value:
    """Offsets from the beginning of the whole memory."""
    if window.lead is None:
        return window.offset
    text = f"add {function.vector(U64)} {{0}}, {{1}}"
    return function.each(U64, text, window.offset, window.lead)


def _loaded(
    lanes: Lanes, access: Access, address: Value, dtype: np.dtype[Any], count: int
) -> list[Value]:
    """The elements of an access, checked and counted."""
    function = lanes.function
    window = window_of(lanes, access, address)
    active = lanes.active()
    if active is not None or window.lead is not None:
        check_lanes(function, access, window, active)
        count_lanes(function, access, window, active)
        return [gather(function, window, active, dtype, number) for number in range(count)]
    joint, apart, after = (function.fresh(each) for each in ("joint", "apart", "after"))
    together = _is_contiguous(function, access, window)
    function.emit(f"br i1 {together}, label %{joint}, label %{apart}")
    function.start(joint)
    first = function.new(f"extractelement {function.vector(U64)} {window.offset.parts[0]}, i64 0")
    _check_run(function, access, window, first)
    _count_run(function, access, first)
    near = _vector_loads(function, window.base, first, dtype, count)
    joint_end = function.label
    function.emit(f"br label %{after}")
    function.start(apart)
    check_lanes(function, access, window, None)
    count_lanes(function, access, window, None)
    far = [gather(function, window, None, dtype, number) for number in range(count)]
    apart_end = function.label
    function.emit(f"br label %{after}")
    function.start(after)
    type = function.vector(dtype)
    return [
        Value(
            dtype,
            tuple(
                function.new(f"phi {type} [ {a}, %{joint_end} ], [ {b}, %{apart_end} ]")
                for a, b in zip(x.parts, y.parts, strict=True)
            ),
        )
        for x, y in zip(near, far, strict=True)
    ]


def write_store(lanes: Lanes, form: Form, slots: Slots) -> None:
    """``st``: of lanes that write one place, the last in order stays."""
    check_memory_flags(form)
    instruction, type = form.instruction, form.type
    space = space_of(form)
    if space in ("param", "const"):
        raise UnknownForm(f"{instruction.name}: stores to {space} memory")
    items = items_of(instruction.operands[1])
    function = lanes.function
    values = [reinterpreted(function, lanes.read(each, type), type.holder) for each in items]
    size = type.size_bytes * len(values)
    place = memory_space(space)
    access = Access(place, size, size, slots.get(place))
    window = window_of(lanes, access, address_of(lanes, instruction.operands[0]))
    active = lanes.active()
    if active is not None or window.lead is not None:
        check_lanes(function, access, window, active)
        count_lanes(function, access, window, active)
        scatter(function, window, active, values)
        return
    joint, apart, after = (function.fresh(each) for each in ("joint", "apart", "after"))
    together = _is_contiguous(function, access, window)
    function.emit(f"br i1 {together}, label %{joint}, label %{apart}")
    function.start(joint)
    first = function.new(f"extractelement {function.vector(U64)} {window.offset.parts[0]}, i64 0")
    _check_run(function, access, window, first)
    _count_run(function, access, first)
    _vector_stores(function, window.base, first, values)
    function.emit(f"br label %{after}")
    function.start(apart)
    check_lanes(function, access, window, None)
    count_lanes(function, access, window, None)
    scatter(function, window, None, values)
    function.emit(f"br label %{after}")
    function.start(after)


def _is_contiguous(function: Function, access: Access, window: Window) -> str:
    """Whether each lane's bytes follow those of the lane before."""
    type = function.vector(U64)
    first = function.new(f"extractelement {type} {window.offset.parts[0]}, i64 0")
    expected = function.lane_numbers(U64, access.size)
    start = function.spread(first, U64)
    ahead = function.each(U64, f"add {type} {{0}}, {{1}}", start, expected)
    same = function.each(BOOL, f"icmp eq {type} {{0}}, {{1}}", ahead, window.offset)
    return function.new(f"icmp eq i32 {mask_bits(function, same)}, -1")


def _check_run(function: Function, access: Access, window: Window, first: str) -> None:
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


def _vector_loads(
    function: Function, base: str, first: str, dtype: np.dtype[Any], count: int
) -> list[Value]:
    """Consecutive elements, ``count`` for each lane, as one value for each place in a lane."""
    width, element = function.width, element_type(dtype)
    start = function.new(f"getelementptr i8, ptr {base}, i64 {first}")
    align = min(dtype.itemsize * count, 16)
    rows: list[list[str]] = [[] for _ in range(count)]
    for part in range(function.parts):
        type = f"<{width * count} x {element}>"
        offset = part * width * count * dtype.itemsize
        place = function.new(f"getelementptr i8, ptr {start}, i64 {offset}")
        whole = function.new(f"load {type}, ptr {place}, align {align}")
        for number in range(count):
            rows[number].append(
                whole if count == 1 else _every(function, type, whole, number, count)
            )
    return [Value(dtype, tuple(row)) for row in rows]


def _every(function: Function, type: str, whole: str, first: int, step: int) -> str:
    """Every ``step``-th element of a longer vector."""
    places = ", ".join(f"i32 {first + lane * step}" for lane in range(function.width))
    mask = f"<{function.width} x i32> <{places}>"
    return function.new(f"shufflevector {type} {whole}, {type} poison, {mask}")


def _vector_stores(function: Function, base: str, first: str, values: list[Value]) -> None:
    width, dtype, count = function.width, values[0].dtype, len(values)
    element = element_type(dtype)
    start = function.new(f"getelementptr i8, ptr {base}, i64 {first}")
    align = min(dtype.itemsize * count, 16)
    for part in range(function.parts):
        parts = [value.parts[part] for value in values]
        whole, lanes = parts[0], width
        while len(parts) > 1:
            # Interleave by halves: a with b, c with d, then these.
            parts = [
                _concatenated(function, element, lanes, parts[place], parts[place + 1])
                for place in range(0, len(parts), 2)
            ]
            lanes *= 2
            whole = parts[0]
        if count > 1:
            order = [number * width + lane for lane in range(width) for number in range(count)]
            places = ", ".join(f"i32 {place}" for place in order)
            type = f"<{lanes} x {element}>"
            mask = f"<{lanes} x i32> <{places}>"
            whole = function.new(f"shufflevector {type} {whole}, {type} poison, {mask}")
        offset = part * width * count * dtype.itemsize
        place = function.new(f"getelementptr i8, ptr {start}, i64 {offset}")
        function.emit(f"store <{lanes} x {element}> {whole}, ptr {place}, align {align}")


def _concatenated(function: Function, element: str, lanes: int, a: str, b: str) -> str:
    type = f"<{lanes} x {element}>"
    places = ", ".join(f"i32 {place}" for place in range(2 * lanes))
    return function.new(f"shufflevector {type} {a}, {type} {b}, <{2 * lanes} x i32> <{places}>")


def _pointers(function: Function, window: Window, number: int, size: int, scale: str) -> Value:
    type = function.vector(U64)
    width = function.width
    offset = _led(function, window)
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
    width, type, element = function.width, function.vector(dtype), element_type(dtype)
    pointers = _pointers(function, window, number, dtype.itemsize, scale)
    name = f"llvm.masked.gather.v{width}{element}.v{width}p0"
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
        type, element = function.vector(value.dtype), element_type(value.dtype)
        size = value.dtype.itemsize
        pointers = _pointers(function, window, number, size, "i8")
        name = f"llvm.masked.scatter.v{width}{element}.v{width}p0"
        function.declare(name, f"declare void @{name}({type}, <{width} x ptr>, <{width} x i1>)")
        for part in range(function.parts):
            function.emit(
                f"call void @{name}({type} {value.parts[part]}, <{width} x ptr> align {size} "
                f"{pointers.parts[part]}, <{width} x i1> {mask.parts[part]})"
            )


def _slot(function: Function, access: Access) -> str:
    traffic = word(function, "traffic", "ptr")
    return function.new(
        f"getelementptr i8, ptr {traffic}, i64 {8 * TRAFFIC_WORDS * (access.slot or 0)}"
    )


def add_to(function: Function, place: str, number: int, amount: str) -> None:
    """Add to one of the numbers at a place."""
    at = function.new(f"getelementptr i64, ptr {place}, i64 {number}")
    old = function.new(f"load i64, ptr {at}, align 8")
    new = function.new(f"add i64 {old}, {amount}")
    function.emit(f"store i64 {new}, ptr {at}, align 8")


def _count_run(function: Function, access: Access, first: str) -> None:
    """A contiguous access of a whole warp, in closed form."""
    if access.slot is None:
        return
    slot = _slot(function, access)
    add_to(function, slot, 0, "1")
    if access.space == "shared":
        phases = max(1, access.size // 4)
        add_to(function, slot, 3, str(phases))
        add_to(function, slot, 4, str(phases))
        return
    low = function.new(f"and i64 {first}, 31")
    end = function.new(f"add i64 {low}, {WARP * access.size + 31}")
    add_to(function, slot, 1, function.new(f"lshr i64 {end}, 5"))
    add_to(function, slot, 2, str(access.size))


def count_lanes(function: Function, access: Access, window: Window, active: Value | None) -> None:
    """Any access, by the rules of ``counting``."""
    if access.slot is None:
        return
    bits = "-1" if active is None else mask_bits(function, active)
    shift = 2 if access.space == "shared" else 5
    type = function.vector(U64)
    units = function.each(
        U64, f"lshr {type} {{0}}, {{1}}", window.offset, function.splat(shift, U64)
    )
    narrow = converted(function, units, U32)
    width = function.width
    for part, each in enumerate(narrow.parts):
        place = function.new(f"getelementptr i32, ptr %units, i64 {part * width}")
        function.emit(f"store <{width} x i32> {each}, ptr {place}, align 4")
    slot = _slot(function, access)
    if access.space == "shared":
        words = max(1, access.size // 4)
        function.emit(f"call void @count_wavefronts_{words}(ptr {slot}, ptr %units, i32 {bits})")
    else:
        size = access.size
        function.emit(f"call void @count_sectors(ptr {slot}, ptr %units, i32 {bits}, i64 {size})")
