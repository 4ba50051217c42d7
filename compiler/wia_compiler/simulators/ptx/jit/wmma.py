"""``wmma.load`` and ``wmma.store`` for the lanes of a warp."""

from __future__ import annotations

import numpy as np

from wia_compiler.simulators.ptx.decode_memory import space_of
from wia_compiler.simulators.ptx.decode_wmma import stride_operand
from wia_compiler.simulators.ptx.jit.access import (
    Access,
    Window,
    address_of,
    bail_if,
    gather,
    scatter,
)
from wia_compiler.simulators.ptx.jit.code import Value
from wia_compiler.simulators.ptx.jit.conversions import converted
from wia_compiler.simulators.ptx.jit.lanes import Lanes
from wia_compiler.simulators.ptx.jit.memory import Slots, checked, memory_space
from wia_compiler.simulators.ptx.jit.multiply import lane_constants
from wia_compiler.simulators.ptx.operands import items_of
from wia_compiler.simulators.ptx.syntax import Operand
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form
from wia_compiler.simulators.ptx.wmma import Chunk, Movement, movement_of

U64 = np.dtype(np.uint64)


class _Places:
    """Where the chunks of a fragment lie, lane by lane."""

    def __init__(self, lanes: Lanes, form: Form, slots: Slots, address: Operand):
        if lanes.active() is not None:
            bail_if(lanes.function, "true")
        self.lanes = lanes
        self.movement: Movement = movement_of(form)
        self.base = address_of(lanes, address)
        stride = lanes.read(stride_operand(form, self.movement), TYPES["u32"])
        self.stride = converted(lanes.function, stride, U64)
        space = memory_space(space_of(form))
        size = self.movement.access_bytes
        self.access = Access(space, size, size, slots.get(space))

    def of(self, chunk: Chunk) -> Window:
        """The place of a chunk, checked and counted."""
        function, movement = self.lanes.function, self.movement
        type = function.vector(U64)
        lines, along = movement.offset_scale(chunk)
        far = function.each(
            U64, f"mul {type} {{0}}, {{1}}", self.stride, lane_constants(function, lines, U64)
        )
        elements = function.each(
            U64, f"add {type} {{0}}, {{1}}", far, lane_constants(function, along, U64)
        )
        scaled = function.each(
            U64, f"mul {type} {{0}}, {{1}}", elements, function.splat(movement.bits, U64)
        )
        bytes_ = function.each(U64, f"lshr {type} {{0}}, {{1}}", scaled, function.splat(3, U64))
        address = function.each(U64, f"add {type} {{0}}, {{1}}", self.base, bytes_)
        base, offset = checked(self.lanes, self.access, address, None)
        return Window(base, offset, "")


def write_fragment_load(lanes: Lanes, form: Form, slots: Slots) -> None:
    """``wmma.load``: a fragment from memory to registers."""
    target, address = form.instruction.operands[:2]
    places = _Places(lanes, form, slots, address)
    movement, function = places.movement, lanes.function
    holder = movement.register_type.holder
    whole = np.dtype(f"u{movement.access_bytes}")
    type = function.vector(holder)
    made: dict[int, Value] = {}
    for chunk in movement.chunks:
        held = converted(function, gather(function, places.of(chunk), None, whole, 0), holder)
        if chunk.slot:
            shift = function.splat(chunk.slot * movement.bits, holder)
            held = function.each(holder, f"shl {type} {{0}}, {{1}}", held, shift)
        before = made.get(chunk.register)
        if before is not None:
            held = function.each(holder, f"or {type} {{0}}, {{1}}", before, held)
        made[chunk.register] = held
    for register, each in enumerate(items_of(target)):
        lanes.write(each, movement.register_type, made[register % len(made)])


def write_fragment_store(lanes: Lanes, form: Form, slots: Slots) -> None:
    """``wmma.store``: the inverse."""
    address, source = form.instruction.operands[:2]
    places = _Places(lanes, form, slots, address)
    movement, function = places.movement, lanes.function
    holder = movement.register_type.holder
    whole = np.dtype(f"u{movement.access_bytes}")
    type = function.vector(holder)
    held = [lanes.read(each, movement.register_type) for each in items_of(source)]
    for chunk in movement.chunks:
        value = held[chunk.register]
        if chunk.slot:
            shift = function.splat(chunk.slot * movement.bits, holder)
            value = function.each(holder, f"lshr {type} {{0}}, {{1}}", value, shift)
        scatter(function, places.of(chunk), None, [converted(function, value, whole)])
