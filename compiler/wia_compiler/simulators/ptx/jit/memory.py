"""Loads and stores: one vector where neighbours read neighbours, else a gather or a scatter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.bulk_copies import TMA
from wia_compiler.simulators.ptx.decode_memory import (
    WINDOWS,
    check_memory_flags,
    is_fixed,
    space_in,
    space_of,
)
from wia_compiler.simulators.ptx.jit.access import (
    Access,
    address_of,
    check_lanes,
    check_run,
    gather,
    is_contiguous,
    led,
    scatter,
    window_of,
)
from wia_compiler.simulators.ptx.jit.code import Function, Value, element_type
from wia_compiler.simulators.ptx.jit.conversions import reinterpreted
from wia_compiler.simulators.ptx.jit.counts import count_lanes, count_run
from wia_compiler.simulators.ptx.jit.lanes import Lanes
from wia_compiler.simulators.ptx.jit.specials import word
from wia_compiler.simulators.ptx.operands import items_of
from wia_compiler.simulators.ptx.syntax import Address, Group, Immediate, Symbol
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm
from wia_compiler.simulators.ptx.wmma import movement_of

U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)
Slots = Mapping[str, int]
"""Where an instruction counts its accesses to each space; empty where nothing is counted."""
MATRIX_ROW_BYTES = 16


def write_address(lanes: Lanes, form: Form) -> None:
    """``cvta``: between generic addresses and those of a space."""
    window = WINDOWS.get(space_of(form), 0)
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
    space = space_in(form, lanes.scope)
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
    if form.instruction.opcode == "cp" and "bulk" in form.flags:
        uncounted = {"commit_group", "wait_group", "prefetch"}
        return () if uncounted & form.flags else ((TMA, 0),)
    if form.instruction.opcode == "cp" and "mbarrier" in form.flags:
        return ()
    if form.instruction.opcode in ("wmma.load", "wmma.store"):
        return ((memory_space(space_of(form)), movement_of(form).access_bytes),)
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


def checked(
    lanes: Lanes, access: Access, address: Value, active: Value | None
) -> tuple[str, Value]:
    """A memory and where in it each lane's access lies, checked and counted."""
    function = lanes.function
    window = window_of(lanes, access, address)
    check_lanes(function, access, window, active)
    count_lanes(function, access, window, active)
    return window.base, led(function, window)


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
    together = is_contiguous(function, access, window)
    function.emit(f"br i1 {together}, label %{joint}, label %{apart}")
    function.start(joint)
    first = function.new(f"extractelement {function.vector(U64)} {window.offset.parts[0]}, i64 0")
    check_run(function, access, window, first)
    count_run(function, access, first)
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
    space = space_in(form, lanes.scope)
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
    together = is_contiguous(function, access, window)
    function.emit(f"br i1 {together}, label %{joint}, label %{apart}")
    function.start(joint)
    first = function.new(f"extractelement {function.vector(U64)} {window.offset.parts[0]}, i64 0")
    check_run(function, access, window, first)
    count_run(function, access, first)
    _vector_stores(function, window.base, first, values)
    function.emit(f"br label %{after}")
    function.start(apart)
    check_lanes(function, access, window, None)
    count_lanes(function, access, window, None)
    scatter(function, window, None, values)
    function.emit(f"br label %{after}")
    function.start(after)


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
