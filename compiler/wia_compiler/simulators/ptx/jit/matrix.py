"""Matrix instructions of a whole warp; warps with lanes missing bail."""

from __future__ import annotations

from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.decode_matrix import check_matrix_move, matrix_count
from wia_compiler.simulators.ptx.jit.access import (
    Access,
    Window,
    address_of,
    bail_if,
    gather,
    scatter,
)
from wia_compiler.simulators.ptx.jit.code import Function, Value, element_type
from wia_compiler.simulators.ptx.jit.conversions import (
    BOOL,
    converted,
    selected,
)
from wia_compiler.simulators.ptx.jit.lanes import Lanes
from wia_compiler.simulators.ptx.jit.memory import MATRIX_ROW_BYTES, Slots, checked
from wia_compiler.simulators.ptx.jit.values import joined, part_of
from wia_compiler.simulators.ptx.jit.warp import permuted
from wia_compiler.simulators.ptx.memory import SHARED_WINDOW
from wia_compiler.simulators.ptx.operands import items_of
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form

U16, U32, U64 = (np.dtype(kind) for kind in (np.uint16, np.uint32, np.uint64))
F64, I64 = np.dtype(np.float64), np.dtype(np.int64)


def _lane_constants(function: Function, numbers: list[int], dtype: np.dtype[Any]) -> Value:
    """A constant for each lane."""
    element = element_type(dtype)
    parts = [
        f"<{', '.join(f'{element} {numbers[lane]}' for lane in lanes)}>"
        for lanes in function.lanes()
    ]
    return Value(dtype, tuple(parts))


def _whole(lanes: Lanes) -> None:
    if lanes.active() is not None:
        bail_if(lanes.function, "true")


def _rows(lanes: Lanes, form: Form, slots: Slots, count: int, operand: int) -> tuple[str, Value]:
    """Shared memory, and where in it the row of each lane begins, checked and counted."""
    _whole(lanes)
    function = lanes.function
    address = address_of(lanes, form.instruction.operands[operand])
    window = function.splat(SHARED_WINDOW, U64)
    type = function.vector(U64)
    generic = function.each(BOOL, f"icmp uge {type} {{0}}, {{1}}", address, window)
    moved = function.each(U64, f"sub {type} {{0}}, {{1}}", address, window)
    address = selected(function, generic, moved, address)
    here = None
    if count < 4:
        here = Value(
            BOOL,
            tuple(
                f"<{', '.join(f'i1 {int(lane < 8 * count)}' for lane in part)}>"
                for part in function.lanes()
            ),
        )
    access = Access("shared", MATRIX_ROW_BYTES, MATRIX_ROW_BYTES, slots.get("shared"))
    base, offset = checked(lanes, access, address, here)
    return base, converted(function, offset, U32)


def _element(
    function: Function, rows: Value, matrix: int, row: list[int], byte: list[int]
) -> Value:
    """Offsets of elements: in the given row of a matrix, so many bytes on, for each lane."""
    source = _lane_constants(function, [8 * matrix + each for each in row], U32)
    start = permuted(function, rows, source)
    text = f"add {function.vector(U32)} {{0}}, {{1}}"
    return converted(
        function, function.each(U32, text, start, _lane_constants(function, byte, U32)), U64
    )


_DOWN = [lane // 4 for lane in range(WARP)]
_ACROSS = [lane % 4 for lane in range(WARP)]


def write_matrix_load(lanes: Lanes, form: Form, slots: Slots) -> None:
    """``ldmatrix``: two neighbours of a row for each lane; ``.trans``: of a column."""
    targets = items_of(form.instruction.operands[0])
    count = matrix_count(form, len(targets))
    base, rows = _rows(lanes, form, slots, count, 1)
    function = lanes.function
    for matrix, target in enumerate(targets):
        if "trans" not in form.flags:
            place = _element(function, rows, matrix, _DOWN, [4 * each for each in _ACROSS])
            value = gather(function, Window(base, place, ""), None, U32, 0)
        else:
            value = joined(function, _column(function, base, rows, matrix), U32)
        lanes.write(target, TYPES["b32"], value)


def _column(function: Function, base: str, rows: Value, matrix: int) -> list[Value]:
    """Elements 2t and 2t + 1 of column g: words that hold them, shifted where they are upper."""
    words = [4 * (each // 2) for each in _DOWN]
    upper = _lane_constants(function, [16 * (each % 2) for each in _DOWN], U32)
    found: list[Value] = []
    for half in range(2):
        place = _element(function, rows, matrix, [2 * each + half for each in _ACROSS], words)
        value = gather(function, Window(base, place, ""), None, U32, 0)
        text = f"lshr {function.vector(U32)} {{0}}, {{1}}"
        found.append(converted(function, function.each(U32, text, value, upper), U16))
    return found


def write_matrix_move(lanes: Lanes, form: Form) -> None:
    """``movmatrix``: the matrix that the registers hold, transposed."""
    check_matrix_move(form)
    _whole(lanes)
    function = lanes.function
    target, source = form.instruction.operands
    value = lanes.read(source, TYPES["b32"])
    upper = _lane_constants(function, [16 * (each % 2) for each in _DOWN], U32)
    halves: list[Value] = []
    for half in range(2):
        row = [4 * (2 * each + half) + down // 2 for each, down in zip(_ACROSS, _DOWN, strict=True)]
        held = permuted(function, value, _lane_constants(function, row, U32))
        text = f"lshr {function.vector(U32)} {{0}}, {{1}}"
        halves.append(converted(function, function.each(U32, text, held, upper), U16))
    lanes.write(target, TYPES["b32"], joined(function, halves, U32))


def write_matrix_store(lanes: Lanes, form: Form, slots: Slots) -> None:
    """``stmatrix``: the inverse of ``ldmatrix``."""
    sources = items_of(form.instruction.operands[1])
    count = matrix_count(form, len(sources))
    base, rows = _rows(lanes, form, slots, count, 0)
    function = lanes.function
    for matrix, source in enumerate(sources):
        value = lanes.read(source, TYPES["b32"])
        if "trans" not in form.flags:
            place = _element(function, rows, matrix, _DOWN, [4 * each for each in _ACROSS])
            scatter(function, Window(base, place, ""), None, [value])
            continue
        for half in range(2):
            row = [2 * each + half for each in _ACROSS]
            place = _element(function, rows, matrix, row, [2 * each for each in _DOWN])
            scatter(function, Window(base, place, ""), None, [part_of(function, value, half, U16)])
