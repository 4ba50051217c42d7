"""Steps of instructions that move 8 × 8 matrices between shared memory and registers of a warp.

Lane ``l`` holds, of each matrix of 16 bits, row ``l // 4`` and columns ``2 (l mod 4)`` and the next
(PTX ISA, "ldmatrix").
"""

from __future__ import annotations

import numpy as np

from wia_compiler.simulators.ptx.machine import Machine, Step, loaded, stored
from wia_compiler.simulators.ptx.memory import SHARED_WINDOW
from wia_compiler.simulators.ptx.operands import (
    Scope,
    address_reader,
    items_of,
    reader,
    writer,
)
from wia_compiler.simulators.ptx.threads import WARP, Array
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

_LANE = np.arange(WARP)
_ROW, _PLACE = _LANE // 4, _LANE % 4


def decode_matrix_load(form: Form, number: int, scope: Scope) -> Step:
    """``ldmatrix``: rows of 8 × 8 matrices of 16 bits, each at an address that one lane gives."""
    instruction = form.instruction
    targets = items_of(instruction.operands[0])
    count = matrix_count(form, len(targets))
    puts = [writer(each, TYPES["b32"], scope) for each in targets]
    find = address_reader(instruction.operands[1], scope)
    transposed = "trans" in form.flags

    def step(machine: Machine) -> None:
        threads = machine.threads
        lanes = np.flatnonzero(threads.mask & (threads.lane < 8 * count))
        addresses = np.broadcast_to(find(threads), (threads.count,))[lanes]
        ((_, some, offsets),) = machine.spaces("shared", _in_shared(addresses), lanes)
        memory, places = machine.places(instruction, number, "shared", some, offsets, 16)
        eight = np.arange(8) * 2
        rows = np.zeros((threads.count, 8), np.uint16)
        rows[some] = loaded(memory, places[:, None] + eight, np.dtype(np.uint16))
        tiles = rows.reshape(-1, 4, 8, 8)
        if transposed:
            tiles = tiles.transpose(0, 1, 3, 2)
        for j, put in enumerate(puts):
            pair = np.stack([tiles[:, j, _ROW, 2 * _PLACE + e] for e in (0, 1)], axis=-1)
            put(threads, np.ascontiguousarray(pair).view(np.uint32).reshape(-1))

    return step


def decode_matrix_store(form: Form, number: int, scope: Scope) -> Step:
    """``stmatrix``: the inverse of ``ldmatrix``."""
    instruction = form.instruction
    sources = items_of(instruction.operands[1])
    count = matrix_count(form, len(sources))
    find = address_reader(instruction.operands[0], scope)
    reads = [reader(each, TYPES["b32"], scope) for each in sources]
    transposed = "trans" in form.flags

    def step(machine: Machine) -> None:
        threads = machine.threads
        tiles = np.zeros((threads.count // WARP, 4, 8, 8), np.uint16)
        for j, read in enumerate(reads):
            value = np.broadcast_to(read(threads), (threads.count,)).astype(np.uint32)
            pair = np.ascontiguousarray(value).view(np.uint16).reshape(-1, WARP, 2)
            for e in (0, 1):
                tiles[:, j, _ROW, 2 * _PLACE + e] = pair[..., e]
        if transposed:
            tiles = tiles.transpose(0, 1, 3, 2)
        lanes = np.flatnonzero(threads.mask & (threads.lane < 8 * count))
        addresses = np.broadcast_to(find(threads), (threads.count,))[lanes]
        ((_, some, offsets),) = machine.spaces("shared", _in_shared(addresses), lanes)
        memory, places = machine.places(instruction, number, "shared", some, offsets, 16)
        rows = np.ascontiguousarray(tiles).reshape(-1, 8)[some]
        where = places[:, None] + np.arange(8) * 2
        stored(memory, where, rows, np.dtype(np.uint16))

    return step


def decode_matrix_move(form: Form, scope: Scope) -> Step:
    """``movmatrix``: the matrix that the registers of a warp hold, transposed."""
    check_matrix_move(form)
    target, source = form.instruction.operands
    read, put = reader(source, TYPES["b32"], scope), writer(target, TYPES["b32"], scope)

    def step(machine: Machine) -> None:
        threads = machine.threads
        value = np.broadcast_to(read(threads), (threads.count,)).astype(np.uint32)
        pairs = np.ascontiguousarray(value).view(np.uint16).reshape(-1, 8, 8)
        turned = np.ascontiguousarray(pairs.transpose(0, 2, 1))
        put(threads, turned.reshape(-1).view(np.uint32))

    return step


def check_matrix_move(form: Form) -> None:
    """Refuse what is no transposition of 8 × 8 elements of 16 bits."""
    if not {"sync", "aligned", "m8n8", "trans"} <= form.flags or form.type.name != "b16":
        raise UnknownForm(form.instruction.name)


def matrix_count(form: Form, registers: int) -> int:
    """How many 8 × 8 matrices an instruction moves, one a register."""
    count = int(form.one_of(("x1", "x2", "x4"), "x1")[1])
    if "m8n8" not in form.flags or form.type.name != "b16" or count != registers:
        raise UnknownForm(form.instruction.name)
    return count


def _in_shared(addresses: Array) -> Array:
    """Addresses of shared memory, given in its own window or as generic ones."""
    window = np.uint64(SHARED_WINDOW)
    return np.where(addresses >= window, addresses - window, addresses)
