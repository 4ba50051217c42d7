"""Matrix instructions of a whole warp; warps with lanes missing bail."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.decode_matrix import ELEMENTS, SUMS, matrix_count, sizes_of
from wia_compiler.simulators.ptx.jit.access import (
    Access,
    Window,
    address_of,
    bail_if,
    gather,
    scatter,
)
from wia_compiler.simulators.ptx.jit.code import BF16, Function, Value, element_type
from wia_compiler.simulators.ptx.jit.conversions import (
    BOOL,
    converted,
    reinterpreted,
    selected,
)
from wia_compiler.simulators.ptx.jit.lanes import Lanes
from wia_compiler.simulators.ptx.jit.memory import MATRIX_ROW_BYTES, Slots, checked
from wia_compiler.simulators.ptx.jit.values import joined, part_of
from wia_compiler.simulators.ptx.jit.warp import permuted
from wia_compiler.simulators.ptx.memory import SHARED_WINDOW
from wia_compiler.simulators.ptx.operands import items_of
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

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


def write_multiply(lanes: Lanes, form: Form) -> None:
    """``mma.sync``: exact products, summed in f64, rounded once (see ``decode_matrix``)."""
    instruction = form.instruction
    words = [each for each in instruction.modifiers if each in ELEMENTS or each in SUMS]
    if "sp" in form.flags or len(words) != 4 or "row" not in form.flags:
        raise UnknownForm(instruction.name)
    result, left, right, _ = words
    if left in ("e4m3", "e5m2", "f64") or right in ("e4m3", "e5m2"):
        raise UnknownForm(instruction.name)
    _whole(lanes)
    function = lanes.function
    m, n, k = sizes_of(form)
    sum_type = TYPES["f16x2"] if result == "f16" else TYPES[result]
    targets, a, b, c = (items_of(each) for each in instruction.operands)
    name = f"mma_{m}x{n}x{k}_{'_'.join(words)}{'_limited' if 'satfinite' in form.flags else ''}"
    if name not in function.outlined:
        function.outlined[name] = _multiply_text(
            function.other(), name, form, (m, n, k), words, sum_type
        )
    values = [lanes.read(each, TYPES["b32"]) for each in (*a, *b, *c)]
    type = function.vector(U32)
    arguments = ", ".join(f"{type} {part}" for value in values for part in value.parts)
    count = len(targets) * function.parts
    made = function.new(f"call [{count} x {type}] @{name}({arguments})")
    for number, target in enumerate(targets):
        parts = [
            function.new(
                f"extractvalue [{count} x {type}] {made}, {number * function.parts + part}"
            )
            for part in range(function.parts)
        ]
        lanes.write(target, TYPES["b32"], Value(U32, tuple(parts)))


def _multiply_text(
    function: Function,
    name: str,
    form: Form,
    sizes: tuple[int, int, int],
    words: list[str],
    sum_type: PtxType,
) -> str:
    """A function of the fragments' registers: matrices in f64 on the stack, rows of vectors."""
    m, n, k = sizes
    _, a, b, c = (items_of(each) for each in form.instruction.operands)
    type = function.vector(U32)
    names = itertools.count()

    def argument() -> Value:
        return Value(U32, tuple(f"%a{next(names)}" for _ in range(function.parts)))

    left, right, sums = ([argument() for _ in each] for each in (a, b, c))
    for label, rows, columns in (("x", m, k), ("y", k, n), ("z", m, n)):
        function.emit(f"%{label} = alloca [{rows * columns} x double], align 64")
    for r, value in enumerate(left):
        parts = _numbers(function, value, words[1])
        size = len(parts)
        for i, part in enumerate(parts):
            places = [
                (_DOWN[lane] + 8 * (r % 2)) * k + size * _ACROSS[lane] + i + 4 * size * (r // 2)
                for lane in range(WARP)
            ]
            _spill(function, "x", places, part)
    for r, value in enumerate(right):
        parts = _numbers(function, value, words[2])
        size = len(parts)
        for i, part in enumerate(parts):
            places = [
                (size * _ACROSS[lane] + i + 4 * size * r) * n + _DOWN[lane] for lane in range(WARP)
            ]
            _spill(function, "y", places, part)
    _product(function, m, n, k)
    made: list[Value] = []
    lanes_each = sum_type.lanes
    for r, value in enumerate(sums):
        halves: list[Value] = []
        for half, had in enumerate(_sum_numbers(function, value, sum_type)):
            j = r * lanes_each + half
            places = [
                (_DOWN[lane] + 8 * (j // 2)) * n + 2 * _ACROSS[lane] + j % 2 for lane in range(WARP)
            ]
            total = _fetched(function, places)
            text = f"fadd {function.vector(F64)} {{0}}, {{1}}"
            halves.append(_rounded(function, function.each(F64, text, total, had), sum_type, form))
        made.append(joined(function, halves, U32))
    count = len(made) * function.parts
    total_name = "poison"
    for number, part in enumerate(part for value in made for part in value.parts):
        total_name = function.new(
            f"insertvalue [{count} x {type}] {total_name}, {type} {part}, {number}"
        )
    function.emit(f"ret [{count} x {type}] {total_name}")
    count_in = (len(a) + len(b) + len(c)) * function.parts
    arguments = ", ".join(f"{type} %a{number}" for number in range(count_in))
    body = "\n".join(function.lines)
    return (
        f"define internal [{count} x {type}] @{name}({arguments}) noinline {{\nentry:\n{body}\n}}"
    )


def _numbers(function: Function, value: Value, kind: str) -> list[Value]:
    """The elements of a register as f64."""
    if kind == "tf32":
        mask = function.splat(0xFFFFE000, U32)
        cut = function.each(U32, f"and {function.vector(U32)} {{0}}, {{1}}", value, mask)
        return [converted(function, reinterpreted(function, cut, np.dtype(np.float32)), F64)]
    dtype = ELEMENTS[kind]
    bits = np.dtype(f"u{dtype.itemsize}")
    parts = [part_of(function, value, n, bits) for n in range(4 // dtype.itemsize)]
    return [converted(function, _seen_as(function, part, dtype), F64) for part in parts]


def _seen_as(function: Function, value: Value, dtype: np.dtype[Any]) -> Value:
    return Value(BF16, value.parts) if dtype == BF16 else reinterpreted(function, value, dtype)


def _sum_numbers(function: Function, value: Value, type: PtxType) -> list[Value]:
    if type.lanes == 2:
        halves = [part_of(function, value, half, U16) for half in range(2)]
        return [converted(function, _seen_as(function, each, type.value), F64) for each in halves]
    return [converted(function, reinterpreted(function, value, type.value), F64)]


def _rounded(function: Function, value: Value, type: PtxType, form: Form) -> Value:
    if type.kind == "float":
        return converted(function, value, type.value)
    if "satfinite" in form.flags:
        limits = np.iinfo(np.int32)
        for test, limit in (("ogt", limits.max), ("olt", limits.min)):
            edge = function.splat(float(limit), F64)
            text = f"fcmp {test} {function.vector(F64)} {{0}}, {{1}}"
            value = selected(function, function.each(BOOL, text, value, edge), edge, value)
    return converted(function, converted(function, value, I64), np.dtype(np.int32))


def _spill(function: Function, name: str, places: list[int], value: Value) -> None:
    """Each lane's number to its place in a matrix."""
    for part, lanes in enumerate(function.lanes()):
        type = function.vector(F64)
        for at, lane in enumerate(lanes):
            scalar = function.new(f"extractelement {type} {value.parts[part]}, i64 {at}")
            place = function.new(f"getelementptr double, ptr %{name}, i64 {places[lane]}")
            function.emit(f"store double {scalar}, ptr {place}, align 8")


def _fetched(function: Function, places: list[int]) -> Value:
    names: list[str] = []
    type = function.vector(F64)
    for lanes in function.lanes():
        row = "poison"
        for at, lane in enumerate(lanes):
            place = function.new(f"getelementptr double, ptr %z, i64 {places[lane]}")
            scalar = function.new(f"load double, ptr {place}, align 8")
            row = function.new(f"insertelement {type} {row}, double {scalar}, i64 {at}")
        names.append(row)
    return Value(F64, tuple(names))


def _product(function: Function, m: int, n: int, k: int) -> None:
    """z = x y, rows of y as vectors."""
    row = f"<{n} x double>"
    name = f"llvm.fma.v{n}f64"
    function.declare(name, f"declare {row} @{name}({row}, {row}, {row})")
    rows: list[str] = []
    for at in range(k):
        place = function.new(f"getelementptr double, ptr %y, i64 {at * n}")
        rows.append(function.new(f"load {row}, ptr {place}, align 8"))
    for i in range(m):
        total = "zeroinitializer"
        for at in range(k):
            place = function.new(f"getelementptr double, ptr %x, i64 {i * k + at}")
            scalar = function.new(f"load double, ptr {place}, align 8")
            first = function.new(f"insertelement {row} poison, double {scalar}, i64 0")
            spread = function.new(
                f"shufflevector {row} {first}, {row} poison, <{n} x i32> zeroinitializer"
            )
            total = function.new(
                f"call {row} @{name}({row} {spread}, {row} {rows[at]}, {row} {total})"
            )
        place = function.new(f"getelementptr double, ptr %z, i64 {i * n}")
        function.emit(f"store {row} {total}, ptr {place}, align 8")
