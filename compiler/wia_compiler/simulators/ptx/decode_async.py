"""Steps of asynchronous copies from global to shared memory.

A copy arrives when its thread waits for the group that it was committed to. Until then the bytes
it goes to are all ones, which as floats are NaN: a wait that is missing shows.
"""

from __future__ import annotations

import numpy as np

from wia_compiler.simulators.ptx.copies import PendingCopy
from wia_compiler.simulators.ptx.decode_bulk import decode_bulk
from wia_compiler.simulators.ptx.decode_mbarrier import decode_copy_arrival
from wia_compiler.simulators.ptx.machine import Machine, Step
from wia_compiler.simulators.ptx.operands import Scope, address_reader, is_predicate, reader
from wia_compiler.simulators.ptx.syntax import Immediate
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

_SIZES = (4, 8, 16)


def decode_async(form: Form, number: int, scope: Scope) -> Step:
    """``cp.async`` and its groups."""
    flags = form.flags
    if "bulk" in flags:
        return decode_bulk(form, number, scope)
    if "mbarrier" in flags:
        return decode_copy_arrival(form, scope)
    if "commit_group" in flags:
        return lambda machine: machine.copies.commit(machine.threads.mask)
    if "wait_group" in flags or "wait_all" in flags:
        return _decode_wait(form)
    if "async" not in flags or not flags & {"ca", "cg"}:
        raise UnknownForm(form.instruction.name)
    return _decode_copy(form, number, scope)


def _decode_wait(form: Form) -> Step:
    left = 0
    if "wait_group" in form.flags:
        (operand,) = form.instruction.operands
        if not isinstance(operand, Immediate):
            raise UnknownForm(f"{form.instruction.name} of a computed number")
        left = int(operand.value)
    everything = "wait_all" in form.flags

    def step(machine: Machine) -> None:
        if everything:
            machine.copies.commit(machine.threads.mask)
        machine.copies.wait(machine.threads.mask, left, machine.shared.reshape(-1))

    return step


def _decode_copy(form: Form, number: int, scope: Scope) -> Step:
    instruction = form.instruction
    target, source, size, *rest = instruction.operands
    if not isinstance(size, Immediate) or size.value not in _SIZES:
        raise UnknownForm(f"{instruction.name} of a size other than 4, 8 or 16")
    size_bytes = int(size.value)
    to, start = address_reader(target, scope), address_reader(source, scope)
    ignores = bool(rest) and is_predicate(rest[0], scope)
    read_size = reader(rest[0], TYPES["pred" if ignores else "u32"], scope) if rest else None

    def step(machine: Machine) -> None:
        threads = machine.threads
        count = threads.count
        lanes = np.flatnonzero(threads.mask)
        given = np.full(len(lanes), size_bytes)
        if read_size is not None:
            asked = np.broadcast_to(read_size(threads), (count,))[lanes]
            asked = np.where(asked, 0, size_bytes) if ignores else asked
            given = np.minimum(asked.astype(np.int64), size_bytes)
        content = np.zeros((len(lanes), size_bytes), np.uint8)
        some = given > 0
        if some.any():
            addresses = np.broadcast_to(start(threads), (count,))[lanes][some]
            ((_, which, offsets),) = machine.spaces("global", addresses, lanes[some])
            memory, places = machine.places(
                instruction, number, "global", which, offsets, size_bytes, 1
            )
            if machine.checks is not None:
                for each in np.unique(given[some]):
                    read = given[some] == each
                    machine.checks.access(
                        instruction, number, "global", which[read], offsets[read], int(each)
                    )
            content[some] = memory[places[:, None] + np.arange(size_bytes)]
        content[np.arange(size_bytes) >= given[:, None]] = 0
        addresses = np.broadcast_to(to(threads), (count,))[lanes]
        ((_, which, offsets),) = machine.spaces("shared", addresses, lanes)
        memory, places = machine.places(instruction, number, "shared", which, offsets, size_bytes)
        where = places[:, None] + np.arange(size_bytes)
        memory[where] = 0xFF
        machine.copies.add(PendingCopy(lanes, where, content, machine.copies.open_group[lanes]))

    return step
