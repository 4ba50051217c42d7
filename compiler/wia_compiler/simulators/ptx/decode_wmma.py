"""Steps of ``wmma.load`` and ``wmma.store``."""

from __future__ import annotations

from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.decode_memory import space_of
from wia_compiler.simulators.ptx.machine import Machine, Offsets, Step, loaded, stored
from wia_compiler.simulators.ptx.operands import (
    Read,
    Scope,
    address_reader,
    items_of,
    reader,
    writer,
)
from wia_compiler.simulators.ptx.syntax import Immediate, Operand
from wia_compiler.simulators.ptx.threads import WARP, Array
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form
from wia_compiler.simulators.ptx.wmma import Chunk, Movement, movement_of


def stride_operand(form: Form, movement: Movement) -> Operand:
    """Elements between rows (columns): the last operand, or those of a dense matrix."""
    operands = form.instruction.operands
    return operands[2] if len(operands) > 2 else Immediate(movement.default_stride)


class _Places:
    """Where the chunks of a fragment lie in memory, for all lanes of a machine."""

    def __init__(self, form: Form, number: int, scope: Scope, address: Operand):
        self.form, self.number = form, number
        self.movement = movement_of(form)
        self.space = space_of(form)
        self.find = address_reader(address, scope)
        stride = stride_operand(form, self.movement)
        self.stride: Read = reader(stride, TYPES["u32"], scope)

    def of(self, machine: Machine, chunk: Chunk) -> list[tuple[Offsets, Any, Offsets]]:
        """Threads, the bytes of a memory, and where in it each one's chunk begins."""
        threads, movement = machine.threads, self.movement
        lanes = np.flatnonzero(threads.mask)
        base = np.broadcast_to(self.find(threads), (threads.count,))[lanes]
        stride = np.broadcast_to(self.stride(threads), (threads.count,))[lanes].astype(np.int64)
        lines, along = (each[lanes % WARP] for each in movement.offset_scale(chunk))
        offset = (lines * stride + along) * movement.bits // 8
        addresses = base + offset.astype(np.uint64)
        found: list[tuple[Offsets, Any, Offsets]] = []
        for kind, some, offsets in machine.spaces(self.space, addresses, lanes):
            memory, places = machine.places(
                self.form.instruction, self.number, kind, some, offsets, movement.access_bytes
            )
            found.append((some, memory, places))
        return found


def decode_fragment_load(form: Form, number: int, scope: Scope) -> Step:
    """``wmma.load``: a fragment from memory to registers."""
    target, address = form.instruction.operands[:2]
    places = _Places(form, number, scope, address)
    movement = places.movement
    type = movement.register_type
    puts = [writer(each, type, scope) for each in items_of(target)]
    whole = np.dtype(f"u{movement.access_bytes}")
    chunks = movement.chunks

    def step(machine: Machine) -> None:
        count = machine.threads.count
        made: list[Array] = [
            np.zeros(count, type.value) for _ in range(movement.fragment.registers)
        ]
        for chunk in chunks:
            for some, memory, where in places.of(machine, chunk):
                held = loaded(memory, where, whole).astype(type.value)
                made[chunk.register][some] |= held << type.value.type(chunk.slot * movement.bits)
        for register, put in enumerate(puts):
            put(machine.threads, made[register % len(made)])

    return step


def decode_fragment_store(form: Form, number: int, scope: Scope) -> Step:
    """``wmma.store``: the inverse."""
    address, source = form.instruction.operands[:2]
    places = _Places(form, number, scope, address)
    movement = places.movement
    type = movement.register_type
    reads = [reader(each, type, scope) for each in items_of(source)]
    whole = np.dtype(f"u{movement.access_bytes}")
    chunks = movement.chunks

    def step(machine: Machine) -> None:
        threads = machine.threads
        for chunk in chunks:
            held = np.broadcast_to(reads[chunk.register](threads), (threads.count,))
            part = (held >> type.value.type(chunk.slot * movement.bits)).astype(whole)
            for some, memory, where in places.of(machine, chunk):
                stored(memory, where, part[some], whole)

    return step
