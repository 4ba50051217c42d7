"""Steps of matrix instructions: a warp multiplies small matrices that its registers hold together.

Lane ``l`` holds, with ``g = l // 4`` and ``t = l % 4``, of a matrix whose registers have ``p``
elements of 32 bits together: in register r, element i of the left one row ``g + 8 (r mod 2)`` and
column ``p t + i + 4 p (r div 2)``; of the right one row ``p t + i + 4 p r`` and column ``g``; and
of the sum, as its element j, row ``g + 8 (j div 2)`` and column ``2 t + j mod 2`` (PTX ISA, "Matrix
fragments for mma").
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
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
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)\Z")
ELEMENTS: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
SUMS = {"f32", "f16", "s32", "f64"}
_TF32_BITS = np.uint32(0xFFFFE000)


def matrix_flops(form: Form) -> int:
    """Floating-point operations of one thread's part of a product."""
    sizes = sizes_of(form)
    return 2 * sizes[0] * sizes[1] * sizes[2] // WARP


def sizes_of(form: Form) -> tuple[int, int, int]:
    """Rows, columns and summed elements of a product."""
    for word in form.instruction.modifiers:
        found = _SHAPE.match(word)
        if found is not None:
            m, n, k = map(int, found.groups())
            return m, n, k
    raise UnknownForm(f"{form.instruction.name}: no shape")


def decode_multiply(form: Form, scope: Scope) -> Step:
    """``mma.sync.aligned``: exact products, summed in f64 (integers: in 64 bits), rounded once.

    The hardware's order and rounding of sums differs between architectures and is not IEEE's.
    """
    instruction = form.instruction
    words = [w for w in instruction.modifiers if w in ELEMENTS or w in SUMS]
    if "sp" in form.flags or len(words) != 4 or "row" not in form.flags:
        raise UnknownForm(instruction.name)
    result, left, right, _ = words
    m, n, k = sizes_of(form)
    holder = TYPES["b64"] if left == "f64" else TYPES["b32"]
    sum_type = TYPES["f16x2"] if result == "f16" else TYPES[result]
    puts = [writer(each, sum_type, scope) for each in items_of(instruction.operands[0])]
    a, b = (
        [reader(each, holder, scope) for each in items_of(operand)]
        for operand in instruction.operands[1:3]
    )
    c = [reader(each, sum_type, scope) for each in items_of(instruction.operands[3])]
    wide = np.dtype(np.int64 if result == "s32" else np.float64)

    def step(machine: Machine) -> None:
        count = machine.threads.count
        warps = count // WARP

        def rows(value: Array) -> Array:
            shape = (count, *value.shape[1:]) if value.ndim > 1 else (count,)
            return np.broadcast_to(value, shape).reshape(warps, WARP, -1)

        def fragments(reads: list[Any], name: str) -> list[Array]:
            return [_elements(rows(read(machine.threads)), name) for read in reads]

        x = np.zeros((warps, m, k), wide)
        for r, part in enumerate(fragments(a, left)):
            size = part.shape[-1]
            for i in range(size):
                column = size * _PLACE + i + 4 * size * (r // 2)
                x[:, _ROW + 8 * (r % 2), column] = part[..., i]
        y = np.zeros((warps, k, n), wide)
        for r, part in enumerate(fragments(b, right)):
            size = part.shape[-1]
            for i in range(size):
                y[:, size * _PLACE + i + 4 * size * r, _ROW] = part[..., i]
        z = np.zeros((warps, m, n), wide)
        for j, values in enumerate(_sums(machine, c, rows)):
            z[:, _ROW + 8 * (j // 2), 2 * _PLACE + j % 2] = values
        total = x @ y + z
        if "satfinite" in form.flags and result == "s32":
            limits = np.iinfo(np.int32)
            total = np.clip(total, limits.min, limits.max)
        elements = [
            total[:, _ROW + 8 * (j // 2), 2 * _PLACE + j % 2].astype(sum_type.value)
            for j in range(len(puts) * sum_type.lanes)
        ]
        for r, put in enumerate(puts):
            some = elements[r * sum_type.lanes : (r + 1) * sum_type.lanes]
            made = np.stack(some, axis=-1).reshape(count, -1)
            put(machine.threads, made if sum_type.lanes > 1 else made[:, 0])

    return step


def _elements(registers: Array, name: str) -> Array:
    """The elements of each lane's register, lowest first: (warps, lanes, elements)."""
    if name == "tf32":
        # The lower 13 bits of the mantissa are not looked at.
        return (registers & _TF32_BITS).view(np.float32)
    return np.ascontiguousarray(registers).view(ELEMENTS[name])


def _sums(machine: Machine, reads: list[Any], rows: Any) -> list[Array]:
    found: list[Array] = []
    for read in reads:
        values = rows(read(machine.threads))
        found += [values[..., i] for i in range(values.shape[-1])]
    return found


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
